"""Renders a conversation in the export formats."""

from __future__ import annotations

from agent.store import Overview
from gateway.cli.export_format import ConversationExport, Format, Jsonl, Markdown
from gateway.cli.sessions_format import Record


def as_jsonl(record: Record) -> str:
    return written(record, Jsonl(with_conversations=False))


def as_markdown(record: Record) -> str:
    return written(record, Markdown())


def written(record: Record, form: Format) -> str:
    overview = Overview(
        record.conversation,
        "A title",
        len(record.messages),
        len(record.sessions),
        record.conversation.created_at,
    )
    pieces = form.conversation(ConversationExport(overview, record.sessions, record.messages))
    return "".join([form.begin([overview], apart=False), *pieces, form.end()])
