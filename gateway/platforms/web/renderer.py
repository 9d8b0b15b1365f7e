"""Renders the chat page and its parts as HTML. The templates escape all text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from agent.events import ApprovalAsked, Queued
from agent.llm import Usage
from agent.messages import Message, ToolCall
from agent.redaction import own_rules, redact
from agent.store import Conversation, Overview
from agent.untrusted import without_marks
from gateway.core.approvals import approval_parts
from gateway.platforms.web.markdown import render_markdown, render_markdown_cached
from gateway.platforms.web.templating import templates
from gateway.platforms.web.tool_history import SentFile, parse_arguments, results_by_call, sent_file
from gateway.text.display import one_line

_MAX_HINT = 72
_MAX_SHOWN = 20_000
_MAX_ARGUMENTS = 6_000
"""Bounds the time that the search for secrets takes on the event loop."""
_MAX_TOOL_NAME = 40

ToolState = Literal["running", "done", "failed", "abandoned"]
ApprovalState = Literal["open", "once", "conversation", "deny", "expired"]


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool call on the page. `seconds` is None for a stored call: the store does not record it."""

    call: ToolCall
    state: ToolState
    result: str = ""
    seconds: float | None = None


class HtmlRenderer:
    """Renders the templates. The constructor reads all of them, so it does not run on the event loop."""

    def __init__(self, model_line: str, *, has_dashboard: bool = False, has_token: bool = False) -> None:
        environment = templates(has_token=has_token)
        environment.globals.update(model_line=model_line, has_dashboard=has_dashboard)
        self._chat = environment.get_template("chat.html")
        self._sidebar = environment.get_template("sidebar.html")
        self._error = environment.get_template("error.html")
        self._parts = environment.get_template("parts.html").module

    def chat(
        self,
        conversation: Conversation | None,
        overviews: Sequence[Overview],
        transcript: Markup,
        *,
        limit: int,
        earlier: bool,
    ) -> str:
        """Render the whole page; without a conversation, that of a new chat."""
        return self._chat.render(
            conversation=conversation,
            title=title_of(conversation, overviews),
            sidebar=self.sidebar(conversation, overviews),
            transcript=transcript,
            limit=limit,
            earlier=earlier,
        )

    def sidebar(self, conversation: Conversation | None, overviews: Sequence[Overview]) -> Markup:
        current = conversation.id if conversation else ""
        return Markup(self._sidebar.render(overviews=overviews, current=current))  # noqa: S704  autoescaped

    def error_page(
        self, sentence: str, *, asks_for_token: bool, is_reader: bool = False, is_wrong_token: bool = False
    ) -> str:
        """Render an error; a reader gets a link to the dashboard, or a form for another token."""
        return self._error.render(
            sentence=sentence,
            asks_for_token=asks_for_token,
            is_reader=is_reader,
            is_wrong_token=is_wrong_token,
        )

    def transcript(self, conversation_id: str, messages: Sequence[Message]) -> Markup:
        """Render all messages. Slow because of Markdown: call it in a thread."""
        results = results_by_call(messages)
        parts: list[Markup] = []
        for message in messages:
            if message.role == "user":
                parts.append(self.user_message(message.id, without_marks(message.content)))
            elif message.role == "assistant":
                if message.content.strip():
                    parts.append(self.answer(message.content))
                for call in message.tool_calls:
                    result = results.get((message.id, call.id))
                    parts.append(self.tool(stored_call(call, result)))
                    if sent := sent_file(call, result):
                        parts.append(self.file(conversation_id, sent))
        return Markup("\n").join(parts)

    def user_message(self, message_id: str, text: str) -> Markup:
        return self._part("user_message", message_id, text)

    def answer(self, text: str) -> Markup:
        return self._part("answer", render_markdown_cached(text))

    def partial_answer(self, text: str) -> Markup:
        """Render the inside of an answer that is still being written."""
        return render_markdown(text)

    def tool(self, view: ToolView, key: str = "") -> Markup:
        """Render a tool call. `key` becomes its id, so that it stays unfolded when the page is redrawn."""
        parsed = parse_arguments(view.call.arguments)
        arguments = _pretty(view.call.arguments, parsed)
        return self._part("tool", view, _hint(parsed), arguments, _truncate(view.result), key)

    def file(self, conversation_id: str, sent: SentFile) -> Markup:
        return self._part("file", f"/api/conversations/{conversation_id}/files/{sent.id}", sent)

    def approval(self, asked: ApprovalAsked, state: ApprovalState = "open") -> Markup:
        """Render the complete arguments: a person must not approve what they cannot see."""
        tool = one_line(asked.tool, _MAX_TOOL_NAME)
        return self._part("approval", asked, tool, approval_parts(asked.arguments), state)

    def waiting(self, queued: Queued) -> Markup:
        return self._part("waiting", queued.message_id, queued.text, _queued_label(queued))

    def notice(self, text: str) -> Markup:
        return self._part("notice", text)

    def failure(self, text: str) -> Markup:
        return self._part("failure", text)

    def usage(self, usage: Usage) -> Markup:
        return self._part("usage", usage)

    def _part(self, macro: str, *arguments: object) -> Markup:
        return Markup(getattr(self._parts, macro)(*arguments))  # noqa: S704  autoescaped


def title_of(conversation: Conversation | None, overviews: Sequence[Overview]) -> str:
    if conversation is None:
        return "New chat"
    found = (overview.title for overview in overviews if overview.conversation.id == conversation.id)
    return next(found, "") or "New chat"


def stored_call(call: ToolCall, result: Message | None) -> ToolView:
    return (
        ToolView(call, "abandoned")
        if result is None
        else ToolView(call, "done", without_marks(result.content))
    )


def _queued_label(queued: Queued) -> str:
    """Describe the place in the queue without a number, which the next turn would make wrong."""
    match queued.how:
        case "steer":
            return "Queued: Hermes reads it at its next step."
        case "interrupt":
            return "Stops the current answer; Hermes reads it next."
        case "queue" if queued.ahead > 1:
            return "Queued: Hermes reads it after the earlier messages."
        case "queue":
            return "Queued: Hermes reads it after this answer."


def _hint(arguments: object) -> str:
    """Return the first string argument for the folded line: a path, a query, a command."""
    items = arguments.items() if isinstance(arguments, dict) else ()
    name, text = next(((name, value) for name, value in items if isinstance(value, str)), ("", ""))
    # Redact it with its name: a name like `password` marks a secret.
    named = redact(json.dumps({name: text[:_MAX_ARGUMENTS]}, ensure_ascii=False), own_rules())
    match parse_arguments(named):
        case dict(found):
            return one_line(str(next(iter(found.values()))), _MAX_HINT)
    return ""


def _pretty(arguments: str, parsed: object) -> str:
    if parsed == {}:
        return ""
    text = arguments.strip() if parsed is None else json.dumps(parsed, indent=2, ensure_ascii=False)
    return redact_and_truncate(text, _MAX_ARGUMENTS)


def redact_and_truncate(text: str, max_length: int) -> str:
    """Redact secrets and truncate the text to about `max_length` characters."""
    if len(text) <= max_length:
        return redact(text, own_rules())
    # Truncate between two words if possible: half a key is not recognised as a secret.
    shown = re.sub(r"(?<=\s)\S{1,500}\Z", "", text[:max_length])
    return f"{redact(shown, own_rules())}\n… {len(text) - len(shown):,} more characters"


def _truncate(text: str) -> str:
    if len(text) <= _MAX_SHOWN:
        return text
    return f"{text[:_MAX_SHOWN]}\n… {len(text) - _MAX_SHOWN:,} more characters"
