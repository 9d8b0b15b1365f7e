"""Messages that stay word for word wherever they are: the newest request, the newest answer, open options.

Options and choices are guessed from the form of the text. A wrong guess keeps a message for a few turns longer, or lets
it be summarised like any other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from agent.messages import ChatDict, text_of
from agent.untrusted import own_words

_FEWEST_OPTIONS = 2
_MAX_REPLIES_TO_OPEN_OPTIONS = 4
_LONGEST_REPLY = 600
"""Characters. A longer message is a new task."""
_MAX_SEARCHED_MESSAGES = 40

_LABEL_AREA = 24
_OPTION = re.compile(
    r"[\s*_#>|(]*(?:[-•·–—*]\s|(?:option\s+)?(?:\d{1,2}|[a-z])[.):\]|*]|[①-⑳]|\d\ufe0f?\u20e3)", re.I
)
_ASKS = re.compile(
    r"[?？؟]|\b(?:which|choose|pick|prefer|let me know|welche|wähl|sag mir|elige|choisi|scegli)", re.I
)
_QUESTION = re.compile(r"[?？؟]")
_SENTENCE = re.compile(r"(?:[^.!?？؟。\n]|\.(?=\d))+[.!?？؟。]?")
_ORDINAL = (
    r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last"
    r"|(?:erste|zweite|dritte|vierte|fünfte|sechste|siebte|achte|letzte)[nrs]?"
    r"|(?:premi|deuxi|troisi|quatri|derni|primer|segund|tercer|cuart|últim)\w{0,5})\b"
)
_CHOICE = re.compile(
    r"^\W*(?:option\s+)?[a-h]\W*$|\boption\s+[a-h]\b"
    rf"|\b(?:the|number|option|die|der|das|den|le|la|el|il|lo)\s+{_ORDINAL}"
    r"(?!\s+(?:thing|time|step|day|week|month|year|mal|tag|woche))"
    r"|\b(?:all|both|none|neither|either)\s+(?:of\s+(?:them|these|those|it)|two|three|four|five)\b",
    re.I,
)
_SHORT_CHOICE = re.compile(
    rf"\b(?:{_ORDINAL}|(?:both|all(?!\s+(?:good|right|clear|fine|set|ok))|none|neither|beide|alle|kein(?:e|en|er|s)?|ningun[oa]?)\b)",
    re.I,
)
_SHORT = 3
"""Words. In a sentence of so few, a single one is a choice."""
_CHOOSES = re.compile(
    r"\b(?:take|book|choose|pick|buy|prefer|go(?:ing)?\s+(?:with|for)|i['’]d\s+like|i\s+want|let['’]s\s+do|nehm\w{0,2}|nimm"
    r"|buch\w{0,2}|wähl\w{0,2}|lieber|möchte|ich\s+will|prends|prenons|choisi\w{0,3}|quiero|prefiero|elijo|reserva|prendo|voglio)\b",
    re.I,
)
_NUMBER = re.compile(
    r"(?<!\bin\s)(?<!\bat\s)(?<!\bon\s)(?<!\bby\s)(?<!\bum\s)(?<!\bam\s)(?<!\bab\s)(?<!\bbis\s)(?<!\bvor\s)"
    r"(?:(?<!\bfor\s)|(?<=\bgo\sfor\s)|(?<=\bgoing\sfor\s))"
    r"(?<!\bfür\s)(?<!\bnach\s)(?<!\bafter\s)(?<!\buntil\s)(?<!\bbefore\s)(?<!\bgegen\s)(?<!\babout\s)(?<![\d.,:/$€£-])"
    r"\b(\d{1,2})\b(?![.,:/-]\d|\s?(?:[%€$£°]|(?:h|hrs?|hours?|min|minutes?|seconds?|days?|weeks?|months?|years?|am|pm|uhr"
    r"|o['’]clock|stunden?|minuten?|tagen?|wochen?|monaten?|jahren?|euros?|dollars?|percent|prozent|people|persons?"
    r"|personen|nights?|nächten?|times|mal|km|kg)\b))",
    re.I,
)
"""Not a time, an amount or a date."""
_COMMON_WORDS = (
    r"aber|about|after|again|alle|alles|also|auch|back|because|been|before|being|both|could|"
    r"dann|dass|dein|diese|doch|does|done|each|eine|einen|einer|etwas|even|ever|every|"
    r"everything|first|from|ganz|gibt|give|good|gute|habe|haben|have|here|heute|hier|immer|"
    r"into|jetzt|just|kann|keep|kein|keine|know|later|like|long|machen|make|many|maybe|mehr|"
    r"mein|meine|mich|more|morgen|most|much|muss|must|nach|near|need|next|nicht|nichts|noch|"
    r"nothing|oder|ohne|once|only|other|over|same|sehr|sein|shall|should|sich|sind|some|"
    r"something|soon|still|such|sure|take|than|that|their|them|then|there|these|they|thing|"
    r"think|this|those|time|today|tomorrow|unter|until|very|viel|viele|vielleicht|wann|want|"
    r"warum|weil|well|wenn|werden|were|what|when|where|which|while|wieder|will|wird|with|wohl|"
    r"would|your|über"
)
_WORD = re.compile(rf"\b(?!(?:{_COMMON_WORDS})\b)\w{{4,40}}", re.I)
_DIGITS = re.compile(r"[0-9]{1,2}")


@dataclass(frozen=True, slots=True)
class Pinned:
    """Indices of messages that stay word for word."""

    request: int | None = None
    note: int | None = None
    """The engine's note about the request, right behind it."""
    answer: int | None = None
    """The answer that the request replies to; once the request is answered, its own answer."""
    offer: int | None = None


def find_pinned(messages: Sequence[ChatDict], unsaid: Collection[int]) -> Pinned:
    """Find the pinned messages. `unsaid` are the indices of messages that an engine wrote."""
    request = _newest(messages, len(messages), "user", unsaid)
    if request is None:
        return Pinned()
    note = request + 1 if request + 1 in unsaid else None
    answer = _newest(messages, len(messages), "assistant", unsaid)
    is_answered = answer is not None and answer > request
    offer = _open_offer(messages, len(messages) if is_answered else request, unsaid)
    return Pinned(request, note, answer, offer)


def offers_options(text: str) -> bool:
    """Return whether a message lists several options and asks which one to take."""
    return len(_options(text)) >= _FEWEST_OPTIONS and _ASKS.search(text) is not None


def has_chosen(reply: str, offer: str) -> bool:
    """Return whether a reply chooses an option: by its place, or by words that only this option has."""
    if len(reply) > _LONGEST_REPLY:
        return True
    options = _options(offer)
    labels = _labels(options)
    uses = Counter(word for option in options for word in _words(option))
    unique = [{word for word in _words(option) if uses[word] == 1} for option in options]
    for sentence in _SENTENCE.findall(reply):
        if _QUESTION.search(sentence):
            continue
        if _CHOICE.search(sentence) or not labels.isdisjoint(_NUMBER.findall(sentence)):
            return True
        is_short = len(sentence.split()) <= _SHORT
        if is_short and _SHORT_CHOICE.search(sentence):
            return True
        named, needed = _words(sentence), 1 if is_short or _CHOOSES.search(sentence) else 2
        if any(len(words & named) >= needed for words in unique):
            return True
    return False


def _open_offer(messages: Sequence[ChatDict], end: int, unsaid: Collection[int]) -> int | None:
    """Return the newest answer before `end` whose options are still open."""
    replies: list[str] = []
    said = (i for i in range(end - 1, -1, -1) if _is_said(messages[i]) and i not in unsaid)
    for index in islice(said, _MAX_SEARCHED_MESSAGES):
        text = text_of(messages[index])
        if messages[index]["role"] == "user":
            replies.append(own_words(text))
        elif offers_options(text):
            settled = len(replies) >= _MAX_REPLIES_TO_OPEN_OPTIONS or any(
                has_chosen(reply, text) for reply in replies
            )
            return None if settled else index
    return None


def _newest(messages: Sequence[ChatDict], before: int, role: str, unsaid: Collection[int]) -> int | None:
    for index in range(before - 1, -1, -1):
        if messages[index].get("role") == role and index not in unsaid and _is_said(messages[index]):
            return index
    return None


def _is_said(message: ChatDict) -> bool:
    """Return whether the user said it, or the assistant as an answer, not beside a tool call."""
    if message.get("role") == "assistant":
        return bool(message.get("content")) and not message.get("tool_calls")
    return message.get("role") == "user"


def _options(text: str) -> list[str]:
    return [line for line in text.splitlines() if _OPTION.match(line[:_LABEL_AREA])]


def _labels(options: Sequence[str]) -> set[str]:
    """Return the numbers of the options, or their positions if they have none."""
    found = (_OPTION.match(option[:_LABEL_AREA]) for option in options)
    numbers = {number for label in found if label for number in _DIGITS.findall(label[0])}
    return numbers or {str(place) for place in range(1, len(options) + 1)}


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
