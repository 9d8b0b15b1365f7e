"""What was said, as an operator reads it: who and when, tool calls folded, and the borders between sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from markupsafe import Markup

from agent.messages import Message
from agent.redaction import own_rules, redact
from agent.untrusted import without_marks
from gateway.platforms.web.markdown import render_markdown_cached
from gateway.platforms.web.renderer import HtmlRenderer, beginning, stored_call
from gateway.platforms.web.templating import local_time
from gateway.platforms.web.tool_history import results_of_calls
from gateway.store.reports import SessionInfo

_LONGEST = 20_000
"""Of a message; more than that nobody reads on a page."""

_MOST_BORDERS = 5
"""In a row: the newest, where many sessions went by without a word."""

REASONS = {
    None: "First session",
    "compression": "Compacted: the window was filling up",
    "hygiene": "Compacted by session hygiene: the window was nearly full",
    "command": "Compacted on request",
    "reset": "Begun anew, without what was said before",
    "branch": "Branched off or stepped back (/branch, /retry, /undo, a restore)",
}


@dataclass(frozen=True, slots=True)
class Border:
    """Between two sessions."""

    session: SessionInfo
    reason: str
    when: str
    left_out: int = 0
    """Sessions before it in which nothing was said, and that are not shown."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message, with the tools it called."""

    id: str
    who: str
    by_model: bool
    at: float
    when: str
    body: Markup | str
    """Drawn, if the model wrote it; else plain text."""
    tools: list[Markup]
    attachments: int
    """Pictures and other parts that are not text."""


class Reader:
    """Makes them. Takes milliseconds for many messages: call it in a thread."""

    def __init__(self, views: HtmlRenderer) -> None:
        self._views = views

    def spoken(self, messages: Sequence[Message], person: str) -> list[Spoken]:
        """Results belong to their calls; one whose call is not among these stands alone."""
        results = results_of_calls(messages)
        placed = {message.id for message in results.values()}
        return [self._spoken(message, person, results) for message in messages if message.id not in placed]

    def with_borders(
        self, messages: Sequence[Message], person: str, sessions: Sequence[SessionInfo], last: str
    ) -> list[Border | Spoken]:
        """`last` is the session they are read up to: what came after the last message shows, too."""
        known = {session.id: session for session in sessions}
        of_session = {message.id: message.session_id for message in messages}
        shown: list[Border | Spoken] = []
        before = messages[0].session_id if messages else ""
        for spoken in self.spoken(messages, person):
            if (now := of_session[spoken.id]) != before:
                shown += _borders(known, before, now)
                before = now
            shown.append(spoken)
        return [*shown, *(_borders(known, before, last) if last else ())]

    def _spoken(self, message: Message, person: str, results: Mapping[tuple[str, str], Message]) -> Spoken:
        text = _bounded(without_marks(message.content))
        by_model = message.role == "assistant"
        return Spoken(
            id=message.id,
            who=_who(message, person),
            by_model=by_model,
            at=message.created_at,
            when=local_time(message.created_at),
            body=render_markdown_cached(text) if by_model and text.strip() else text,
            tools=[
                self._tool(message, at, results.get((message.id, call.id)))
                for at, call in enumerate(message.tool_calls)
            ],
            attachments=sum(part.get("type") != "text" for part in message.parts),
        )

    def _tool(self, message: Message, at: int, result: Message | None) -> Markup:
        view = stored_call(message.tool_calls[at], result)
        view = replace(view, result=_bounded(view.result))
        return self._views.tool(view, f"{message.id}-{at}")


@lru_cache(maxsize=256)
def discreet(text: str) -> str:
    """Others than its author look at it here."""
    return redact(text, own_rules())


@lru_cache(maxsize=256)
def _bounded(text: str) -> str:
    return beginning(text, _LONGEST)


def _who(message: Message, person: str) -> str:
    match message.role:
        case "user":
            return message.name or person
        case "assistant":
            return "Hermes"
        case "tool":
            return f"Result of {message.name or 'a tool'}"


def _borders(known: Mapping[str, SessionInfo], before: str, now: str) -> Iterator[Border]:
    """All sessions in between: in some of them nothing was said."""
    line: list[SessionInfo] = []
    at: str | None = now
    while at is not None and at != before and at in known:
        line.append(known[at])
        at = known[at].parent_id
    if at != before:
        line = line[:1]  # back in a session that was left before
    shown = [session for session in reversed(line) if session.parent_id is not None]
    left_out = max(0, len(shown) - _MOST_BORDERS)
    for session in shown[left_out:]:
        yield Border(session, REASONS[session.reason], local_time(session.created_at), left_out)
        left_out = 0
