"""Finds what a conversation touched: identifiers, files and addresses in text, and calls that changed something."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from agent.chat_text import call_of, text_of
from agent.messages import ChatDict
from agent.untrusted import without_marks

_MAX_IDENTIFIER = 80
_SHORTEST_NUMBER = 5
_MAX_URL = 200
_MAX_EFFECTS = 200
_MAX_IDENTIFIERS = 500
"""More than a ledger has room for."""
_SHOWN_ARGUMENTS = 120
_SHOWN_RESULT = 60

_CANDIDATE = re.compile(
    r"""https?://[^\s"'<>()\[\]{}|\\^`]+"""
    # What is followed by a quote and a colon is a key of a JSON object.
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
"""A booking code may well have no digit in it."""
_ADDRESS = re.compile(r"@|^[/~.\\]|[\d_.]|[/\\].*[/\\]")
"""A path, not `and/or`."""
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[A-Za-z]")

_OWN_ID = re.compile(r"msg_[0-9a-z]{26}")
"""Bounded messages name the id of the whole one. That is no concern of the person."""

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
    """Codes, ids, numbers, paths, file names, addresses: each once, in order, until there are more than enough.

    Give the vocabulary, not the text.
    """
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


def find_effects(messages: Sequence[ChatDict], has_effects: Callable[[str], bool]) -> list[str]:
    """One line for each of the newest calls that changed something, with the beginning of its result."""
    lines: list[str] = []
    results: dict[str, ChatDict] = {}
    for message in reversed(messages):
        if message["role"] == "tool":
            results[message["tool_call_id"]] = message
            continue
        for call in reversed(message.get("tool_calls") or ()):
            name, arguments = call_of(call)
            if has_effects(name):
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
    """Judged by the name alone: whatever does not plainly read is taken to change something."""
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
