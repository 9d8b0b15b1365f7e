"""General plugins: only enabled ones run, and a broken one stops the start."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.errors import CommandFailed, PluginBroken, UnknownPlugin
from gateway.plugins.loader import check_plugin, load_plugins, survey_plugins
from tests.support.foreign_plugins import ENGINE, REGISTER, write_engine, write_plugin

TOOL = """
from agent.tool import ToolContext, tool

@tool()
async def {name}(ctx: ToolContext, text: str) -> str:
    "Says it louder."
    return text.upper()

def register(ctx):
    ctx.register_tool({name})
"""

COMMAND = """
from gateway.commands import Command

async def run(context, rest):
    return rest

def register(ctx):
    ctx.register_command(Command({name!r}, "says it", run, aliases={aliases!r}))
"""


def test_nothing_is_loaded_that_is_not_enabled(private_home: Path) -> None:
    write_plugin(private_home, "raise RuntimeError('run without being asked')\n")
    assert load_plugins(private_home, []).names == []
    _, (info,) = survey_plugins(private_home, [])
    assert (info.name, info.enabled, info.problem) == ("acme", False, "")
    assert (info.description, info.version) == ("Made by a stranger.", "1.2")


def test_an_enabled_plugin_registers(private_home: Path) -> None:
    code = "from .parts import shout\ndef register(ctx):\n    assert ctx.name == 'acme'\n    ctx.register_tool(shout)\n"
    write_plugin(private_home, code, parts=TOOL.format(name="shout"))
    plugins = load_plugins(private_home, ["acme", "acme"])
    assert plugins.names == ["acme"]
    assert plugins.tools["shout"].description == "Says it louder."


def test_an_unknown_plugin(private_home: Path) -> None:
    """The message suggests the nearest name; the folder of engines is not a plugin."""
    write_plugin(private_home, "")
    write_engine(private_home, ENGINE)
    with pytest.raises(UnknownPlugin, match="Did you mean `acme`") as raised:
        load_plugins(private_home, ["acmee"])
    assert raised.value.exit_code == 2
    with pytest.raises(UnknownPlugin):
        load_plugins(private_home, ["context_engine"])
    with pytest.raises(UnknownPlugin):
        load_plugins(private_home, ["../plugins/acme"])


@pytest.mark.parametrize(
    ("code", "reason", "line"),
    [
        ("import no_such_library\n", "No module named", "import no_such_library"),
        ("def register(ctx):\n    ctx.no_such_door()\n", "no_such_door", "line 2, in register"),
        ("x = 1\n", "it has no `register(ctx)`", ""),
        ("def register(ctx):\n    ctx.register_tool(print)\n", "what `@tool()` of agent.tool makes", "line 2"),
        ("def register(ctx):\n    ctx.register_command(print)\n", "gateway.commands.Command", "line 2"),
        ("def register(ctx):\n    ctx.register_hook('turn_dome', print)\n", "Did you mean `turn_done`", "line 2"),
        ("def register(ctx):\n    ctx.register_hook('turn_done', 5)\n", "takes a function", "line 2"),
        (TOOL.format(name="todo"), "a tool named `todo` already exists", ""),
        (COMMAND.format(name="reset", aliases=()), "a command /reset already exists", ""),
        (COMMAND.format(name="fine", aliases=("new",)), "a command /new already exists", ""),
        ("def register(ctx):\n    ctx.register_command('fine', 5)\n", "takes a function", "line 2"),
        (COMMAND.format(name="Two words", aliases=()), "The command 'Two words' cannot be typed", "register"),
    ],
)  # fmt: skip
def test_a_broken_plugin_is_a_start_up_error(private_home: Path, code: str, reason: str, line: str) -> None:
    """The message names the plugin, its folder and the line; the list shows the same."""
    folder = write_plugin(private_home, code)
    with pytest.raises(PluginBroken) as raised:
        load_plugins(private_home, ["acme"])
    assert raised.value.exit_code == 2
    text = str(raised.value)
    assert f"`acme` in {folder}" in text and reason in text and line in text
    plugins, (info,) = survey_plugins(private_home, ["acme"])
    assert plugins.names == [] and plugins.tools == {} and plugins.commands == []
    assert reason in info.problem and line in info.problem + info.traceback


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [(None, "it has no plugin.yaml"), ("a: [", "cannot be read"), ("- a", "must contain a mapping")],
)
def test_the_manifest_is_needed(private_home: Path, manifest: str | None, reason: str) -> None:
    write_plugin(private_home, "def register(ctx):\n    pass\n", manifest=manifest)
    with pytest.raises(PluginBroken, match=reason):
        load_plugins(private_home, ["acme"])
    _, (info,) = survey_plugins(private_home, ["acme"])
    assert reason in info.problem


def test_two_plugins_with_the_same_tool(private_home: Path) -> None:
    """The second one can only be loaded alone."""
    for name in ("acme", "zeta"):
        write_plugin(private_home, TOOL.format(name="shout"), name)
    with pytest.raises(PluginBroken, match=r"`zeta`.*a tool named `shout` already exists"):
        load_plugins(private_home, ["acme", "zeta"])
    with pytest.raises(PluginBroken):
        check_plugin("zeta", home=private_home, enabled=["acme"])
    check_plugin("zeta", home=private_home, enabled=[])


HANDLER = """
import asyncio

def shout(raw_args):
    return raw_args.upper()

async def softly(raw_args):
    await asyncio.sleep(0)
    return raw_args.lower()

async def gone(raw_args):
    raise SystemExit(1)

async def interrupted(raw_args):
    raise KeyboardInterrupt

class Unprintable(Exception):
    def __str__(self):
        raise SystemExit("no text")

async def unprintable(raw_args):
    raise Unprintable

def answers_nonsense(raw_args):
    return type("Nonsense", (), {"__str__": lambda self: 1 / 0})()

def nothing(raw_args):
    pass

def broken(raw_args):
    raise SystemExit("no more")

def register(ctx):
    ctx.register_command("/Shout", shout, description="Says it\\nlouder.", args_hint="<text>")
    ctx.register_command("softly", handler=softly)
    ctx.register_command("nothing", nothing, "Does it.")
    ctx.register_command("broken", broken, args_hint="words")
    ctx.register_command("gone", gone, args_hint="two words")
    for handler in (interrupted, unprintable, answers_nonsense):
        ctx.register_command(handler.__name__, handler, "Fails.")
"""


async def test_commands_as_other_hosts_register_them(private_home: Path) -> None:
    """An error of the function is shown as a sentence."""
    write_plugin(private_home, HANDLER)
    plugins = await asyncio.to_thread(load_plugins, private_home, ["acme"])
    commands = {command.name: command for command in plugins.commands}
    facts = {
        name: (each.summary, each.argument) for name, each in commands.items() if each.summary != "Fails."
    }
    assert facts == {
        "shout": ("Says it louder.", "text"),
        "softly": ("a command of the plugin acme", ""),
        "nothing": ("Does it.", ""),
        "broken": ("a command of the plugin acme", "words"),
        "gone": ("a command of the plugin acme", "arguments"),
    }
    context: Any = None
    assert await commands["shout"].run(context, "hello") == "HELLO"
    assert await commands["softly"].run(context, "HELLO") == "hello"
    assert await commands["nothing"].run(context, "") == "Done."
    with pytest.raises(CommandFailed, match="/broken of the plugin acme: SystemExit: no more"):
        await commands["broken"].run(context, "")
    with pytest.raises(CommandFailed, match="/gone of the plugin acme: SystemExit: 1"):
        await commands["gone"].run(context, "")
    with pytest.raises(CommandFailed, match="/interrupted of the plugin acme: KeyboardInterrupt"):
        await commands["interrupted"].run(context, "")
    with pytest.raises(CommandFailed, match="Unprintable: <exception str"):
        await commands["unprintable"].run(context, "")
    with pytest.raises(CommandFailed, match="ZeroDivisionError"):
        await commands["answers_nonsense"].run(context, "")


def test_the_first_engine_stays(private_home: Path) -> None:
    """The second is refused with a warning; its other registrations count."""
    write_plugin(private_home, ENGINE + REGISTER, "zeta")
    other = ENGINE.replace('"mine"', '"other"') + TOOL.format(name="shout")
    write_plugin(private_home, other + "    ctx.register_context_engine(Engine())\n", "acme")
    with capture_logs() as logs:
        plugins = load_plugins(private_home, ["zeta", "acme"])
    assert plugins.engine and (plugins.engine.name, plugins.engine.plugin) == ("mine", "zeta")
    assert list(plugins.tools) == ["shout"]
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("plugin.engine_refused", "warning")
    assert (line["plugin"], line["engine"], line["registered_before"]) == ("acme", "other", "mine")


def test_a_plugin_that_is_enabled_and_gone(private_home: Path) -> None:
    _, (info,) = survey_plugins(private_home, ["gone"])
    assert (info.name, info.enabled) == ("gone", True)
    assert "There is no `gone`" in info.problem
