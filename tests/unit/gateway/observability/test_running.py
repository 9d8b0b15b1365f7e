"""The real process: its log lines, its figures and its traces, of one turn that has everything in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.contract.platforms.scripted_model import newest
from tests.fakes.model_server import Seen
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call, Reply
from tests.fakes.telegram.server import FakeTelegram, Fault
from tests.support.foreign_plugins import write_plugin
from tests.support.hermes_process import HermesProcess, WebClient, hermes
from tests.support.metrics_harness import Scraped

SAID = ("marmalade", "Toast")
"""Words that were said, and may be in no line and no span."""


class Collector:
    """An OTLP receiver."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: set[str | None] = set()
        self.services: set[str] = set()
        self.spans: list[Any] = []
        self.raw = b""

    async def receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.raw += body
        self.keys.add(request.headers.get("x-key"))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for attribute in resource.resource.attributes:
                if attribute.key == "service.name":
                    self.services.add(attribute.value.string_value)
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return web.Response()


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    receiver, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", receiver.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()


PLUGIN = """
import asyncio, logging
import structlog
from agent.tool import ToolContext, tool

@tool()
async def toaster(ctx: ToolContext) -> str:
    \"""Makes toast.\"""
    structlog.get_logger("acme").info("acme.toasting")
    await asyncio.to_thread(logging.getLogger("acme").warning, "It is hot.")
    raise RuntimeError("no bread")

def register(ctx):
    ctx.register_tool(toaster)
"""


def _config(model: FakeOpenAI, telegram: FakeTelegram, user: int) -> dict[str, Any]:
    return {
        "model": {
            "name": "openai/test-model",
            "base_url": model.base_url,
            "api_key": model.api_key,
            "context_length": 8_000,
        },
        "compression": {"protect_last_n": 1, "background_at": 1.0},
        "plugins": {"enabled": ["acme"]},
        "tools": {"enabled": ["write_file"]},
        "platforms": {
            "telegram": {"token": telegram.token, "base_url": telegram.url, "allowed_users": [user]}
        },
        "logging": {"level": "debug", "format": "json"},
    }


def _talk(seen: Seen) -> Reply:
    """At length to people, briefly about what was said."""
    is_asked_by_ada = newest(seen).startswith("Tell me")
    return Reply(text="Toast and tea. " * 300 if is_asked_by_ada else "They spoke of Toast and of marmalade.")


def _lines(process: HermesProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.output if line.startswith("{")]


async def _converse(
    process: HermesProcess, model: FakeOpenAI, telegram: FakeTelegram, ada: Any
) -> tuple[str, str]:
    """A turn in Telegram with a retry, two tools and a pause that the service asks for; then, on the page, three long
    turns and a compaction. Gives the ids of the first turn's conversation and of that turn."""
    model.fail(503)
    model.reply(
        text="Noting.",
        tool_calls=[Call("write_file", {"path": "a.md", "content": "marmalade"}), Call("toaster", {})],
    )
    model.reply(text="Toast with marmalade it is.")
    telegram.fail_next("sendMessage", Fault.flood(1))
    await ada.says("Note the marmalade, please")
    await telegram.wait_for(lambda: any("Toast" in str(message.text) for message in ada.chat.messages), 60)
    async with WebClient.open(process.url, "page") as page:
        model.script(_talk)
        for _ in range(3):
            await page.say("Tell me about marmalade")
        await page.say("/compress marmalade")
    done = [line for line in _lines(process) if line["event"] == "turn.done"]
    return done[0]["conversation"], done[0]["turn"]


async def test_a_turn_in_lines_figures_and_spans(tmp_path: Path) -> None:
    """All lines of the turn carry both ids, the spans hang together, and nothing holds what was said."""
    home = tmp_path / "home"
    home.mkdir()
    async with FakeOpenAI() as model, FakeTelegram() as telegram, collector() as traces:
        ada = telegram.person()
        (home / ".env").write_text(
            f"OTEL_EXPORTER_OTLP_ENDPOINT={traces.url}\nOTEL_EXPORTER_OTLP_HEADERS=x-key=open-sesame-1\n"
        )
        write_plugin(home, PLUGIN)
        async with hermes(home, _config(model, telegram, ada.id)) as process:
            conversation, turn = await _converse(process, model, telegram, ada)
            async with aiohttp.ClientSession() as http, http.get(f"{process.url}/metrics") as response:
                seen = Scraped(await response.text())
            async with aiohttp.ClientSession() as http, http.get(f"{process.url}/readyz") as response:
                assert response.status == 200, await response.text()
        _check_lines(process, conversation, turn)
        _check_figures(seen)
        _check_spans(traces, conversation, turn)


def _check_lines(process: HermesProcess, conversation: str, turn: str) -> None:
    lines = _lines(process)
    of_the_turn = {line["event"] for line in lines if line.get("turn") == turn}
    told = {"model.retry", "acme.toasting", "It is hot.", "tool.crashed", "chat.rate_limited", "turn.done"}
    assert told <= of_the_turn
    assert "session.split" in {line["event"] for line in lines if "turn" in line}
    for line in lines:
        # Whatever names one of them names both, and nothing that a turn leads to names none.
        assert ("turn" in line) == ("conversation" in line), line
        if line["event"].startswith(
            ("turn.", "model.retry", "tool.", "session.split", "chat.slow", "chat.call")
        ):
            assert line["turn"].startswith("msg_"), line
        if line.get("turn") == turn:
            assert line["conversation"] == conversation
    output = "".join(process.output)
    assert not [word for word in SAID if word in output]


def _check_figures(seen: Scraped) -> None:
    assert seen("hermes_turns_total", platform="telegram", outcome="answered") == 1
    assert seen("hermes_turns_total", platform="web", outcome="command") == 1
    calls = {"model": "openai/test-model", "purpose": "turn"}
    assert seen("hermes_model_calls_total", outcome="ok", **calls) == 2 + 3
    assert seen("hermes_model_calls_total", outcome="ModelOverloaded", **calls) == 1
    assert seen("hermes_tool_calls_total", tool="write_file", outcome="ok") == 1
    sends = {"platform": "telegram", "call": "Send"}
    assert seen("hermes_platform_calls_total", outcome="SlowDown", **sends) == 1
    assert seen("hermes_platform_up", platform="telegram") == 1
    assert seen("hermes_tool_calls_total", tool="toaster", outcome="failed") == 1
    assert seen("hermes_errors_total", kind="tool.crashed", error="") == 1
    assert seen("hermes_errors_total", kind="library:acme", error="") == 1
    assert seen("hermes_compactions_total", trigger="command", outcome="ok") == 1
    assert (seen("hermes_event_loop_lag_seconds_count") or 0) > 0


def _check_spans(traces: Collector, conversation: str, turn: str) -> None:
    assert (traces.keys, traces.services) == ({"open-sesame-1"}, {"hermes"})
    facts = {
        span.span_id: {each.key: each.value.string_value for each in span.attributes} for span in traces.spans
    }
    [root] = [span for span in traces.spans if facts[span.span_id].get("hermes.turn") == turn]
    assert (root.name, root.parent_span_id) == ("turn", b"")
    assert facts[root.span_id]["hermes.conversation"] == conversation
    assert facts[root.span_id]["hermes.outcome"] == "answered"
    parts = [span for span in traces.spans if span.trace_id == root.trace_id and span is not root]
    assert {span.parent_span_id for span in parts} == {root.span_id}
    outcomes = [(span.name, facts[span.span_id]["hermes.outcome"]) for span in parts]
    assert outcomes.count(("model call", "ok")) == 2
    assert outcomes.count(("model call", "ModelOverloaded")) == 1
    assert outcomes.count(("tool call", "ok")) == 1
    assert ("delivery", "SlowDown") in outcomes and ("delivery", "ok") in outcomes
    assert outcomes.count(("tool call", "failed")) == 1
    [compaction] = [span for span in traces.spans if span.name == "compaction"]
    within = [span for span in traces.spans if span.parent_span_id == compaction.span_id]
    assert [facts[span.span_id]["hermes.purpose"] for span in within] == ["compression"]
    assert not [word for word in SAID if word.encode() in traces.raw]


async def test_the_extra_is_missing(tmp_path: Path) -> None:
    """An interpreter without OpenTelemetry: Hermes says what to install, and starts."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "opentelemetry.py").write_text("raise ImportError('not here')\n")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".env").write_text("OTEL_EXPORTER_OTLP_ENDPOINT=http://user:pass@127.0.0.1:9\n")
    code = (
        "import sys; from pathlib import Path\n"
        "from gateway.config.loader import load\n"
        "from gateway.observability.tracing import configured_tracing\n"
        "print(configured_tracing(load(None))[1])\n"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))\n"
    )
    told = await _python(code, home, hidden)
    assert "pip install -e '.[otel]'" in told[0]
    assert told[1] == "[]"
    told = await _python(code, home, None)
    assert told[0] == "sent to http://127.0.0.1:9", "without the password"
    (home / ".env").write_text("OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4318\n")
    assert "must begin with http" in (await _python(code, home, None))[0]


async def test_nothing_is_loaded_unless_wanted(tmp_path: Path) -> None:
    """Without the variable, OpenTelemetry costs nothing although it is installed."""
    code = (
        "import asyncio, sys\n"
        "from gateway.config.loader import load\n"
        "from gateway.app import build_app\n"
        "async def main():\n"
        "    async with build_app(load(None)) as app:\n"
        "        print(repr(app.traces_line))\n"
        "asyncio.run(main())\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))\n"
    )
    assert (await _python(code, tmp_path / "home", None))[-2:] == ["''", "False"]


async def _python(code: str, home: Path, first_on_path: Path | None) -> list[str]:
    import os
    import sys

    root = Path(__file__).parents[4]
    path = os.pathsep.join(str(each) for each in (first_on_path, root) if each)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=home.parent, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "HERMES_HOME": str(home), "PYTHONPATH": path},
    )  # fmt: skip
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    return output.decode().splitlines()
