"""Collects the state of the running gateway and of the store, and formats it for `hermes status`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from datetime import time as clock
from typing import Any, Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.errors import HermesError
from gateway.cli.gateway_client import TokenRefused, ask_status, gateway_url
from gateway.cli.output import local_time, one_line, printable
from gateway.cli.usage_format import format_cost, short_number
from gateway.config.loader import LoadedConfig
from gateway.process_lock import is_running
from gateway.store import open_store
from gateway.store.reports import StoreSummary
from gateway.text.display import pluralize

_STYLES = {"up": "green", "starting": "yellow", "down": "bold red", "refused": "bold red"}
_MAX_TEXT = 200

State = Literal["running", "not answering", "not running"]


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The state of a Hermes installation."""

    loaded: LoadedConfig
    state: State
    live: dict[str, Any] | None
    """The answer of the gateway to `/api/status`; None without one."""
    stored: StoreSummary | None
    """None if there is no database yet or it cannot be read."""
    trouble: str = ""
    """The error of the store."""
    refusal: str = ""
    """Why the running gateway refused to answer."""

    @property
    def exit_code(self) -> int:
        if self.state == "not running":
            return 3
        states = [told["state"] for told in self.platforms.values()]
        is_well = self.state == "running" and not self.trouble and all(state == "up" for state in states)
        return 0 if is_well else 1

    @property
    def platforms(self) -> dict[str, dict[str, str]]:
        return self.live["platforms"] if self.live else {}


async def collect_status(loaded: LoadedConfig) -> StatusReport:
    url = await asyncio.to_thread(gateway_url, loaded)
    live, refusal = None, ""
    try:
        live = await ask_status(loaded, url) if url else None
    except TokenRefused as error:
        refusal = str(error)
    in_use = live is not None or await asyncio.to_thread(is_running, loaded.home)
    state: State = "not running"
    if in_use:
        state = "running" if live or not url else "not answering"
    found, trouble = await _summary(loaded)
    return StatusReport(loaded, state, live, found, trouble, refusal)


async def _summary(loaded: LoadedConfig) -> tuple[StoreSummary | None, str]:
    if not await asyncio.to_thread(loaded.database.exists):
        return None, ""
    midnight = datetime.combine(datetime.now(), clock.min).timestamp()
    try:
        async with open_store(loaded, read_only=True) as store:
            return await store.reports.summary(midnight=midnight), ""
    except HermesError as error:
        return None, str(error)


def as_dict(report: StatusReport) -> dict[str, Any]:
    live, stored = report.live or {}, report.stored
    return {
        "state": report.state,
        "healthy": report.exit_code == 0,
        "version": live.get("version"),
        "since": live.get("since"),
        "platforms": report.platforms,
        "active_turns": live.get("active_turns"),
        "waiting": live.get("waiting", stored.waiting if stored else 0),
        "parked": stored.parked if stored else 0,
        "today": asdict(stored.today) if stored else None,
        "model": live.get("model", report.loaded.config.model.name),
        "engine": live.get("engine", report.loaded.config.context.engine),
        "database": {"path": str(report.loaded.database), "bytes": stored.bytes if stored else 0},
        "conversations": stored.conversations if stored else 0,
        "last_compaction": asdict(stored.last_compaction) if stored and stored.last_compaction else None,
        "needs_restart": live.get("needs_restart", []),
        "refused": live.get("refused", []),
        "notices": live.get("notices", []),
        "trouble": report.trouble or None,
    }


def print_status(report: StatusReport, out: Console) -> None:
    """Print a table at a terminal; in a pipe, lines of a name, a tab and a text."""
    if out.is_terminal:
        out.print(as_table(report, live=False))
        return
    for name, text, _ in _lines(report):
        click.echo(f"{name}\t{text}")


def as_table(report: StatusReport, *, live: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text, style in _lines(report):
        table.add_row(Text(name), Text(text, style))
    if live:
        table.add_row("", Text(f"{datetime.now():%H:%M:%S}. Press Ctrl-C to exit.", "dim"))
    return table


def _lines(report: StatusReport) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the text and the style of each line."""
    yield ("Hermes", *_state(report))
    for name, told in report.platforms.items():
        detail = told.get("where", "") if told["state"] == "up" else told.get("detail", "")
        text = f"{told['state']:<8} {one_line(detail, _MAX_TEXT)}".rstrip()
        yield name.capitalize(), text, _STYLES.get(told["state"], "")
    yield "Work", _work(report), ""
    if stored := report.stored:
        parked = "nothing" if not stored.parked else f"{stored.parked:,}; `hermes doctor --parked` lists them"
        yield "Parked", parked, "yellow" if stored.parked else ""
        yield "Today", _today(stored), ""
    told = report.live or {}
    yield "Model", printable(str(told.get("model", report.loaded.config.model.name))), ""
    yield "Context", _context(report), ""
    yield "Store", _store(report), "bold red" if report.trouble else ""
    for notice in told.get("notices", []):
        yield "Warning", printable(notice), "bold red"
    if waiting := told.get("needs_restart"):
        yield "Settings", f"changed, but need a restart: {printable(', '.join(waiting))}", "yellow"
    if refused := told.get("refused"):
        text = f"hermes.yaml has mistakes, so the earlier settings stay in effect: {printable(' '.join(refused))}"
        yield "Settings", text, "bold red"


def _state(report: StatusReport) -> tuple[str, str]:
    if report.live:
        since = float(report.live["since"])
        ran = _duration(time.time() - since)
        return f"running since {local_time(since)} ({ran}), version {report.live['version']}", "green"
    if report.state == "not running":
        return "not running; `hermes run` starts it", "yellow"
    if report.state == "running":
        return "running; no details, because `platforms.web` is off", "green"
    if report.refusal:
        return f"running, but it refuses to answer. {report.refusal}", "bold red"
    return (
        "in use, but it does not answer. A `hermes chat` never does; for a gateway, see `hermes logs`",
        "bold red",
    )


def _work(report: StatusReport) -> str:
    waiting = report.live["waiting"] if report.live else report.stored.waiting if report.stored else 0
    queued = f"{pluralize(waiting, 'message')} queued"
    if report.live is None:
        later = " until the next start" if report.state == "not running" and waiting else ""
        return f"{queued}{later}"
    return f"{pluralize(report.live['active_turns'], 'answer')} in progress, {queued}"


def _today(stored: StoreSummary) -> str:
    today = stored.today
    if not today.calls:
        return "no model calls"
    cached = f" ({today.cache_read_tokens / today.prompt_tokens:.0%} cached)" if today.prompt_tokens else ""
    tokens = (
        f"{short_number(today.prompt_tokens)} tokens in{cached}, {short_number(today.completion_tokens)} out"
    )
    return f"{tokens}, {format_cost(today.usd, today.unpriced_calls, today.calls)}"


def _context(report: StatusReport) -> str:
    engine = (report.live or {}).get("engine", report.loaded.config.context.engine)
    last = report.stored.last_compaction if report.stored else None
    if last is None:
        return f"{engine}; no compaction yet"
    change = f"{short_number(last.tokens_before)} → {short_number(last.tokens_after)} tokens"
    return f"{engine}; last compaction {local_time(last.at)}, {change}"


def _store(report: StatusReport) -> str:
    path = report.loaded.database
    if report.trouble:
        return f"{path}: {one_line(report.trouble, _MAX_TEXT)}"
    if report.stored is None:
        return f"{path}; does not exist yet"
    size = f"{report.stored.bytes / 1_000_000:.1f} MB"
    return f"{path}, {size}, {pluralize(report.stored.conversations, 'conversation')}"


def _duration(seconds: float) -> str:
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
