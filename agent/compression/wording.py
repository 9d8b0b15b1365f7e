"""The vocabulary of a stretch of conversation, by who used it.

Long histories repeat their words. Searching the vocabulary for secrets and identifiers instead of every message keeps
a compaction linear and cheap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from agent.chat_text import call_of, text_of
from agent.compression.artifacts import find_effects, find_identifiers
from agent.compression.ledger import Ledger
from agent.compression.standing_instructions import find_instructions, telling_words
from agent.messages import ChatDict
from agent.untrusted import outside_words, own_words, without_marks

_RESULT_CHARACTERS = 64_000
"""Tool results are searched for identifiers from the newest back as far as this. Most of what they hold is noise."""

_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_ESCAPED_SIGNS = ('"', "\\", "/")

Words = dict[str, None]
"""Unique, the newest first."""


@dataclass(frozen=True, slots=True)
class Wording:
    said_by_user: Sequence[str]
    """Whole messages, the newest first."""
    user: Words
    assistant: Words
    arguments: Words
    results: Words

    def words(self) -> Iterable[str]:
        return chain(self.user, self.assistant, self.arguments, self.results)


def wording_of(messages: Sequence[ChatDict], pruned: Sequence[ChatDict]) -> Wording:
    """Of the messages as they were said, and of all that is left of them after pruning."""
    user: list[str] = []
    assistant: list[str] = []
    arguments: list[str] = []
    results: list[str] = []
    room = _RESULT_CHARACTERS
    for said, sent in zip(reversed(messages), reversed(pruned), strict=True):
        role = said["role"]
        if role == "user":
            text = text_of(said)
            user.append(own_words(text))
            # Others' words are no instructions of the user, and what they name the user has not named.
            if others := outside_words(text):
                results.append(others)
        elif role == "tool":
            text = without_marks(text_of(said if room > 0 else sent))
            room -= len(text)
            results.append(text)
        else:
            if text := text_of(said):
                assistant.append(text)
            if calls := said.get("tool_calls"):
                arguments += [call_of(call)[1] for call in reversed(calls)]
    return Wording(
        said_by_user=user,
        user=_words(user),
        assistant=_words(assistant),
        arguments=_words(map(_unescaped, arguments)),
        results=_words(map(_unescaped, results)),
    )


def find_entries(
    messages: Sequence[ChatDict],
    wording: Wording,
    has_effects: Callable[[str], bool],
    *,
    earlier_summary: str,
) -> Ledger:
    """What these messages add to the ledger. They must be free of secrets."""
    seen = [*find_identifiers(wording.assistant), *find_identifiers(wording.results)]
    named = [*find_identifiers(wording.user), *find_identifiers(wording.arguments)]
    return Ledger(
        instructions=tuple(_instructions(wording)),
        named=tuple(reversed(dict.fromkeys(named))),
        seen=tuple(reversed(dict.fromkeys([*seen, *find_identifiers(earlier_summary.split())]))),
        effects=tuple(dict.fromkeys(find_effects(messages, has_effects))),
    )


def _instructions(wording: Wording) -> list[str]:
    telling = telling_words(wording.user)
    if not telling:
        return []
    messages = [text for text in reversed(wording.said_by_user) if not telling.isdisjoint(text.split())]
    return list(dict.fromkeys(chain.from_iterable(map(find_instructions, messages))))


def _unescaped(text: str) -> str:
    """JSON writes a line break as a backslash and an n, which would pass for part of a path."""
    if "\\" not in text or text[:1] not in ("{", "["):
        return text
    return _ESCAPE.sub(lambda escape: escape[1] if escape[1] in _ESCAPED_SIGNS else " ", text)


def _words(texts: Iterable[str]) -> Words:
    return dict.fromkeys("\n".join(texts).split())
