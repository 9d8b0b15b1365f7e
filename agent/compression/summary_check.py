"""Checks a summary before it is used, in linear time.

- Copies of our own blocks and prompts are removed, and their marks defused.
- Orders to the model that the user did not give are removed.
- A quote attributed to the user must occur in a message of the user, or it loses its quotation marks; a sentence that
  claims that the user said it is removed unless a message is close to it. An earlier summary does not count as proof.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from typing import Literal

from agent.compression import ledger, prompt, summary_message
from agent.compression.revocations import speaker_in
from agent.compression.summary_message import MARKS as STATE_MARKS
from agent.untrusted import strip_role_markers

_MAX_QUOTES = 100
_MAX_SPEAKERS = 20
_CLOSE = 0.6
"""The share of its words that the user has used, from which on a quote is a paraphrase."""
_COPIED_WORDS = 6
_MIN_COPIED_SENTENCE = 4
_FIELD = re.compile(r"\{\w{1,20}\}")

_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_SENTENCE = re.compile(r"(?<=[.!?;])[\"”“»’')]{0,2}\s+|(?<=[。！？；])[”」』]?")
_BULLET = re.compile(r"\s*(?:[-*•·>]|\d{1,3}[.)])?\s*(?:\[[ xX]\]\s*)?")

_BLOCKS = ((ledger.BEGIN, ledger.END), STATE_MARKS)
_MARK_LINE = re.compile(
    r"\s*(?:={3,}\s*(?:END OF )?LEDGER\b[^\n]{0,60}"
    r"|-{3,}\s*(?:END OF )?(?:RECORD|SUMMARY SO FAR|EXTRACT)\s*-{3,})\s*",
    re.IGNORECASE,
)
_MARK = re.compile(
    r"\[\s{0,3}(?P<mark>(?:CONTEXT\s{1,3}COMPACTION|STAND-IN|STATE\s{1,3}CARRIED\s{1,3}OVER|END\s{1,3}OF\s{1,3}STATE|LCM\b"
    r"|Note: Some earlier conversation)[^\]\n]{0,200})\]",
    re.IGNORECASE,
)
_NOTE_AT_START = re.compile(
    r"(?P<lead>\s*(?:[-*•>]\s*)?)\[(?P<note>(?:USER|ASSISTANT|TOOL|SYSTEM|OUTSIDE|DATE|SUMMARY|EXTRACT)\b[^\[\]\n]{0,99}"
    r"|[^\[\]\n]{3,200}[:.])\](?!\()"
)
"""Labels of the record, and notes of the host, which are sentences."""

_SAID_BY_USER = re.compile(
    r"\[USER(?: [^\]\n]{1,60})?\] (?:\(\w{3} \d{4}-\d\d-\d\d \d\d:\d\d\) )?(?P<said>.+)"
)
"""A line of an extract. No other line begins with this label: each begins with one of its own."""
_SPOKE = (
    r"(?:say|says|said|ask|asks|asked|write|writes|wrote|tell|tells|told|insist|insists|insisted|state|states|stated"
    r"|request|requests|requested|demand|demands|demanded|reply|replies|replied|answer|answers|answered|instruct|instructs"
    r"|instructed|confirm|confirms|confirmed|sagte?|schrieb|schreibt|fragte?|bat|bittet|verlangte?|meinte?|antwortete?"
    r"|dijo|dice|pidió|pide|escribió|preguntó|dit|demandé?e?|écrit|detto|chiede|chiesto|scritto|disse|pediu|escreveu"
    r"|perguntou)\b"
)
_SAYING = re.compile(
    rf"(?<!that\s)(?<!which\s)(?<!was\s)(?<!were\s)(?<!been\s)(?<!got\s)\b{_SPOKE}"
    r"|\b(?:wants?|wanted|wishes|will|möchte|quiere|veut|vuole|quer)(?:\s(?:that|to))?[\s:,]{0,3}$"
    r"|\b(?:words|message|request|instruction|wish|worten|nachricht)\s?[:：]"
    r"|сказал|написал|просит|попросил|спросил|[说說](?!明)|写道|寫道|要求|[问問][道：:]|询问|詢問|提问|表示",
    re.IGNORECASE,
)
_SAID_BEHIND = re.compile(
    r"\s?(?:と(?:言|書|述|尋|頼|話|要求|依頼)|이?라고\s?(?:말|했|요청|물)|(?:gesagt|geschrieben|gefragt|verlangt)\b)",
    re.IGNORECASE,
)
_COLON = re.compile(r"\s?[:：]")
_USER = re.compile(
    r"\b(?:(?:users?|human)(?:['’]s)?\b|(?:they|he|she)\s(?:said|asked|wrote|told)\b"
    rf"|(?:customer|client|owner|person|kunde|kundin)\s(?:(?:has|had|also|then|later)\s)?(?={_SPOKE})"
    r"|(?:be)?nutzer(?:in|s)?\b|anwender(?:in|s)?\b|usuari[oa]\b|utilisateur\b|utente\b|usuário\b)"
    r"|пользовател|用户|使用者|ユーザー|사용자",
    re.IGNORECASE,
)
"""A client, a customer or an owner may be a thing. One that says something is the user."""
_OTHERS = re.compile(
    r"\b(?:assistant|agent|model|tools?|output|printed|prints|returned|returns|error|log|file|page|site|website|e?mail"
    r"|forwarded|pasted|test|tests|command|server|api|script|result|shows|reads|called|named|titled)\b|助手|工具|文件",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_OF_THE_USER = re.compile(
    r"constraint|preference|instruction|request|wish|vorgabe|wünsch|偏好|要求|约束", re.IGNORECASE
)
_QUOTE = re.compile(
    r"“([^“”\n]{1,600})”|„([^„“”\n]{1,600})[“”]|«([^«»\n]{1,600})»|「([^「」\n]{1,600})」|『([^『』\n]{1,600})』"
    r"|\"([^\"\n]{1,600})\"|(?<![\w'])'([^'\n]{1,600}(?:\w'\w[^'\n]{0,200}){0,5})'(?!\w)"
    r"|‘([^‘’\n]{1,600}(?:\w’\w[^‘’\n]{0,200}){0,5})’(?!\w)|‚([^‚‘’\n]{1,600})[‘’]|‹([^‹›\n]{1,600})›|›([^‹›\n]{1,600})‹"
    r"|»([^«»\n]{1,600})«|＂([^＂\n]{1,600})＂"
)
_GAP = re.compile(r"\[?(?:…|\.{3})\]?")

_NOT = r"(?:do\s+not|don['’]t|never|must\s+not|mustn['’]t|should\s+not|may\s+not|not\s+to)"
_FUNCTIONS = r"functions\b(?=\s*(?:$|[.,;:!\n]|and\b|or\b))"
"""The functions that a model can call. The lookahead tells them from functions of a program."""
_TEXT_ONLY = (
    r"(?:^|(?<=[.!?;:,\n])\s{0,3})[^\w\n]{0,9}(?:text[-\s]only|nur\s+text)\b(?=\s*(?:$|[.,;:!\n]|and\b|please|bitte))"
    r"|\b(?:respond|reply|answer|wants|wanted|demands|demanded|requires|insists\s+on|must\s+be|should\s+be)\b"
    r"(?:\s+\w{1,9}){0,3}?\s+text[-\s]only\b(?!\s+\w{0,20}(?:version|edition|file|mail|page|copy|copies))"
)
"""As an order: newsletters and browsers are text-only too."""
_TEXT_ONLY_WISH = re.compile(r"\btext[-\s]only\b|\bonly\s+text\b|\bnur\s+(?:\w+\s+)?text\b", re.IGNORECASE)
_ORDERS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # No tools
        rf"(?<!they\s)(?<!we\s)(?<!i\s){_NOT}\s+(?:call|use|invoke|run|make)\s+(?:(?:a|any|the|further|more|other|external)\s+)*"
        rf"(?:tools?\b(?!\s+(?:shed|box|belt))|function\s+calls?\b|{_FUNCTIONS})|\bno\s+(?:more\s+)?tool(?:\s+calls?|s)\b"
        rf"|\bavoid\s+(?:call|us|invok|runn|mak)ing\s+(?:(?:any|the|further|more|other|external)\s+)*(?:tools?\b|tool\s+calls?\b|function\s+calls?\b|{_FUNCTIONS})"
        r"|\b(?:tools?|functions)\s+(?:(?:must|should|may|can|shall)\s*(?:not|n['’]t|never)|are\s+not\s+to)\s+be\s+(?:used|called|invoked|run)\b"
        r"|\bkeine\s+(?:\w+\s+)?(?:tools?|werkzeuge|werkzeugaufrufe|tool-?aufrufe)\b"
        r"|(?:不要|不得|禁止|请勿|請勿|别|勿)(?:再)?(?:调用|使用|呼叫|調用)(?:任何)?工具|ツールを(?:呼び出さ|使わ|使用し)ない",
        # Text only
        rf"{_TEXT_ONLY}|\b(?:respond|reply|answer)\s+(?:only\s+)?(?:with|in)\s+(?:only\s+)?(?:plain\s+)?text\b"
        r"|\bresponse\s+must\s+(?:only\s+)?be\s+(?:only\s+)?(?:plain\s+)?text\b"
        r"|\bantwort\w{0,4}\s+(?:bitte\s+)?nur\s+(?:als\s+|mit\s+|reine[nr]?\s+)?text\b"
        r"|(?:仅|只|僅)(?:能)?(?:输出|回复|回覆|輸出|用|以)(?:纯|純)?(?:文本|文字)",
        # No answer
        rf"{_NOT}\s+(?:answer|reply\s+to|respond\s+to|talk\s+to|address)\s+(?:to\s+)?(?:the\s+|any\s+)?(?:user|person|human)\b"
        r"|\b(?:beantworte|antworte)\s+(?:dem|den|die)\s+(?:be)?nutzer\w{0,3}\s+(?:\w+\s+)?nicht\b"
        r"|(?:不要|请勿|請勿|勿|别)(?:回答|回复|回覆)(?:用户|用戶|使用者)",
        # Only a summary
        r"\b(?:write|output|return|produce|give)\s+(?:only\s+)?(?:the|a)\s+summary\s+(?:and\s+nothing\s+else|only)\b"
        r"|\bnothing\s+(?:else\s+)?(?:but|than)\s+(?:the|a)\s+summary\b",
        # Another role
        r"\bignore\s+(?:(?:all|any|the|your)\s+)*(?:previous|prior|above|earlier)\s+(?:instructions|messages|rules|prompts)\b",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CheckedSummary:
    text: str
    quotes: tuple[str, ...]
    """The user's words in the text: proof for the next summary, when the messages are gone."""


def check_summary(summary: str, said_by_user: Iterable[str]) -> CheckedSummary:
    """Check a summary. `said_by_user` has the user's words: messages, rules, quotes that were proven before."""
    said = list(said_by_user)
    lines = list(_sentences_by_line(without_own_marks(summary)))
    sentences = list(chain.from_iterable(lines))
    proof = _Proof(said, sentences)
    own = _own_words()
    orders = {order for order in _ORDERS if order.search(summary) and not any(map(order.search, said))}
    if any(map(_TEXT_ONLY_WISH.search, said)):
        orders.discard(_ORDERS[1])
    kept: list[str] = []
    proven: dict[str, None] = {}
    is_of_the_user = False
    for line in lines:
        if len(line) == 1 and _HEADING.match(line[0]):
            is_of_the_user = _OF_THE_USER.search(line[0]) is not None
        left = [
            checked
            for sentence in line
            if not _is_order(sentence, orders, own)
            and (checked := _with_true_quotes(sentence, proof, proven, of_the_user=is_of_the_user))
            is not None
        ]
        if left and (len(left) == len(line) or _WORD.search("".join(left))):
            # A line that lost its beginning is still a point of its list.
            lead = _lead(line[0]) if left[0] is not line[0] and not left[0].startswith(_lead(line[0])) else ""
            kept.append(lead + "".join(left).rstrip())
    return CheckedSummary("\n".join(kept).strip(), tuple(proven)[-_MAX_QUOTES:])


def extract_as_checked(extract: str, quotes: Iterable[str]) -> CheckedSummary:
    """Treat an extract as checked. The quotes and the user's messages that it shows stay proven."""
    runs = groupby(map(_SAID_BY_USER.match, extract.split("\n")), key=bool)
    said = (" ".join(line["said"] for line in lines if line) for is_said, lines in runs if is_said)
    return CheckedSummary(
        extract, tuple(dict.fromkeys((*(quote for quote in quotes if quote in extract), *said)))
    )


def quotes_in(text: str) -> list[str]:
    return [_quoted(found) for line in text.split("\n") for found in _QUOTE.finditer(line)]


def without_own_marks(text: str, *, labels: bool = False) -> str:
    """Remove copied blocks and defuse marks of our own. `labels`: keep labels such as [USER], for an extract."""
    lines: list[str] = []
    end = ""
    given = text.split("\n")
    ends = {line.strip(): number for number, line in enumerate(given)}
    for number, line in enumerate(given):
        plain = line.strip()
        if end:
            end = "" if plain == end else end
            continue
        end = next((last for first, last in _BLOCKS if plain == first and ends.get(last, -1) > number), "")
        if not end and not _MARK_LINE.fullmatch(plain[:120]):
            lines.append(_without_marks_in(line, labels=labels))
    return strip_role_markers("\n".join(lines)).strip()


def _without_marks_in(line: str, *, labels: bool) -> str:
    if "[" not in line:
        return line
    note = None if labels else _NOTE_AT_START.match(line)
    if note:
        line = f"{note['lead']}({note['note']}){line[note.end() :]}"
    return _MARK.sub(lambda mark: f"({mark['mark']})", line)


def _sentences_by_line(text: str) -> Iterator[list[str]]:
    """Split lines into sentences, each with the space behind it. No sentence ends inside a quote."""
    for line in text.split("\n"):
        quoted = iter([found.span() for found in _QUOTE.finditer(line)])
        quote = next(quoted, None)
        starts = [0]
        for found in _SENTENCE.finditer(line):
            while quote and quote[1] <= found.start():
                quote = next(quoted, None)
            if found.end() < len(line) and not (
                quote and quote[0] < found.start() and found.end() < quote[1]
            ):
                starts.append(found.end())
        yield [line[start:end] for start, end in zip(starts, [*starts[1:], len(line)], strict=True)]


def _lead(line: str) -> str:
    found = _BULLET.match(line)
    return found[0] if found else ""


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _grams(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return runs of three words; a shorter text is one run."""
    return {tuple(words[i : i + 3]) for i in range(max(1, len(words) - 2))} if words else set()


class _Proof:
    """The runs of words in a summary's quotes that the user wrote, found in one pass over the messages."""

    def __init__(self, said: Sequence[str], sentences: Iterable[str]) -> None:
        quotes = (
            _words(part) for each in sentences for quote in quotes_in(each) for part in _GAP.split(quote)
        )
        wanted: set[tuple[str, ...]] = set().union(*map(_grams, quotes))
        speakers = Counter(filter(None, map(speaker_in, said))).most_common(_MAX_SPEAKERS)
        names = [rf"\b{re.escape(name)}\b" for name, count in speakers if count > 1]
        self.user = re.compile("|".join((_USER.pattern, *names)), re.IGNORECASE)
        """Names of the user in a summary: in a group, everyone who spoke more than once."""
        self._messages: dict[tuple[str, ...], set[int]] = {run: set() for run in wanted}
        self._texts: dict[int, str] = {}
        self._vocabulary: set[str] = set()
        for index, text in enumerate(said):
            words = _words(text)
            self._vocabulary.update(words)
            if wanted:
                for size in (1, 2, 3):
                    runs = zip(*(words[offset:] for offset in range(size)), strict=False)
                    for run in wanted.intersection(runs):
                        self._messages[run].add(index)
                        self._texts[index] = f" {' '.join(words)} "

    def holds(self, quote: str) -> bool:
        """Return whether one message has the whole quote, in order. A gap in the quote matches anything."""
        parts = [words for part in _GAP.split(quote) if (words := _words(part))]
        runs = set().union(*map(_grams, parts))
        messages = set.intersection(*(self._messages[run] for run in runs)) if runs else set()
        return any(_has_in_order(self._texts[index], parts) for index in messages)

    def is_close(self, quote: str) -> bool:
        words = _words(quote)
        return sum(word in self._vocabulary for word in words) >= _CLOSE * len(words)


def _has_in_order(text: str, parts: Iterable[Sequence[str]]) -> bool:
    position = 0
    for words in parts:
        found = text.find(f" {' '.join(words)} ", position)
        if found < 0:
            return False
        position = found + 1
    return True


def _is_order(sentence: str, orders: Iterable[re.Pattern[str]], own: frozenset[tuple[str, ...]]) -> bool:
    if any(order.search(sentence) for order in orders):
        return True
    words = _words(sentence)
    runs = zip(*(words[offset:] for offset in range(_COPIED_WORDS)), strict=False)
    return not own.isdisjoint(runs) or tuple(word for word in words if not word.isdigit()) in own


@lru_cache(maxsize=1)
def _own_words() -> frozenset[tuple[str, ...]]:
    """Return word runs and short sentences from our prompts and from the text around a summary."""
    own: set[tuple[str, ...]] = set()
    for text in (*prompt.INSTRUCTIONS, *summary_message.OWN_WORDS):
        plain = " ".join(_FIELD.sub("", text).split())
        words = _words(plain)
        own.update(zip(*(words[offset:] for offset in range(_COPIED_WORDS)), strict=False))
        sentences = map(tuple, map(_words, _SENTENCE.split(plain)))
        own.update(sentence for sentence in sentences if len(sentence) >= _MIN_COPIED_SENTENCE)
    return frozenset(own)


def _with_true_quotes(
    sentence: str, proof: _Proof, proven: dict[str, None], *, of_the_user: bool
) -> str | None:
    """Unquote false quotes. None if the sentence attributes words to the user that are not even close."""
    pieces: list[str] = []
    position = 0
    for found in _QUOTE.finditer(sentence):
        quote = _quoted(found)
        if not _WORD.search(quote):
            continue
        attributed = _attribution(sentence, found, proof.user, of_the_user=of_the_user)
        if attributed == "no":
            continue
        if proof.holds(quote):
            proven[quote] = None
            continue
        if attributed == "said" and not proof.is_close(quote):
            return None
        if attributed == "named" and sentence.count("`", max(0, found.start() - 160), found.start()) % 2:
            continue  # part of a line of code
        pieces += [sentence[position : found.start()], quote]
        position = found.end()
    return "".join((*pieces, sentence[position:])) if pieces else sentence


def _quoted(found: re.Match[str]) -> str:
    return next(filter(None, found.groups()), "")


def _attribution(
    sentence: str, found: re.Match[str], user: re.Pattern[str], *, of_the_user: bool
) -> Literal["said", "named", "no"]:
    """Return whether the sentence says that the user said the quote, only names the user, or neither."""
    before, after = (
        sentence[max(0, found.start() - 160) : found.start()],
        sentence[found.end() : found.end() + 60],
    )
    last = deque(user.finditer(before), maxlen=1)
    if last:
        if _OTHERS.search(before, last[0].end()):
            return "no"
        is_said = (
            _SAYING.search(before, last[0].start())
            or _COLON.match(before, last[0].end())
            or _SAID_BEHIND.match(after)
        )
        return "said" if is_said else "named"
    if _OTHERS.search(before):
        return "no"
    if of_the_user:
        # The quote is the whole point of a list.
        return "named" if _WORD.search(before[len(_lead(before)) :] + after) else "said"
    behind = user.search(after)
    if behind is None or _OTHERS.search(after, 0, behind.start()):
        return "no"
    is_right_behind = len(_words(after[: behind.start()])) < 3
    return "said" if is_right_behind and _SAYING.search(after) else "named"
