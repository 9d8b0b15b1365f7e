"""Checks and clean-up of values before they are stored."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.errors import StoreError
from agent.messages import Message
from agent.store import Session, Split
from agent.untrusted import own_words

TITLE_LENGTH = 80


_MAX_READ = 1_000
"""How many characters of a message are read for its title."""

_MARKDOWN = re.compile(
    r"^(?:#{1,6} |> )|\*\*(?!\s)([^*]+)(?<!\s)\*\*|`{1,3}([^`]+)`{1,3}|~~([^~]+)~~|(?<!\w)\*([^\s*][^*]*)\*(?!\w)"
)
"""Markdown marks that a title drops; not underscores, which are part of names in programs."""


def check_appended(messages: Sequence[Message]) -> None:
    """Accept messages and notes only: other kinds belong to the context of a child session."""
    strange = {message.kind for message in messages} - {"said", "note"}
    if strange:
        raise ValueError(
            f"only `said` and `note` messages can be appended, not {sorted(strange)}; use split()"
        )


def check_context(split: Split) -> None:
    """Refuse duplicates, and new messages that would count as said in the child session."""
    ids = context_ids(split)
    if len(set(ids)) < len(ids):
        raise ValueError("the context of a split contains a message twice")
    if any(isinstance(entry, Message) and entry.kind == "said" for entry in split.context):
        raise ValueError("a split keeps a `said` message by its id and does not write it again")


def check_same_conversation(wanted: Session, left: Session) -> None:
    """Refuse a session of another conversation."""
    if wanted.conversation_id != left.conversation_id:
        raise StoreError(f"{wanted.id} is a session of another conversation.")


def context_ids(split: Split) -> list[str]:
    return [entry if isinstance(entry, str) else entry.id for entry in split.context]


_CONTEXT_END = "[End of that. To you:]"
"""Ends the group context before a message (`gateway/chat/group_context.py`)."""


def title_from(text: str | None) -> str:
    """Return the beginning of a text on one line without simple Markdown, which a title does not render."""
    said = own_words(text or "").rpartition(_CONTEXT_END)[2]
    line = _MARKDOWN.sub(_without_marks, " ".join(said[:_MAX_READ].split()))
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _without_marks(found: re.Match[str]) -> str:
    return next((inside.strip() for inside in found.groups() if inside), "")


def storable(text: str) -> str:
    """Replace lone surrogates, which broken JSON escapes produce and UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
