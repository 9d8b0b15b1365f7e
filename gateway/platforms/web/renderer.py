"""Renders the chat page and its parts as HTML: messages, tool calls, sent files, approvals, errors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jinja2 import Environment
from markupsafe import Markup

from agent.events import ApprovalAsked, Queued
from agent.llm import Usage
from agent.messages import Message, ToolCall
from agent.redaction import own_rules, redact
from agent.store import Conversation, Overview
from agent.tools.send_file import send_file, was_sent
from agent.untrusted import without_marks
from gateway.core.approvals import approval_parts
from gateway.platforms.web.markdown import render_markdown_cached
from gateway.text.display import escape_hidden, one_line

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


def _truncate(text: str) -> str:
    if len(text) <= _MAX_SHOWN:
        return text
    return f"{text[:_MAX_SHOWN]}\n… {len(text) - _MAX_SHOWN:,} more characters"


class HtmlRenderer:
    """Renders the chat page, its parts, and error pages."""

    def __init__(self, environment: Environment) -> None:
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

    def tool(self, view: ToolView, key: str = "", *, shorten: Callable[[str], str] = _truncate) -> Markup:
        """Render a tool call with a shortened result.

        `key` becomes its id, so that it stays unfolded when the page is redrawn.
        """
        parsed = parse_arguments(view.call.arguments)
        arguments = _pretty(view.call.arguments, parsed)
        return self._part("tool", view, _hint(parsed), arguments, shorten(view.result), key)

    def file(self, conversation_id: str, sent: SentFile) -> Markup:
        return self._part("file", f"/api/conversations/{conversation_id}/files/{sent.id}", sent)

    def approval(self, asked: ApprovalAsked, state: ApprovalState = "open") -> Markup:
        """Render the complete arguments: a person must not approve what they cannot see."""
        tool = one_line(asked.tool, _MAX_TOOL_NAME)
        return self._part("approval", asked, tool, approval_parts(asked.arguments), state)

    def queued(self, queued: Queued) -> Markup:
        return self._part("queued", queued)

    def notice(self, text: str) -> Markup:
        return self._part("notice", text)

    def failure(self, text: str) -> Markup:
        return self._part("failure", text)

    def usage(self, usages: Sequence[Usage]) -> Markup:
        """Render the sum of the model calls of a turn."""
        return self._part("usage", usages)

    def _part(self, macro: str, *arguments: object) -> Markup:
        return Markup(getattr(self._parts, macro)(*arguments))  # noqa: S704  autoescaped


def title_of(conversation: Conversation | None, overviews: Sequence[Overview]) -> str:
    if conversation is None:
        return "New chat"
    found = (overview.title for overview in overviews if overview.conversation.id == conversation.id)
    return next(found, "") or "New chat"


def stored_call(call: ToolCall, result: Message | None) -> ToolView:
    if result is None:
        return ToolView(call, "abandoned")
    return ToolView(call, "done", without_marks(result.content))


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


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of the workspace that the agent sent to the person."""

    path: str
    caption: str = ""

    @property
    def id(self) -> str:
        """Identifies the file in a URL. A path would let people ask for files that were not sent."""
        return hashlib.sha256(self.path.encode()).hexdigest()[:32]

    @property
    def name(self) -> str:
        """The file name, without characters that disguise its extension."""
        return escape_hidden(self.path.rsplit("/", 1)[-1])


def parse_arguments(arguments: str) -> object:
    """Parse the JSON arguments of a call; None if the model wrote invalid JSON."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return None


def results_by_call(messages: Sequence[Message]) -> dict[tuple[str, str], Message]:
    """Map (message id, call id) to the result: some providers repeat call ids in every turn."""
    asked: dict[str, str] = {}
    results: dict[tuple[str, str], Message] = {}
    for message in messages:
        asked.update({call.id: message.id for call in message.tool_calls})
        if message.tool_call_id in asked:
            results[asked[message.tool_call_id], message.tool_call_id] = message
    return results


def sent_file(call: ToolCall, result: Message | None) -> SentFile | None:
    """Return the file that a call sent, if any."""
    if call.name != send_file.name or result is None or not was_sent(result.content):
        return None
    match parse_arguments(call.arguments):
        case {"path": str(path), "caption": str(caption)}:
            return SentFile(path, caption)
        case {"path": str(path)}:
            return SentFile(path)
    return None


def sent_files(messages: Sequence[Message]) -> Iterator[SentFile]:
    results = results_by_call(messages)
    for message in messages:
        for call in message.tool_calls:
            if sent := sent_file(call, results.get((message.id, call.id))):
                yield sent
