"""Renders transcripts for the dashboard: author and time, folded tool calls, and boundaries between sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from agent.messages import Message
from agent.redaction import own_rules, redact
from agent.untrusted import without_marks
from gateway.platforms.web.markdown import render_markdown_cached
from gateway.platforms.web.renderer import HtmlRenderer, redact_and_truncate, results_by_call, stored_call
from gateway.store.reports import SessionInfo

_MAX_CHARACTERS = 20_000
"""Longer messages are truncated."""

_MAX_BOUNDARIES = 5
"""Boundaries in a row; of many sessions without messages only the newest are shown."""


@dataclass(frozen=True, slots=True)
class SessionBoundary:
    """The boundary between two sessions."""

    session: SessionInfo
    left_out: int = 0
    """Earlier sessions without messages that are not shown."""


@dataclass(frozen=True, slots=True)
class TranscriptMessage:
    """A message with its tool calls."""

    id: str
    who: str
    by_model: bool
    at: float
    body: Markup | str
    """HTML for a message of the model, else plain text."""
    tools: list[Markup]
    attachments: int
    """Number of images and other parts that are not text."""


class TranscriptRenderer:
    """Renders messages. Many messages take milliseconds: call it in a thread."""

    def __init__(self, renderer: HtmlRenderer) -> None:
        self._renderer = renderer

    def messages(self, messages: Sequence[Message], person: str) -> list[TranscriptMessage]:
        """Render each message; a tool result is a part of its call, or separate if the call is missing."""
        results = results_by_call(messages)
        nested = {message.id for message in results.values()}
        return [self._message(message, person, results) for message in messages if message.id not in nested]

    def with_boundaries(
        self, messages: Sequence[Message], person: str, sessions: Sequence[SessionInfo], last: str
    ) -> list[SessionBoundary | TranscriptMessage]:
        """Render messages and the boundaries between their sessions, up to the session `last`."""
        known = {session.id: session for session in sessions}
        of_session = {message.id: message.session_id for message in messages}
        shown: list[SessionBoundary | TranscriptMessage] = []
        before = messages[0].session_id if messages else ""
        for message in self.messages(messages, person):
            if (now := of_session[message.id]) != before:
                shown += _boundaries(known, before, now)
                before = now
            shown.append(message)
        return [*shown, *(_boundaries(known, before, last) if last else ())]

    def _message(
        self, message: Message, person: str, results: Mapping[tuple[str, str], Message]
    ) -> TranscriptMessage:
        text = _shorten(without_marks(message.content))
        by_model = message.role == "assistant"
        tools = []
        for at, call in enumerate(message.tool_calls):
            view = stored_call(call, results.get((message.id, call.id)))
            tools.append(self._renderer.tool(view, f"{message.id}-{at}", shorten=_shorten))
        return TranscriptMessage(
            id=message.id,
            who=_who(message, person),
            by_model=by_model,
            at=message.created_at,
            body=render_markdown_cached(text) if by_model and text.strip() else text,
            tools=tools,
            attachments=sum(part.get("type") != "text" for part in message.parts),
        )


@lru_cache(maxsize=256)
def redact_text(text: str) -> str:
    """Redact secrets: the operator is not the author of the text."""
    return redact(text, own_rules())


@lru_cache(maxsize=256)
def _shorten(text: str) -> str:
    return redact_and_truncate(text, _MAX_CHARACTERS)


def _who(message: Message, person: str) -> str:
    match message.role:
        case "user":
            return message.name or person
        case "assistant":
            return "Hermes"
        case "tool":
            return f"Result of {message.name or 'a tool'}"


def _boundaries(known: Mapping[str, SessionInfo], before: str, now: str) -> Iterator[SessionBoundary]:
    """Yield the boundaries of all sessions between two, including sessions without messages."""
    line: list[SessionInfo] = []
    at: str | None = now
    while at is not None and at != before and at in known:
        line.append(known[at])
        at = known[at].parent_id
    if at != before:
        line = line[:1]  # a return to an earlier session
    shown = [session for session in reversed(line) if session.parent_id is not None]
    left_out = max(0, len(shown) - _MAX_BOUNDARIES)
    for session in shown[left_out:]:
        yield SessionBoundary(session, left_out)
        left_out = 0
