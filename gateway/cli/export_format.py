"""Formats of exported conversations: JSONL and Markdown, produced piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from agent.messages import Message
from agent.redaction import redact
from agent.store import Overview, Session
from gateway.cli.output import one_line
from gateway.cli.sessions_format import SessionBreak, about, entries


@dataclass(frozen=True, slots=True)
class ConversationExport:
    """A conversation to export, with its secrets redacted."""

    overview: Overview
    sessions: Sequence[Session]
    messages: Iterable[Message]

    @property
    def title(self) -> str:
        return title_of(self.overview)

    @property
    def about(self) -> str:
        return about(self.overview.conversation, self.overview.messages, self.overview.sessions)


class Format(Protocol):
    suffix: str
    every_session: bool
    """Whether the format includes abandoned branches."""

    def begin(self, listed: Sequence[Overview], *, apart: bool) -> str:
        """Return the text before the conversations. `apart`: each conversation has its own file."""
        ...

    def conversation(self, export: ConversationExport) -> Iterator[str]: ...

    def end(self) -> str: ...


class Jsonl:
    """One JSON line per message with all its fields, after an optional line for the conversation."""

    suffix = ".jsonl"

    def __init__(self, *, with_conversations: bool = True) -> None:
        self._with_conversations = with_conversations
        self.every_session = with_conversations

    def begin(self, listed: Sequence[Overview], *, apart: bool) -> str:
        return ""

    def conversation(self, export: ConversationExport) -> Iterator[str]:
        if self._with_conversations:
            sessions = [asdict(session) for session in export.sessions]
            yield _line({"conversation": asdict(export.overview.conversation), "sessions": sessions})
        for message in export.messages:
            yield _line(asdict(message))

    def end(self) -> str:
        return ""


class Markdown:
    suffix = ".md"
    every_session = False

    def __init__(self) -> None:
        self._between = ""

    def begin(self, listed: Sequence[Overview], *, apart: bool) -> str:
        return ""

    def conversation(self, export: ConversationExport) -> Iterator[str]:
        yield f"{self._between}# {export.title}\n\n{export.about}\n"
        self._between = "\n"
        for entry in entries(export.messages, export.sessions):
            if isinstance(entry, SessionBreak):
                yield f"\n---\n\n*{entry.sentence}*\n"
                continue
            yield f"\n**{entry.who}** · {entry.when}\n"
            if entry.text:
                yield f"\n{entry.text}\n"
            if entry.calls:
                yield "\n" + "".join(f"- `{call}`\n" for call in entry.calls)

    def end(self) -> str:
        return ""


def title_of(overview: Overview) -> str:
    return one_line(redact(overview.title), 80) or "An empty conversation"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"
