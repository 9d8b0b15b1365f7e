"""The tools of one platform: what the model is offered, and one safe way to run what it asks for."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import structlog

from agent.aio import ForeignError, finish_despite_cancel, foreign_code
from agent.errors import LeaseLost, ToolError, UnknownTool
from agent.events import ToolFinished, ToolStarted, TurnEvent
from agent.messages import ChatDict, Message, ToolCall
from agent.redaction import redact
from agent.tokens import estimate_tools_tokens
from agent.tool import ApprovalRequest, Tool, ToolContext, did_you_mean
from agent.tool_support.workspace import Workspace
from agent.untrusted import strip_role_markers, wrap_untrusted

log = structlog.get_logger(__name__)

OUTPUTS = ".outputs"
"""The folder of the workspace that keeps long results whole."""

_HEAD_SHARE = 2 / 3
"""Of a long result, how much of what is shown comes from its beginning."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. `ok` is False if the call failed."""

    content: str
    ok: bool
    outside: bool = False
    """Others wrote it."""

    @property
    def as_read(self) -> str:
        """Return the text that the model reads."""
        return wrap_untrusted(self.content) if self.outside else strip_role_markers(self.content)


class Toolbox:
    """Runs calls and turns everything that can go wrong with one into a result the model can act on."""

    def __init__(self, tools: Sequence[Tool], *, result_limit: int = 12_000) -> None:
        self._tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        if len(self._tools) != len(tools):
            raise ValueError("Two tools have the same name.")
        self._result_limit = result_limit
        self.definitions: tuple[ChatDict, ...] = tuple(tool.definition for tool in self._tools.values())
        """In OpenAI form, in an order that never changes: the provider's cache depends on it."""

    @cached_property
    def tokens(self) -> int:
        """Estimated size of the definitions in each prompt."""
        return estimate_tools_tokens(self.definitions)

    def with_tools(self, more: Sequence[Tool]) -> Toolbox:
        """Return a toolbox with more tools. A tool whose name is taken is left out."""
        new = [tool for tool in more if tool.name not in self._tools]
        if not new:
            return self
        return Toolbox([*self._tools.values(), *new], result_limit=self._result_limit)

    @property
    def all(self) -> Sequence[Tool]:
        """Return the tools in order of their names."""
        return list(self._tools.values())

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """Run the call. Raises only CancelledError, and LeaseLost where another process has the conversation."""
        try:
            with foreign_code(ToolError, LeaseLost):
                result = await self._call(call, ctx)
        except ToolError as error:
            result = ToolResult(str(error), ok=False)
        except ForeignError as failure:
            # The story is for the log, not for the model. In a thread, because showing a traceback reads source files.
            ids = {"tool": call.name, "call_id": call.id, "conversation_id": ctx.conversation_id}
            await asyncio.to_thread(log.error, "tool.crashed", exc_info=failure.error, **ids)
            sentence = f"The tool `{call.name}` failed because of a bug, which was logged. Try another way."
            result = ToolResult(sentence, ok=False)
        return await asyncio.to_thread(self._as_read, result, call, ctx)

    async def _call(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no tool `{call.name}`. {did_you_mean(call.name, self._tools)}")
        arguments = _parse_arguments(call)
        valid = tool.validated(arguments)
        if tool.dangerous and ctx.approve:
            # The wait for the person does not count against the tool's time.
            exactly = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
            if refusal := await ctx.approve(ApprovalRequest(tool.name, exactly)):
                raise ToolError(refusal)
        try:
            async with asyncio.timeout(tool.timeout) as scope:
                content = await tool.call_validated(ctx, valid)
                return ToolResult(content or "(no output)", ok=True, outside=tool.outside)
        except ToolError as error:
            # A server's answer, a name in a folder: what goes wrong is told in words of others, too.
            return ToolResult(str(error), ok=False, outside=tool.outside)
        except TimeoutError as exc:
            if not scope.expired():
                raise
            doubt = " Part of it may have taken effect." if tool.effects else ""
            raise ToolError(
                f"`{tool.name}` took longer than {tool.timeout:g} s and was stopped.{doubt}"
            ) from exc

    def _as_read(self, result: ToolResult, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """Redact and truncate a result. Blocks: it may write a file.

        This is the only place where results are redacted: the model cannot repeat a secret that it never read, and
        answers, summaries, logs, exports and the file with the whole result are made from this text. Redacting comes
        before truncating, which could cut a key in half.
        """
        # Lone surrogates, as in undecodable file names, can be neither stored nor sent.
        content = redact(result.content.encode(errors="replace").decode())
        if len(content) > self._result_limit:
            head = int(self._result_limit * _HEAD_SHARE)
            tail = self._result_limit - head
            left_out = f"{len(content) - head - tail:,} of {len(content):,} characters left out here."
            pointer = self._keep_whole(content, call, ctx)
            content = f"{content[:head]}\n\n[… {left_out} {pointer} …]\n\n{content[-tail:]}"
        return replace(result, content=content)

    def _keep_whole(self, content: str, call: ToolCall, ctx: ToolContext) -> str:
        """Keep the content in the workspace, and return a sentence that says where."""
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call.id)[:64] or "call"
        try:
            path = Workspace(ctx.workspace).write_new(f"{OUTPUTS}/{name}.txt", content.encode())
        except ToolError as error:
            log.warning("tool.output_not_kept", tool=call.name, call_id=call.id, reason=error.detail)
            return "The full text could not be kept."
        how = ": use `read_file` with an offset" if "read_file" in self._tools else ""
        return f"The full text is in `{path}`{how}."


def choose_tools(
    available: Mapping[str, Tool],
    enabled: Sequence[str],
    platform_overrides: Mapping[str, Sequence[str]],
    platform: str,
) -> list[Tool]:
    """Return the tools of a platform: its own list, else its service's (`telegram` for `telegram/work`), else the
    common one. Raises UnknownTool."""
    for names in (enabled, *platform_overrides.values()):
        for name in names:
            if name not in available:
                raise UnknownTool(f"There is no tool `{name}`. {did_you_mean(name, available)}")
    service = platform.partition("/")[0]
    names = platform_overrides.get(platform, platform_overrides.get(service, enabled))
    return [available[name] for name in sorted(set(names))]


def _parse_arguments(call: ToolCall) -> dict[str, Any]:
    again = f"Call `{call.name}` again with one JSON object as its arguments."
    try:
        # Providers send an empty text for a call without arguments.
        arguments = json.loads(call.arguments.strip() or "{}")
    except json.JSONDecodeError as exc:
        near = call.arguments.strip()[max(0, exc.pos - 20) : exc.pos + 20]
        raise ToolError(
            f"the arguments are not valid JSON: {exc.msg[:1].lower()}{exc.msg[1:]} at line {exc.lineno}, "
            f"column {exc.colno} (near `{near}`). {again}"
        ) from exc
    except (ValueError, RecursionError) as exc:
        raise ToolError(f"the arguments are nested too deeply or hold a number too large. {again}") from exc
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments must be a JSON object, not {type(arguments).__name__}. {again}")
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError as exc:
        # Some models escape characters beyond the BMP in two halves and lose one.
        raise ToolError(f"the arguments hold half of a character (a lone surrogate). {again}") from exc
    return arguments


async def run_tools(
    toolbox: Toolbox, calls: Sequence[ToolCall], context: ToolContext
) -> AsyncGenerator[TurnEvent | Message, None]:
    """Run calls at the same time; those with effects one after the other. Yields events and stored results."""
    in_order = asyncio.Lock()

    async def run(call: ToolCall) -> tuple[ToolCall, ToolResult, float]:
        began, tool = time.perf_counter(), toolbox.get(call.name)
        async with in_order if tool and tool.effects else nullcontext():
            result = await toolbox.run(call, context)
        return call, result, time.perf_counter() - began

    for call in calls:
        yield ToolStarted(call.id, call.name, call.arguments)
    tasks = [asyncio.create_task(run(call)) for call in calls]
    try:
        for finished in asyncio.as_completed(tasks):
            call, result, seconds = await finished
            message = Message("tool", result.as_read, tool_call_id=call.id, name=call.name)
            yield (await finish_despite_cancel(context.store.append(context.session_id, [message])))[0]
            yield ToolFinished(call.id, call.name, result.ok, result.content, seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
