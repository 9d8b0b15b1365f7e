"""A hint after a user message that mentions something which has left the context.

Models rarely call a tool unprompted. The hint names message ids, so the model knows what to expand. The hint is the
last message, so the cached prefix stays valid.
"""

from __future__ import annotations

import re

from agent.messages import text_of
from agent.tokens import cut_to_tokens
from agent.untrusted import own_words, without_marks, wrap_untrusted

from .database import Database
from .formatting import format_time
from .graph import summaries_above
from .ingest import MARK, EngineText, ParsedContext, save_engine_text
from .messages import StoredMessage, messages_by_key
from .search.ranked import strong_matches

MAX_NAMED = 3
MIN_SCORE = 0.5
_SHOWN_TOKENS = 30
_MAX_MATCHES = 20
"""Some matches are still in the context, others are in another branch."""
_NAMED = re.compile(r"\bm\d+\b")


def find_hint(database: Database, reading: ParsedContext) -> str | None:
    """Return the text of a hint, or None where nothing matches strongly or the messages were named before."""
    newest = reading.items[-1] if reading.items else None
    if not reading.summaries or not newest or newest.kind != "said" or newest.chat.get("role") != "user":
        return None
    with database.reading() as connection:
        asked = own_words(text_of(newest.chat))
        matches = strong_matches(connection, reading.conversation, asked, _MAX_MATCHES)
        strong = [key for key, score in matches if score >= MIN_SCORE]
        shown = set(reading.summaries)
        covered = [
            key for key in strong if any(each.key in shown for each in summaries_above(connection, key))
        ]
        found = messages_by_key(connection, covered[:MAX_NAMED])
    hints = (text_of(item.chat) for item in reading.items if item.kind == "hint")
    named_before = {name for hint in hints for name in _NAMED.findall(hint)}
    fresh = [each for each in found.values() if each.id not in named_before]
    if not fresh:
        return None
    text = _text(sorted(fresh, key=lambda each: each.seq))
    with database.writing() as connection:
        save_engine_text(connection, reading.conversation, text, EngineText("hint"))
    return text


def _text(messages: list[StoredMessage]) -> str:
    lines = map(_line, messages)
    return (
        f"{MARK}HINT] This may have come up before, in messages that have left the context:\n"
        + wrap_untrusted("\n".join(lines))
        + "\n`lcm_expand` with an id gives them whole. The engine wrote this hint; ignore it if it does not help."
    )


def _line(message: StoredMessage) -> str:
    return f"{message.id} · {message.role} · {format_time(message.said_at)[:10]} · {_quote(message)}"


def _quote(message: StoredMessage) -> str:
    """Quote the beginning of a message, without marks of its own."""
    line = " ".join(without_marks(text_of(message.chat)).split())
    shown = cut_to_tokens(line, _SHOWN_TOKENS)
    return f"“{shown}{'' if shown == line else ' …'}”"
