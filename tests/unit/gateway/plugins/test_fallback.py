"""The built-in engine replaces an engine that cannot be used, and every report says so."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.errors import PluginBroken
from gateway.plugins.engines import engine_or_built_in
from gateway.plugins.loader import Plugins, load_plugins
from gateway.plugins.plugin_folder import LOAD_SECONDS
from tests.fakes.openai.server import FakeOpenAI
from tests.support.foreign_plugins import (
    ENGINE,
    REGISTER,
    engine_config,
    no_compressor,
    write_engine,
    write_plugin,
)
from tests.support.hermes_process import WebClient, environment, hermes
from tests.support.ordinary_user import hermes as run_hermes
from tests.support.warm import HERMES

TOOL = """
from agent.tool import ToolContext, tool

@tool()
async def shout(ctx: ToolContext, text: str) -> str:
    "Says it louder."
    return text.upper()

def register(ctx):
    ctx.register_tool(shout)
    ctx.register_context_engine(Engine())
"""


async def status_of(client: WebClient) -> str:
    await client.send("/status")
    async for event in client.events():
        if event["type"] == "Notice" and "Context engine" in event["text"]:
            return str(event["text"])
    raise AssertionError("the stream ended early")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (None, "There is no engine `mine`."),
        ("x = 1 / 0\n", "ZeroDivisionError"),
        ("class Engine(:\n", "SyntaxError"),
        ("raise SystemExit(3)\n", "SystemExit"),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
        ("import asyncio\nraise asyncio.CancelledError\n", "CancelledError"),
        (ENGINE.replace("self.seen = []", "raise StopIteration") + TOOL, "StopIteration"),
    ],
)
async def test_the_built_in_engine_takes_over_loudly(tmp_path: Path, code: str | None, reason: str) -> None:
    """The start, the log, `/status` and `hermes status` say so, and no registration of the engine is left."""
    home = tmp_path / "home"
    if code is not None:
        write_engine(home, code)
    async with (
        FakeOpenAI() as server,
        hermes(home, engine_config(server, "mine")) as process,
        WebClient.open(process.url, "a") as client,
    ):
        assert (await client.say("hello"))[-1]["type"] == "TurnDone"
        told = await status_of(client)
        running = run_hermes("status", "--json", HERMES_HOME=str(home))
    banner = "\n".join(process.output)
    assert "Context   compressor instead of `mine`" in banner
    warning = next(line for line in banner.splitlines() if line.startswith("Warning"))
    assert "`mine`" in warning and reason in warning
    assert "engine.fallback" in banner
    assert "Context engine: compressor" in told
    assert "`mine` cannot be used" in told and reason in told
    shown = json.loads(running.stdout)
    assert shown["engine"] == "compressor"
    assert any(reason in notice for notice in shown["notices"])
    assert not server.requests[0].body.get("tools")


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("torn", ["`torn` in", "ZeroDivisionError"]),
        ("slidingwindow", ["There is no engine", "Did you mean `sliding_window`?"]),
    ],
)
def test_the_checks_fail(private_home: Path, engine: str, words: list[str]) -> None:
    """`config check` and doctor name the reason."""
    write_engine(private_home, "x = 1 / 0\n", "torn")
    file = private_home / "hermes.yaml"
    file.write_text(yaml.safe_dump({"context": {"engine": engine}}))
    checked = run_hermes("config", "check", "--config", str(file))
    examined = run_hermes("doctor", "--offline", "--config", str(file))
    assert checked.returncode == 2 and examined.returncode == 1
    (finding,) = [line for line in examined.stdout.splitlines() if line.startswith("fail") and engine in line]
    assert "the built-in `compressor` is used instead" in finding
    for word in words:
        assert word in checked.stderr
        assert word in examined.stdout


def test_a_question_in_the_terminal_says_it_too(private_home: Path) -> None:
    private_home.mkdir()
    with FakeOpenAI().in_thread() as server:
        (private_home / "hermes.yaml").write_text(yaml.safe_dump(engine_config(server, "nosuch")))
        asked = run_hermes("chat", "-q", "hello", HERMES_CONFIG=str(private_home / "hermes.yaml"))
    assert asked.returncode == 0
    assert "`nosuch` cannot be used" in asked.stderr


def test_config_check_names_a_plugin_that_would_stop_the_start(private_home: Path) -> None:
    write_plugin(private_home, "import no_such_library\n", "bad")
    file = private_home / "hermes.yaml"
    file.write_text(yaml.safe_dump({"plugins": {"enabled": ["bad", "gone"]}}))
    checked = run_hermes("config", "check", "--config", str(file))
    assert checked.returncode == 2
    assert "plugins.enabled: bad" in checked.stderr and "no_such_library" in checked.stderr
    assert "plugins.enabled: gone" in checked.stderr


async def test_a_second_registration_is_said_at_the_start(tmp_path: Path) -> None:
    """The notice names both engines."""
    home = tmp_path / "home"
    write_plugin(home, ENGINE + REGISTER, "zeta")
    write_plugin(home, ENGINE + REGISTER, "acme")
    folder = write_engine(home, ENGINE.replace('"mine"', '"sliding_window"'), "sliding_window")
    more: dict[str, Any] = {"plugins": {"enabled": ["zeta", "acme"]}}
    async with FakeOpenAI() as server, hermes(home, engine_config(server, "mine", **more)) as process:
        banner = "\n".join(process.output)
        async with WebClient.open(process.url, "a") as client:
            told = await status_of(client)
    file = home / "hermes.yaml"
    examined = run_hermes("doctor", "--offline", "--config", str(file), HERMES_HOME=str(home))
    for said in (banner, told, examined.stdout):
        assert "the plugin acme registers the context engine `mine`" in said
        assert "the plugin zeta came first" in said
        assert f"the context engine `sliding_window` in {folder} is hidden by the one in" in said


HANGS = "import threading\nfrom pathlib import Path\nPath({marker!r}).touch()\nthreading.Event().wait()\n"


@pytest.mark.parametrize("where", ["import", "constructor"])
def test_an_engine_that_hangs_is_replaced(private_home: Path, where: str) -> None:
    hangs = "__import__('threading').Event().wait()"
    code = f"{hangs}\n" if where == "import" else ENGINE.replace("self.seen = []", hangs)
    write_engine(private_home, code)
    plugins = Plugins()
    make = engine_or_built_in(
        "mine",
        home=private_home,
        plugins=plugins,
        compressor=no_compressor,
        context_length=8_000,
        seconds=0.2,
    )
    assert make is no_compressor
    assert plugins.unusable_engine == "mine"
    assert "it was not loaded within 0.2 seconds" in plugins.notices[-1]


def test_a_plugin_that_hangs_is_refused(private_home: Path) -> None:
    write_plugin(private_home, "def register(ctx):\n    __import__('threading').Event().wait()\n")
    with pytest.raises(PluginBroken, match=r"it was not loaded within 0\.2 seconds"):
        load_plugins(private_home, ["acme"], seconds=0.2)


@pytest.mark.parametrize("kind", ["engine", "plugin"])
def test_ctrl_c_ends_a_start_that_hangs(private_home: Path, tmp_path: Path, kind: str) -> None:
    marker = tmp_path / "hangs"
    code = HANGS.format(marker=str(marker))
    settings: dict[str, Any] = {"platforms": {"web": {"port": 0}}}
    if kind == "engine":
        write_engine(private_home, code)
        settings["context"] = {"engine": "mine"}
    else:
        write_plugin(private_home, code)
        settings["plugins"] = {"enabled": ["acme"]}
    file = private_home / "hermes.yaml"
    file.write_text(yaml.safe_dump(settings))
    process = subprocess.Popen([*HERMES, "run"], env=environment(private_home), stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            if marker.exists():
                break
            time.sleep(0.1)
        assert marker.exists()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=LOAD_SECONDS - 5)
    finally:
        process.kill()
        process.wait()
