"""How large a summary is, and how texts are made to fit."""

from __future__ import annotations

import re

from agent.tokens import cut_to_tokens, estimate_text_tokens

STAND_IN_TOKENS = 512
"""The most that a summary written without a model has."""
_TOPIC_TOKENS = 40
_FEWEST_TOPIC_TOKENS = 10
_TOPIC_SHARE = 4
"""The topics have no more than one part in so many of what a summary is allowed."""
_GAP = " …"
_STUB = 16
"""Characters."""

_END = re.compile(r"[.!?](?=\s|$)|[。！？]|(?<=\S)(?=\n)")
"""Of a sentence, or of a line."""
_BARE_NUMBER = re.compile(r"\d{1,3}[.)]|[-*•]")
"""All that is left of a point of a list."""
_SEPARATOR = re.compile(r"[,;，、；]")


def size_of(content: str, topics: str) -> int:
    """What a summary is counted as: `Written.tokens`."""
    return estimate_text_tokens(content) + estimate_text_tokens(topics)


def topic_room(limit: int) -> int:
    """Tokens for the topics of a summary that may have so many."""
    return min(_TOPIC_TOKENS, max(_FEWEST_TOPIC_TOKENS, limit // _TOPIC_SHARE))


def shortened(text: str, tokens: int) -> str:
    """At most so many tokens, with a sign where something is missing if there is room for one."""
    if estimate_text_tokens(text) <= tokens:
        return text
    room = tokens - estimate_text_tokens(_GAP)
    if room < 1:
        return cut_to_tokens(text, max(0, tokens)).rstrip()
    cut = _without_stub(cut_to_tokens(text, room)).rstrip()
    # Estimates do not add up to the token where scripts are mixed.
    return cut + _GAP if estimate_text_tokens(cut + _GAP) <= tokens else cut


def up_to_a_sentence_end(cut: str) -> str:
    """An answer that ran into its limit, up to its last whole sentence or line, with a sign that more was to come.
    Empty where it has none."""
    ends = [end.end() for end in _END.finditer(cut)]
    whole = cut[: ends[-1]].rstrip() if ends else ""
    before, _, last = whole.rpartition("\n")
    if _BARE_NUMBER.fullmatch(last.strip()):
        whole = before.rstrip()
    return whole + _GAP if whole.strip() else ""


def _without_stub(cut: str) -> str:
    """A last line of little more than a label says nothing."""
    before, line_break, last = cut.rpartition("\n")
    return before if line_break and len(last) < _STUB and before.strip() else cut


def shortened_list(topics: str, tokens: int) -> str:
    """At most so many tokens, without half a topic where there is a whole one."""
    if estimate_text_tokens(topics) <= tokens:
        return topics
    cut = cut_to_tokens(topics, max(0, tokens))
    ends = [separator.start() for separator in _SEPARATOR.finditer(cut)]
    return cut[: ends[-1]].rstrip() if ends else cut.rstrip()


def storable(text: str) -> str:
    """As UTF-8 can hold it and SQLite's functions read it to the end: half of a surrogate pair becomes `?`."""
    if text.isascii():
        return text.replace("\0", " ")
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
