"""What every store holds to, whatever it keeps its messages in."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.errors import StoreError
from agent.messages import Message
from agent.store import Session, Split
from agent.untrusted import own_words

TITLE_LENGTH = 80


_LOOKED_AT = 1_000
"""Characters: a title needs no more, and a message may have very many."""

_MARKS = re.compile(
    r"^(?:#{1,6} |> )|\*\*(?!\s)([^*]+)(?<!\s)\*\*|`{1,3}([^`]+)`{1,3}|~~([^~]+)~~|(?<!\w)\*([^\s*][^*]*)\*(?!\w)"
)
"""Not underscores: names in programs have them."""


def check_appended(messages: Sequence[Message]) -> None:
    """Only what was said, and notes: nothing could ever reach another kind outside a child's context."""
    strange = {message.kind for message in messages} - {"said", "note"}
    if strange:
        raise ValueError(f"only what was said and notes are appended, not {sorted(strange)}; use split()")


def check_context(split: Split) -> None:
    """Each message once, and no new row that would also count as said in the child."""
    ids = context_ids(split)
    if len(set(ids)) < len(ids):
        raise ValueError("a message stands twice in the context of a split")
    if any(isinstance(entry, Message) and entry.kind == "said" for entry in split.context):
        raise ValueError("a message that was said is kept in a split by its id, not written anew")


def check_same_conversation(wanted: Session, left: Session) -> None:
    """The live pointer never leads into somebody else's conversation."""
    if wanted.conversation_id != left.conversation_id:
        raise StoreError(f"{wanted.id} is a session of another conversation.")


def context_ids(split: Split) -> list[str]:
    return [entry if isinstance(entry, str) else entry.id for entry in split.context]


_ASIDE = "[End of that. To you:]"
"""In a group, what was overheard stands before it (`gateway/chat/group_context.py`)."""


def title_from(text: str | None) -> str:
    """The beginning of a text, on one line, without the simple marks of Markdown: a title is shown as it is."""
    said = own_words(text or "").rpartition(_ASIDE)[2]
    line = _MARKS.sub(_unmarked, " ".join(said[:_LOOKED_AT].split()))
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def _unmarked(found: re.Match[str]) -> str:
    return next((inside.strip() for inside in found.groups() if inside), "")


def storable(text: str) -> str:
    """Without lone surrogates: broken JSON escapes make them, and UTF-8 cannot hold them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
