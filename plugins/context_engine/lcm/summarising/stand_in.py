"""The summary that needs no model: the beginnings of what was said, in as little space as is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from agent.compression.fallback_summary import extract
from agent.compression.truncate import fair_cap
from agent.messages import ChatDict
from agent.tokens import estimate_text_tokens
from agent.untrusted import strip_role_markers

from ..summaries import Written
from .measure import STAND_IN_TOKENS, shortened, shortened_list, size_of, storable, topic_room
from .sources import Sources
from .topics import topics_of

_ROOM_FOR_AN_EXTRACT = 64
"""Tokens. In less, the beginning of the first message says more than the beginnings of all."""
_EXTRACT_SHARE = 0.9
"""An extract is about as large as it is asked to be, and its end must not be cut off."""
_SMALLEST = 16
_TOKENS_FOR_EACH = 24
"""So that a message is shown with a few words of it."""
_NO_WORDS = "[nothing was said in words]"
_GAP = "…"


def stand_in(sources: Sources, target: int) -> Written:
    """Smaller than its sources wherever these have a token, and empty only where they have less than two."""
    limit = max(0, min(STAND_IN_TOKENS, target, sources.size - 1))
    text = _text(sources, limit)
    topics = topics_of(sources, topic_room(limit)) if limit >= _ROOM_FOR_AN_EXTRACT else ""
    content = shortened(text, limit - estimate_text_tokens(topics)).strip()
    if not content:
        content = next((each for each in (_NO_WORDS, _GAP) if estimate_text_tokens(each) <= limit), "")
        topics = shortened_list(topics, limit - estimate_text_tokens(content))
    return Written("stand_in", content, topics, size_of(content, topics))


def _text(sources: Sources, limit: int) -> str:
    room = int((limit - topic_room(limit)) * _EXTRACT_SHARE)
    if sources.kind == "condensed":
        text = _beginnings([chat["content"] for chat in sources.chats], room)
    elif limit < _ROOM_FOR_AN_EXTRACT:
        text = "\n".join(sources.record())
    else:
        text = extract(_shown(sources.chats, room // _TOKENS_FOR_EACH), room)
    return storable(strip_role_markers(text))


def _shown(chats: Sequence[ChatDict], most: int) -> Sequence[ChatDict]:
    """From the whole stretch, where there are too many: what people said before what tools returned."""
    if len(chats) <= most:
        return chats
    said = [chat for chat in chats if chat["role"] != "tool"] or chats
    return said[:: -(-len(said) // max(1, most))]


def _beginnings(contents: Sequence[str], room: int) -> str:
    """Of each child, without labels: these would pile up with every level."""
    cap = fair_cap([estimate_text_tokens(content) for content in contents], room, _SMALLEST)
    return "\n".join(filter(None, (shortened(content, cap) for content in contents)))
