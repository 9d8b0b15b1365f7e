"""A short hint behind a user's message that speaks of something which has left the context.

A tool that is merely offered goes unused. The hint names the messages, so that the model need not guess what to look
for. It stands at the end, so the cached prefix stays as it is.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from agent.messages import text_of
from agent.tokens import cut_to_tokens
from agent.untrusted import own_words, without_marks, wrap_untrusted

from .database import Database
from .graph import is_beneath
from .ingest import MARK, Reading, remember_hint
from .messages import Stored, messages_by_key
from .search import strong_matches

MOST_NAMED = 3
STRONG = 0.5
"""Of a score between 0 and 1."""
_SHOWN_TOKENS = 30
_LOOKED_AT = 20
"""Matches. Some are still in the context, some lie elsewhere."""
_NAMED = re.compile(r"\bm\d+\b")


def hint_for(database: Database, reading: Reading) -> str | None:
    """None where nothing matches strongly, or where it was said already."""
    if not reading.summaries or not reading.items or reading.items[-1].chat.get("role") != "user":
        return None
    newest = reading.items[-1]
    if newest.kind != "said":
        return None
    with database.reading() as connection:
        asked = own_words(text_of(newest.chat))
        matches = strong_matches(connection, reading.conversation, asked, None, _LOOKED_AT)
        strong = [key for key, score in matches if score >= STRONG]
        beneath = [key for key in strong if is_beneath(connection, key, reading.summaries)]
        found = messages_by_key(connection, beneath[:MOST_NAMED])
    fresh = [each for each in found.values() if each.id not in _named_before(reading)]
    if not fresh:
        return None
    text = _text(sorted(fresh, key=lambda each: each.seq))
    with database.writing() as connection:
        remember_hint(connection, reading.conversation, text)
    return text


def _named_before(reading: Reading) -> set[str]:
    hints = (text_of(item.chat) for item in reading.items if item.kind == "hint")
    return {name for text in hints for name in _NAMED.findall(text)}


def _text(messages: list[Stored]) -> str:
    lines = map(_line, messages)
    return (
        f"{MARK}HINT] This may have come up before, in messages that have left the context:\n"
        + wrap_untrusted("\n".join(lines))
        + "\n`lcm_expand` with an id gives them whole. Nobody wrote this hint; ignore it if it does not help."
    )


def _line(message: Stored) -> str:
    day = datetime.fromtimestamp(message.said_at, UTC)
    return f"{message.id} · {message.role} · {day:%Y-%m-%d} · {_words(message)}"


def _words(message: Stored) -> str:
    """They are quoted, be it of a page that somebody else wrote; hence the marks around all of them."""
    line = " ".join(without_marks(text_of(message.chat)).split())
    shown = cut_to_tokens(line, _SHOWN_TOKENS)
    return f"“{shown}{'' if shown == line else ' …'}”"
