"""Finds what a conversation touched: identifiers, files and addresses in text, and calls that changed something."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from agent.chat_text import text_of
from agent.messages import ChatDict

_MAX_IDENTIFIER = 80
_MAX_URL = 200
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
_NUMBER = re.compile(r"#\d+|\+?\d{5,}|\d{2,}(?:-\d{2,}){2,}|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?")
_FILE_NAME = re.compile(r"[\w.+~-]*[A-Za-z0-9_-]{2}\.[a-z][a-z0-9]{0,4}")
_CODE = re.compile(r"[A-Z]{6}")
"""A booking code may well have no digit in it."""
_TELLING_OF_A_PATH = re.compile(r"^[/~.\\]|[\d_.]|[/\\].*[/\\]")

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
    """Codes, ids, numbers, paths, file names, addresses: each once, in order. Give the vocabulary, not the text."""
    found: dict[str, None] = {}
    for word in words:
        if word.isalpha() and not word.isupper():
            continue
        for candidate in _CANDIDATE.findall(word):
            identifier = candidate.rstrip(".,:;!?-#+/\\")
            if _is_identifier(identifier):
                found[identifier] = None
    return list(found)


def find_effects(messages: Iterable[ChatDict], has_effects: Callable[[str], bool]) -> list[str]:
    """One line for each call that changed something, with the beginning of its result."""
    lines: list[str] = []
    unanswered: dict[str, int] = {}
    for message in messages:
        if message.get("role") == "tool":
            line = unanswered.pop(message.get("tool_call_id") or "", None)
            if line is not None:
                lines[line] += f" -> {_clip(text_of(message), _SHOWN_RESULT)}"
            continue
        # Some models number their calls from zero in every turn: an id counts only until somebody speaks again.
        unanswered = {}
        for call in message.get("tool_calls") or ():
            function = call["function"]
            if has_effects(function["name"]):
                unanswered[call["id"]] = len(lines)
                lines.append(f"{function['name']}({_clip(function['arguments'], _SHOWN_ARGUMENTS)})")
    return lines


@lru_cache(maxsize=1024)
def changes_something(tool_name: str) -> bool:
    """Judged by the name alone: whatever does not plainly read is taken to change something."""
    words = {word.lower() for word in _NAME_WORDS.findall(tool_name)}
    return not words.isdisjoint(_CHANGING.split()) or words.isdisjoint(_READING.split())


def _is_identifier(text: str) -> bool:
    if "://" in text:
        return len(text) <= _MAX_URL
    if not 3 <= len(text) <= _MAX_IDENTIFIER or _DATE_OR_TIME.fullmatch(text) or _OWN_ID.fullmatch(text):
        return False
    if text.isdigit() or not any(map(str.isalpha, text)):
        return _NUMBER.fullmatch(text) is not None
    if "/" in text or "\\" in text:
        return _TELLING_OF_A_PATH.search(text) is not None
    if "@" in text:
        return True
    if any(map(str.isdigit, text)):
        return len(text) > 3 and _AMOUNT.fullmatch(text) is None
    return (_FILE_NAME.fullmatch(text) or _CODE.fullmatch(text)) is not None


def _clip(text: str, characters: int) -> str:
    # No more of a long text is looked at than can be shown.
    line = " ".join(text[: 4 * characters].split())
    return line if len(line) <= characters else line[: characters - 1] + "…"
