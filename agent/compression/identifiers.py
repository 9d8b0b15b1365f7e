"""Finds what a conversation touched: identifiers, files and addresses in text, and calls that changed something."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from agent.messages import ChatDict, call_of, text_of
from agent.untrusted import without_marks

_MAX_IDENTIFIER = 80
_SHORTEST_NUMBER = 5
_MAX_URL = 200
_MAX_EFFECTS = 200
_MAX_IDENTIFIERS = 500
_SHOWN_ARGUMENTS = 120
_SHOWN_RESULT = 60

_CANDIDATE = re.compile(
    r"""https?://[^\s"'<>()\[\]{}|\\^`]+"""
    # A word followed by a quote and a colon is a key of a JSON object.
    r"""|[A-Za-z0-9_@~/\\.+\#][A-Za-z0-9_@~/\\.:+\#-]*+(?!["']\s*:)"""
)
_DATE_OR_TIME = re.compile(r"\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?(?:T[\d:.+Zz-]*)?|\d{1,2}(?::\d{2}){1,2}")
_AMOUNT = re.compile(r"[\d.,:]+[A-Za-z]{0,3}|\d{1,3}-[a-z]+|[a-z]+-\d{1,2}")
"""20th, 5pm, 300kg, 24-hour."""
_NUMBER = re.compile(
    rf"#\d+|\+?\d{{{_SHORTEST_NUMBER},}}|\d{{2,}}(?:-\d{{2,}}){{2,}}|\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?"
)
_FILE_NAME = re.compile(r"[\w.+~-]*[A-Za-z0-9_-]{2}\.[a-z][a-z0-9]{0,4}")
_CODE = re.compile(r"[A-Z]{6}")
_ADDRESS = re.compile(r"@|^[/~.\\]|[\d_.]|[/\\].*[/\\]")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[A-Za-z]")

_LABELS = (
    "invoice order room ticket case booking reservation confirmation account flight train gate seat platform "
    "table apartment apt flat suite locker customer client contract policy claim licen[cs]e passport visa "
    "tracking parcel package shipment serial model sku article batch lot build version release port issue pr bug "
    "patient member membership reference ref code pin extension ext project channel unit plate rechnung auftrag "
    "bestellung zimmer raum fall buchung konto flug zug gleis sitz platz tisch wohnung vertrag paket aktenzeichen "
    "kennzeichen kunde seriennummer factura pedido habitación vuelo tren mesa reserva cuenta expediente contrato "
    "facture commande chambre vol dossier compte réservation contrat fattura ordine camera volo tavolo "
    "prenotazione conto fatura quarto voo conta счёт счет заказ комната рейс договор билет"
).replace(" ", "|")
_DATE = r"(?:[0-3]?\d(?:\.[01]?\d\.|/[0-3]?\d/|-[01]?\d-)(?:19|20)\d\d|\d{4}-\d\d-\d\d|\d{1,2}(?:am|pm|st|nd|rd|th))\b"
_VALUE = rf"(?!{_DATE})(?=[\w./-]{{0,24}}\d)[A-Za-z0-9](?:[A-Za-z0-9/.-]{{0,30}}[A-Za-z0-9])?"
_MARKER = r"(?:nr|num|number|nummer|id|code|n°|nº|№|номер)\b\.?|no(?:\.|(?=\s?#))|[#№]"
"""A plain "no" does not count: "there is no 5pm slot"."""
_PHRASE = re.compile(
    # Invoice 4711, room 12b, order no. 77-1, flight LH 400
    rf"\b(?:{_LABELS})(?:\s?(?:{_MARKER}|no\b))?[\s:#]{{1,3}}(?-i:[A-Z]{{1,3}}\s)?{_VALUE}"
    # Whatever no. 5
    rf"|\b[^\W\d_]{{2,24}}\s(?:{_MARKER})\s?#?{_VALUE}|\b[^\W\d_]{{2,20}}(?:nummer|nr\.?)[\s:]{{1,3}}{_VALUE}"
    # DE89 3704 0044 0532 0130 00
    r"|(?-i:\b[A-Z]{2}\d{2}(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?\b)"
    # +49 170 1234567, (030) 123456, 0170/1234567
    rf"|(?<![\w./-])(?!{_DATE})(?:\+\d|\(0\d|0\d)[\d ()/.-]{{5,20}}\d(?!\w)"
    # Python 3.11, v2.3
    rf"|\b(?-i:[Vv]ersion|[A-Z][A-Za-z+#]{{2,20}}) (?!{_DATE})v?\d{{1,4}}(?:\.\d{{1,4}}){{1,3}}\b"
    r"(?!\s?(?:[€$£%]|[Ee]uros?\b|EUR|USD|k?g\b|k?m\b|[h]\b))"
    r"|\bv\d{1,4}(?:\.\d{1,4}){0,3}\b"
    r"|(?:发票|订单|房间|航班|合同|账号|编号|单号|發票|訂單|注文|部屋|주문|송장)(?:番号|번호|号|號)?[:：]?\s?[A-Za-z0-9][A-Za-z0-9-]{1,30}",
    re.IGNORECASE,
)  # fmt: skip
_PHRASE_BEHIND = re.compile(
    # The 4711 invoice
    rf"\b(?:the|our|my|your|this|that)\s((?!{_DATE})[A-Z]{{0,4}}-?\d{{3}}[A-Za-z0-9/-]{{0,28}}\s(?:{_LABELS}))\b",
    re.IGNORECASE,
)
_MOST_PHRASE = 60
_AROUND = 50
"""Characters on each side of a number in which its phrase begins and ends."""
_DIGITS = re.compile(r"\d+")
_MAX_PHRASE_SEARCH = 200_000

_OWN_ID = re.compile(r"msg_[0-9a-z]{26}")
"""Ids of original messages, which truncated messages mention. They are not the user's identifiers."""

_READING = (
    "get list search read find fetch lookup look view show check calculate calc compute think query grep ls cat "
    "describe status count browse inspect estimate preview summarize summarise translate convert recall help info "
    "stat glob"
)
_CHANGING = (
    "add apply approve book buy cancel change commit create delete deploy edit exec execute forget insert install "
    "invite kill merge modify move order patch pay post publish push put remember remove rename replace restart run "
    "save schedule send set start stop store submit transfer update upload write"
)
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def find_identifiers(words: Iterable[str]) -> list[str]:
    """Return codes, ids, numbers, paths, file names and addresses, each once, from a vocabulary."""
    found: dict[str, None] = {}
    for word in words:
        if len(found) >= _MAX_IDENTIFIERS:
            break
        if (word.isalpha() and not word.isupper()) or (word.isdigit() and len(word) < _SHORTEST_NUMBER):
            continue
        for candidate in _CANDIDATE.findall(word):
            identifier = candidate.rstrip(".,:;!?-#+/\\")
            if _is_identifier(identifier):
                found[identifier] = None
    return list(found)


def find_phrases(texts: Iterable[str]) -> list[str]:
    """Return identifiers such as `invoice 4711`, each once. Give the newest text first."""
    found: dict[str, str] = {}
    room = _MAX_PHRASE_SEARCH
    for text in texts:
        if room <= 0 or len(found) >= _MAX_IDENTIFIERS:
            break
        room -= len(text)
        near = list(_around_digits(text))
        patterns = (_PHRASE, _PHRASE_BEHIND)
        for phrase in chain.from_iterable(pattern.finditer(part) for part in near for pattern in patterns):
            plain = " ".join(phrase[phrase.re.groups].split()).rstrip(".")
            if len(plain) <= _MOST_PHRASE:
                found.setdefault(plain.casefold(), plain)
    return list(found.values())


def _around_digits(text: str) -> Iterator[str]:
    """Yield the text around numbers, because searching all of it is slow."""
    start = end = 0
    for digits in _DIGITS.finditer(text):
        if digits.start() > end + _AROUND:
            if end:
                yield text[start : end + _AROUND]
            start = max(0, digits.start() - _AROUND)
        end = digits.end()
    if end:
        yield text[start : end + _AROUND]


def find_effects(messages: Sequence[ChatDict]) -> list[str]:
    """Return a line for each of the newest calls that changed something, with the beginning of its result."""
    lines: list[str] = []
    results: dict[str, ChatDict] = {}
    for message in reversed(messages):
        if message["role"] == "tool":
            results[message["tool_call_id"]] = message
            continue
        for call in reversed(message.get("tool_calls") or ()):
            name, arguments = call_of(call)
            if changes_something(name):
                result = without_marks(text_of(results.get(call["id"], {})))
                lines.append(
                    f"{name}({_clip(arguments, _SHOWN_ARGUMENTS)}) -> {_clip(result, _SHOWN_RESULT)}"
                )
        if len(lines) >= _MAX_EFFECTS:
            break
        # Some models number their calls from zero in every turn: an id means nothing beyond its group.
        results.clear()
    return lines[::-1]


@lru_cache(maxsize=1024)
def changes_something(tool_name: str) -> bool:
    """Guess by its name whether a tool changes something. A name that does not say counts as yes."""
    words = {word.lower() for word in _NAME_WORDS.findall(tool_name)}
    return not words.isdisjoint(_CHANGING.split()) or words.isdisjoint(_READING.split())


def _is_identifier(text: str) -> bool:
    if not 3 <= len(text) <= _MAX_IDENTIFIER:
        return "://" in text and len(text) <= _MAX_URL
    if "/" in text or "\\" in text or "@" in text:
        return _ADDRESS.search(text) is not None and not _DATE_OR_TIME.fullmatch(text)
    if not _DIGIT.search(text):
        return (_FILE_NAME.fullmatch(text) or _CODE.fullmatch(text)) is not None
    if _LETTER.search(text):
        return len(text) > 3 and not (
            _AMOUNT.fullmatch(text) or _DATE_OR_TIME.fullmatch(text) or _OWN_ID.fullmatch(text)
        )
    return _NUMBER.fullmatch(text) is not None and not _DATE_OR_TIME.fullmatch(text)


def _clip(text: str, characters: int) -> str:
    # No more of a long text is looked at than can be shown.
    line = " ".join(text[: 4 * characters].split())
    return line if len(line) <= characters else line[: characters - 1] + "…"
