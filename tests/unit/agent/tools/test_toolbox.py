"""One call: after any failure the model gets a sentence and the turn continues."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.errors import LeaseLost, ToolError, UnknownTool
from agent.messages import ToolCall
from agent.tool import ApprovalRequest, ToolContext, tool
from agent.toolbox import Toolbox, ToolResult, choose_tools
from agent.tools.read_file import read_file


@tool()
async def echo(ctx: ToolContext, text: str = "") -> str:
    """Say it again."""
    return text


@tool()
async def refuse(ctx: ToolContext) -> str:
    """Say no."""
    raise ToolError("not on a Sunday.")


@tool()
async def break_down(ctx: ToolContext) -> str:
    """Fail."""
    raise RuntimeError("the password is swordfish")


@tool()
async def leave(ctx: ToolContext) -> str:
    """End the process."""
    raise SystemExit(3)


@tool()
async def interrupt(ctx: ToolContext) -> str:
    """End the process, too."""
    raise KeyboardInterrupt


@tool()
async def lose_lease(ctx: ToolContext) -> str:
    """Write to a conversation that another process has taken over."""
    raise LeaseLost("(conv_1)")


@tool()
async def slip(ctx: ToolContext) -> str:
    """Run into a limit of its own."""
    raise TimeoutError


@tool()
async def await_something_cancelled(ctx: ToolContext) -> str:
    """Await a future that is cancelled."""
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.cancel()
    return await future


@tool(timeout=0.01)
async def dawdle(ctx: ToolContext) -> str:
    """Never end."""
    await asyncio.Event().wait()
    return ""


@tool(timeout=0.01, effects=True)
async def dawdle_with_effects(ctx: ToolContext) -> str:
    """Never end, but do something."""
    await asyncio.Event().wait()
    return ""


TOOLS = [
    slip,
    echo,
    refuse,
    break_down,
    leave,
    interrupt,
    lose_lease,
    await_something_cancelled,
    dawdle,
    dawdle_with_effects,
]


async def ask(ctx: ToolContext, name: str, arguments: str = "{}", *, call_id: str = "call_1") -> ToolResult:
    return await Toolbox(TOOLS).run(ToolCall(call_id, name, arguments), ctx)


def test_definitions_are_sorted() -> None:
    """The model always sees one order of tools: the provider's cache depends on it."""
    names = [definition["function"]["name"] for definition in Toolbox(TOOLS).definitions]
    assert names == sorted(names)
    assert Toolbox(TOOLS).definitions == Toolbox(TOOLS[::-1]).definitions


def test_two_tools_of_one_name_are_refused() -> None:
    """One would silently hide the other."""
    with pytest.raises(ValueError, match="same name"):
        Toolbox([echo, echo])


def test_tools_are_found_by_name() -> None:
    """A name that the model made up is none."""
    toolbox = Toolbox(TOOLS)
    assert toolbox.get("echo") is echo
    assert toolbox.get("made_up") is None


async def test_a_good_call(ctx: ToolContext) -> None:
    """The result is what the tool returned."""
    assert await ask(ctx, "echo", '{"text": "hello"}') == ToolResult("hello", ok=True)


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
async def test_a_call_without_arguments(ctx: ToolContext, arguments: str) -> None:
    """Providers send nothing or an empty object; a result is never empty, which some of them refuse."""
    assert await ask(ctx, "echo", arguments) == ToolResult("(no output)", ok=True)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("ecko", "{}", "there is no tool `ecko`. Did you mean `echo`?"),
        ("zzz", "{}", "there is no tool `zzz`. Known are: await_something_cancelled, break_down, dawdle,"),
        (
            "echo",
            '{"text": "a" "b"}',
            'expecting \',\' delimiter at line 1, column 14 (near `{"text": "a" "b"}`)',
        ),
        ("echo", '{"text": "a', "not valid JSON: unterminated string starting at at line 1, column 10"),
        ("echo", "{'text': 1}", "expecting property name enclosed in double quotes at line 1, column 2"),
        ("echo", "[1]", "must be a JSON object, not list. Call `echo` again"),
        ("echo", "[" * 100_000, "nested too deeply"),
        ("echo", '{"text": ' + "1" * 5_000 + "}", "a number too large"),
        ("echo", '{"text": 1}', "`text`: input should be a valid string, not 1."),
        ("echo", '{"txt": ""}', "`txt` is not a parameter. Did you mean `text`?"),
        ("echo", '{"text": "\\ud83d"}', "hold half of a character (a lone surrogate)"),
        ("refuse", "{}", "The tool could not do that: not on a Sunday."),
        ("dawdle", "{}", "`dawdle` took longer than 0.01 s and was stopped."),
        ("dawdle_with_effects", "{}", "was stopped. Part of it may have taken effect."),
    ],
)
async def test_what_goes_wrong_is_a_sentence(
    ctx: ToolContext, name: str, arguments: str, expected: str
) -> None:
    """A result that is not ok, with what to do."""
    result = await ask(ctx, name, arguments)
    assert not result.ok
    assert expected in result.content
    assert len(result.content) < 500


@tool(dangerous=True)
async def risk(ctx: ToolContext, what: str) -> str:
    """Do something dangerous."""
    return what


async def test_a_person_is_not_asked_about_arguments_that_do_not_fit(ctx: ToolContext) -> None:
    """The model is told what is wrong; approving the call would have led to nothing."""
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> str:
        asked.append(request)
        return ""

    asking = replace(ctx, approve=approve)
    for arguments in ("{}", '{"what": 7}', '{"what": "it", "more": 1}', "[]", "{"):
        assert not (await Toolbox([risk]).run(ToolCall("c", "risk", arguments), asking)).ok
    assert asked == []
    assert (await Toolbox([risk]).run(ToolCall("c", "risk", '{"what": "it"}'), asking)).ok
    assert [request.tool for request in asked] == ["risk"]


@pytest.mark.parametrize("name", ["break_down", "slip", "await_something_cancelled", "leave", "interrupt"])
async def test_a_fault_is_logged_and_not_told(ctx: ToolContext, name: str) -> None:
    """The log has the traceback; the model learns that it failed, and nothing of the inside."""
    with capture_logs() as logs:
        result = await ask(ctx, name)
    expected = f"The tool `{name}` failed because of a bug, which was logged. Try another way."
    assert result == ToolResult(expected, ok=False)
    [entry] = logs
    assert (entry["event"], entry["tool"], entry["call_id"]) == ("tool.crashed", name, "call_1")
    assert entry["exc_info"].__traceback__ is not None


async def test_a_lost_lease_ends_the_turn(ctx: ToolContext) -> None:
    """The conversation belongs to another process: the model must not go on with a tool error."""
    with pytest.raises(LeaseLost):
        await ask(ctx, "lose_lease")


async def test_logging_a_fault_holds_nobody_up(ctx: ToolContext) -> None:
    """A traceback is shown with its source lines; reading them on the event loop would fail here."""
    assert not (await ask(ctx, "break_down")).ok


async def test_cancelling_passes_through(ctx: ToolContext) -> None:
    """A stop ends the tool without a result."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool()
    async def wait_here(ctx: ToolContext) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    task = asyncio.create_task(Toolbox([wait_here]).run(ToolCall("call_1", "wait_here", ""), ctx))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_what_cannot_be_encoded_is_replaced(ctx: ToolContext) -> None:
    """An undecodable file name in a result must not make it impossible to store."""

    @tool()
    async def odd_name(ctx: ToolContext) -> str:
        return "a\udcffb"

    result = await Toolbox([odd_name]).run(ToolCall("call_1", "odd_name", ""), ctx)
    assert result == ToolResult("a?b", ok=True)


def long_call(text: str, call_id: str = "call_1") -> ToolCall:
    return ToolCall(call_id, "echo", json.dumps({"text": text}))


async def test_a_long_result_is_bounded_and_kept(ctx: ToolContext) -> None:
    """Head and tail are shown; the pointer leads, with read_file, to every line of the whole."""
    lines = [f"line {number}" for number in range(1, 5_001)]
    toolbox = Toolbox([echo, read_file])
    result = await toolbox.run(long_call("\n".join(lines)), ctx)
    assert result.ok
    assert len(result.content) < 12_300
    assert result.content.startswith("line 1\nline 2\n")
    assert result.content.endswith("line 4999\nline 5000")
    assert "The full text is in `.outputs/call_1.txt`: use `read_file` with an offset." in result.content

    arguments = '{"path": ".outputs/call_1.txt", "offset": 2500, "limit": 2}'
    piece = await toolbox.run(ToolCall("call_2", "read_file", arguments), ctx)
    assert piece.content.startswith("line 2500\nline 2501\n\n[5,000 lines in all")
    assert (ctx.workspace / ".outputs" / "call_1.txt").read_text().split("\n") == lines


async def test_a_result_at_the_limit_is_whole(ctx: ToolContext) -> None:
    """The bound is the first length that is cut."""
    toolbox = Toolbox([echo], result_limit=100)
    assert (await toolbox.run(long_call("x" * 100), ctx)).content == "x" * 100
    assert "1 of 101 characters left out here. The full text is in `.outputs/call_1.txt`." in (
        (await toolbox.run(long_call("x" * 101), ctx)).content
    )


async def test_an_id_used_twice_keeps_both(ctx: ToolContext) -> None:
    """Some models restart call ids in each answer; an older reference must still lead to its text."""
    toolbox = Toolbox([echo], result_limit=10)
    await toolbox.run(long_call("first result"), ctx)
    second = await toolbox.run(long_call("second result"), ctx)
    assert ".outputs/call_1-2.txt" in second.content
    outputs = ctx.workspace / ".outputs"
    assert (outputs / "call_1.txt").read_text() == "first result"
    assert (outputs / "call_1-2.txt").read_text() == "second result"


@pytest.mark.parametrize("call_id", ["../../escape", "", "a/b\0c", "x" * 500])
async def test_an_id_is_not_a_path(ctx: ToolContext, call_id: str) -> None:
    """Call ids come from the provider; with any id the text stays in its folder."""
    result = await Toolbox([echo], result_limit=10).run(long_call("a longer text", call_id), ctx)
    [kept] = (ctx.workspace / ".outputs").iterdir()
    assert f"`.outputs/{kept.name}`" in result.content
    assert kept.read_text() == "a longer text"


@pytest.fixture
def linked_outputs(workspace: Path, tmp_path: Path) -> Path:
    """A place outside that the folder for outputs is a link to."""
    outside = tmp_path / "outside"
    outside.mkdir()
    workspace.mkdir(parents=True)
    (workspace / ".outputs").symlink_to(outside)
    return outside


async def test_a_result_that_cannot_be_kept_is_still_given(ctx: ToolContext, linked_outputs: Path) -> None:
    """A link in the way leads nowhere, and costs only the part left out."""
    with capture_logs() as logs:
        result = await Toolbox([echo], result_limit=10).run(long_call("a longer text"), ctx)
    assert result.ok
    assert "The full text could not be kept." in result.content
    assert [entry["event"] for entry in logs] == ["tool.output_not_kept"]
    assert await asyncio.to_thread(os.listdir, linked_outputs) == []


def test_tools_are_chosen_by_name_and_platform() -> None:
    """A platform's own list replaces the common one."""
    available = {each.name: each for each in TOOLS}
    overrides = {"telegram": ["refuse"], "discord": []}

    def chosen(platform: str) -> list[str]:
        return [each.name for each in choose_tools(available, ["slip", "echo", "slip"], overrides, platform)]

    assert chosen("web") == ["echo", "slip"]
    assert chosen("telegram") == ["refuse"]
    assert chosen("discord") == []


@pytest.mark.parametrize(("enabled", "overrides"), [(["ekho"], {}), ([], {"another": ["ekho"]})])
def test_an_unknown_tool_is_an_error(enabled: list[str], overrides: dict[str, list[str]]) -> None:
    """Also in the list of a platform that is not the one asked about: it is found at start."""
    with pytest.raises(UnknownTool, match=r"There is no tool `ekho`\. Did you mean `echo`\?") as raised:
        choose_tools({each.name: each for each in TOOLS}, enabled, overrides, "web")
    assert raised.value.exit_code == 2
