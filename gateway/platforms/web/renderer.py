"""Everything a person sees, as HTML. The templates escape; no other file writes markup."""

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
from gateway.platforms.web.tool_history import SentFile, parsed_arguments, results_of_calls, sent_file
from gateway.text.display import one_line

_LONGEST_HINT = 72
_LONGEST_SHOWN = 20_000
_LONGEST_ARGUMENTS = 6_000
"""They are looked through for secrets before they are shown, while others wait."""
_LONGEST_TOOL_NAME = 40

ToolState = Literal["running", "done", "failed", "abandoned"]
ApprovalState = Literal["open", "once", "conversation", "deny", "expired"]


@dataclass(frozen=True, slots=True)
class ToolView:
    """A tool call as it is shown. The store keeps no seconds, so an old call has none."""

    call: ToolCall
    state: ToolState
    result: str = ""
    seconds: float | None = None


class HtmlRenderer:
    """The templates. All are read here: later would be file work on the event loop."""

    def __init__(self, model_line: str, *, has_dashboard: bool = False, has_token: bool = False) -> None:
        environment = templates(has_token=has_token)
        environment.globals.update(model_line=model_line, has_dashboard=has_dashboard)
        self._chat = environment.get_template("chat.html")
        self._sidebar = environment.get_template("sidebar.html")
        self._problem = environment.get_template("problem.html")
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
        """The whole page; without a conversation, the beginning of a new one."""
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

    def problem(
        self, sentence: str, *, asks_for_token: bool, is_reader: bool = False, is_wrong_token: bool = False
    ) -> str:
        """A reader may go back to the dashboard, or come in with another token."""
        return self._problem.render(
            sentence=sentence,
            asks_for_token=asks_for_token,
            is_reader=is_reader,
            is_wrong_token=is_wrong_token,
        )

    def transcript(self, conversation_id: str, messages: Sequence[Message]) -> Markup:
        """All of it, Markdown included: call it in a thread."""
        results = results_of_calls(messages)
        parts: list[Markup] = []
        for message in messages:
            if message.role == "user":
                parts.append(self.said(message.id, without_marks(message.content)))
            elif message.role == "assistant":
                if message.content.strip():
                    parts.append(self.answer(message.content))
                for call in message.tool_calls:
                    result = results.get((message.id, call.id))
                    parts.append(self.tool(stored_call(call, result)))
                    if sent := sent_file(call, result):
                        parts.append(self.file(conversation_id, sent))
        return Markup("\n").join(parts)

    def said(self, message_id: str, text: str) -> Markup:
        return self._part("said", message_id, text)

    def answer(self, text: str) -> Markup:
        return self._part("answer", render_markdown_cached(text))

    def unfinished(self, text: str) -> Markup:
        """The inside of an answer that is still being written."""
        return render_markdown(text)

    def tool(self, view: ToolView, key: str = "") -> Markup:
        """`key` becomes its id, where a page is drawn again and what was unfolded must stay so."""
        parsed = parsed_arguments(view.call.arguments)
        arguments = _pretty(view.call.arguments, parsed)
        return self._part("tool", view, _hint(parsed), arguments, _bounded(view.result), key)

    def file(self, conversation_id: str, sent: SentFile) -> Markup:
        return self._part("file", f"/api/conversations/{conversation_id}/files/{sent.id}", sent)

    def approval(self, asked: ApprovalAsked, state: ApprovalState = "open") -> Markup:
        """The whole command, however long: what is not seen cannot be approved."""
        tool = one_line(asked.tool, _LONGEST_TOOL_NAME)
        return self._part("approval", asked, tool, approval_parts(asked.arguments), state)

    def waiting(self, queued: Queued) -> Markup:
        return self._part("waiting", queued.message_id, queued.text, _what_becomes_of(queued))

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


def _what_becomes_of(queued: Queued) -> str:
    """Without numbers: they would be wrong once the next turn begins."""
    match queued.how:
        case "steer":
            return "Queued: Hermes reads it at its next step."
        case "interrupt":
            return "This ends the answer; Hermes reads it next."
        case "queue" if queued.ahead > 1:
            return "Queued: Hermes reads it after the messages before it."
        case "queue":
            return "Queued: Hermes reads it after this answer."


def _hint(arguments: object) -> str:
    """The first text among the arguments, for the folded line: a path, a query, a command."""
    items = arguments.items() if isinstance(arguments, dict) else ()
    name, text = next(((name, value) for name, value in items if isinstance(value, str)), ("", ""))
    # With its name, by which a secret may be known.
    named = redact(json.dumps({name: text[:_LONGEST_ARGUMENTS]}, ensure_ascii=False), own_rules())
    match parsed_arguments(named):
        case dict(found):
            return one_line(str(next(iter(found.values()))), _LONGEST_HINT)
    return ""


def _pretty(arguments: str, parsed: object) -> str:
    if parsed == {}:
        return ""
    text = arguments.strip() if parsed is None else json.dumps(parsed, indent=2, ensure_ascii=False)
    return beginning(text, _LONGEST_ARGUMENTS)


def beginning(text: str, longest: int) -> str:
    """Without secrets, and so much of it."""
    if len(text) <= longest:
        return redact(text, own_rules())
    # Between two words, if possible: half a key does not look like one.
    shown = re.sub(r"(?<=\s)\S{1,500}\Z", "", text[:longest])
    return f"{redact(shown, own_rules())}\n… {len(text) - len(shown):,} more characters"


def _bounded(text: str) -> str:
    if len(text) <= _LONGEST_SHOWN:
        return text
    return f"{text[:_LONGEST_SHOWN]}\n… {len(text) - _LONGEST_SHOWN:,} more characters"
