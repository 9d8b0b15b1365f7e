"""The tools of one platform: what the model is offered, and one safe way to run what it asks for."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from agent.aio import finish_despite_cancel
from agent.errors import LeaseLost, ToolError, UnknownTool
from agent.events import ToolFinished, ToolStarted, TurnEvent
from agent.messages import ChatDict, Message, ToolCall
from agent.redaction import redact
from agent.tool import ApprovalRequest, Approve, Tool, ToolContext, did_you_mean
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

    def with_tools(self, more: Sequence[Tool]) -> Toolbox:
        """Together with others, which give way where a name is taken."""
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

    def has_effects(self, name: str) -> bool:
        """Return whether a call changes something outside the conversation."""
        return name in self._tools and self._tools[name].effects

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        """Run the call. Raises only CancelledError, and LeaseLost where another process has the conversation."""
        try:
            tool = self._find(call.name)
            arguments = _parse_arguments(call)
            # Once more in the call. Here what is wrong is told in our own words, and before a person is asked.
            tool.validated(arguments)
            if tool.dangerous and ctx.approve:
                await _ask_first(ctx.approve, tool, arguments)
            result = await self._call(tool, arguments, ctx)
        except ToolError as error:
            result = ToolResult(str(error), ok=False)
        except asyncio.CancelledError as exc:
            if _being_cancelled():
                raise
            result = await _crashed(call, ctx, exc)
        except LeaseLost:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as exc:  # noqa: BLE001 - foreign code: no error of a tool ends the turn, and `sys.exit()` does not end the process
            result = await _crashed(call, ctx, exc)
        # The only place where results are redacted: the model cannot repeat a secret that it never read, and answers,
        # summaries, logs, exports and the file with the whole result are made from this text. Redact before
        # truncating, which could cut a key in half.
        content = await asyncio.to_thread(redact, _storable(result.content))
        return replace(result, content=await self._bounded(content, call, ctx))

    def _find(self, name: str) -> Tool:
        if name not in self._tools:
            raise ToolError(f"there is no tool `{name}`. {did_you_mean(name, self._tools)}")
        return self._tools[name]

    async def _call(self, tool: Tool, arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        scope = asyncio.timeout(tool.timeout)
        try:
            async with scope:
                content = await tool.call(ctx, arguments)
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

    async def _bounded(self, content: str, call: ToolCall, ctx: ToolContext) -> str:
        if len(content) <= self._result_limit:
            return content
        head = int(self._result_limit * _HEAD_SHARE)
        tail = self._result_limit - head
        left_out = f"{len(content) - head - tail:,} of {len(content):,} characters left out here."
        pointer = await self._keep_whole(content, call, ctx)
        return f"{content[:head]}\n\n[… {left_out} {pointer} …]\n\n{content[-tail:]}"

    async def _keep_whole(self, content: str, call: ToolCall, ctx: ToolContext) -> str:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", call.id)[:64] or "call"
        data = content.encode()
        try:
            path = await asyncio.to_thread(Workspace(ctx.workspace).write_new, f"{OUTPUTS}/{name}.txt", data)
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
    """The tools of a platform: its own list if it has one, else its service's (`telegram` for `telegram/work`), else
    the common one. Raises UnknownTool."""
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
    if not _is_encodable(arguments):
        raise ToolError(f"the arguments hold half of a character (a lone surrogate). {again}")
    return arguments


async def _ask_first(approve: Approve, tool: Tool, arguments: dict[str, Any]) -> None:
    """The wait for the person does not count against the tool's time."""
    exactly = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    if refusal := await approve(ApprovalRequest(tool.name, exactly)):
        raise ToolError(refusal)


async def _crashed(call: ToolCall, ctx: ToolContext, exc: BaseException) -> ToolResult:
    """The story is for the log, not for the model. In a thread, because showing a traceback reads source files."""
    ids = {"tool": call.name, "call_id": call.id, "conversation_id": ctx.conversation_id}
    await asyncio.to_thread(log.error, "tool.crashed", exc_info=exc, **ids)
    return ToolResult(
        f"The tool `{call.name}` failed because of a bug, which was logged. Try another way.", ok=False
    )


def _being_cancelled() -> bool:
    """Return whether this task is being cancelled, rather than something a tool was waiting for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _is_encodable(arguments: dict[str, Any]) -> bool:
    """Some models escape characters beyond the BMP in two halves and lose one."""
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _storable(content: str) -> str:
    """Lone surrogates, as in undecodable file names, can be neither stored nor sent."""
    return content.encode(errors="replace").decode()


async def run_tools(
    toolbox: Toolbox, calls: Sequence[ToolCall], context: ToolContext
) -> AsyncGenerator[TurnEvent | Message, None]:
    """Calls with effects keep their order among themselves."""
    in_order = asyncio.Lock()

    async def run(call: ToolCall) -> tuple[ToolCall, ToolResult, float]:
        began = time.perf_counter()
        if toolbox.has_effects(call.name):
            async with in_order:
                result = await toolbox.run(call, context)
        else:
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
