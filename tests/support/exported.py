"""Renders a conversation in the export formats."""

from __future__ import annotations

from collections.abc import Sequence

from agent.messages import Message
from agent.store import Conversation, Overview, Session
from gateway.cli.export_writer import jsonl, markdown
from gateway.cli.sessions_format import Record


def record_of(
    conversation: Conversation, messages: Sequence[Message], sessions: Sequence[Session] = ()
) -> Record:
    """Return a record whose secrets are not redacted."""
    overview = Overview(conversation, "A title", len(messages), len(sessions), conversation.created_at)
    return Record(overview, sessions, messages)


def as_jsonl(record: Record) -> str:
    return "".join(jsonl([record], whole=False))


def as_markdown(record: Record) -> str:
    return "".join(markdown([record]))
