"""How things stand, gathered from the running gateway and the store, and put into words."""

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
from gateway.cli.gateway_client import TokenRefused, address, ask_status
from gateway.cli.output import local_time, one_line, printable
from gateway.cli.usage_format import brief, cost
from gateway.config.loader import LoadedConfig
from gateway.process_lock import is_running
from gateway.store import open_store
from gateway.store.reports import StoreSummary
from gateway.text.display import pluralize

_STYLES = {"up": "green", "starting": "yellow", "down": "bold red", "refused": "bold red"}
_LONGEST = 200

State = Literal["running", "not answering", "not running"]


@dataclass(frozen=True, slots=True)
class Seen:
    loaded: LoadedConfig
    state: State
    live: dict[str, Any] | None
    """What the gateway says; None where it cannot be asked."""
    stored: StoreSummary | None
    """None where nothing is stored yet, or the store cannot be read."""
    trouble: str = ""
    """What is wrong with the store."""
    refusal: str = ""
    """Why the gateway, which runs, does not tell us anything."""

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


async def look(loaded: LoadedConfig) -> Seen:
    url = await asyncio.to_thread(address, loaded)
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
    return Seen(loaded, state, live, found, trouble, refusal)


async def _summary(loaded: LoadedConfig) -> tuple[StoreSummary | None, str]:
    if not await asyncio.to_thread(loaded.database.exists):
        return None, ""
    midnight = datetime.combine(datetime.now(), clock.min).timestamp()
    try:
        async with open_store(loaded, read_only=True) as store:
            return await store.reports.summary(midnight=midnight), ""
    except HermesError as error:
        return None, str(error)


def as_dict(seen: Seen) -> dict[str, Any]:
    live, stored = seen.live or {}, seen.stored
    return {
        "state": seen.state,
        "healthy": seen.exit_code == 0,
        "version": live.get("version"),
        "since": live.get("since"),
        "platforms": seen.platforms,
        "active_turns": live.get("active_turns"),
        "waiting": live.get("waiting", stored.waiting if stored else 0),
        "parked": stored.parked if stored else 0,
        "today": asdict(stored.today) if stored else None,
        "model": live.get("model", seen.loaded.config.model.name),
        "engine": live.get("engine", seen.loaded.config.context.engine),
        "database": {"path": str(seen.loaded.database), "bytes": stored.bytes if stored else 0},
        "conversations": stored.conversations if stored else 0,
        "last_compaction": asdict(stored.last_compaction) if stored and stored.last_compaction else None,
        "needs_restart": live.get("needs_restart", []),
        "refused": live.get("refused", []),
        "notices": live.get("notices", []),
        "trouble": seen.trouble or None,
    }


def print_status(seen: Seen, out: Console) -> None:
    """In a pipe, a name and a tab before each line."""
    if out.is_terminal:
        out.print(as_table(seen, live=False))
        return
    for name, text, _ in _lines(seen):
        click.echo(f"{name}\t{text}")


def as_table(seen: Seen, *, live: bool) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text, style in _lines(seen):
        table.add_row(Text(name), Text(text, style))
    if live:
        table.add_row("", Text(f"{datetime.now():%H:%M:%S}, up to date. Ctrl-C leaves.", "dim"))
    return table


def _lines(seen: Seen) -> Iterator[tuple[str, str, str]]:
    """A name, what there is to say, and how it should look."""
    yield ("Hermes", *_state(seen))
    for name, told in seen.platforms.items():
        detail = told.get("where", "") if told["state"] == "up" else told.get("detail", "")
        text = f"{told['state']:<8} {one_line(detail, _LONGEST)}".rstrip()
        yield name.capitalize(), text, _STYLES.get(told["state"], "")
    yield "Work", _work(seen), ""
    if stored := seen.stored:
        parked = "nothing" if not stored.parked else f"{stored.parked:,}; `hermes doctor --parked` lists them"
        yield "Parked", parked, "yellow" if stored.parked else ""
        yield "Today", _today(stored), ""
    told = seen.live or {}
    yield "Model", printable(str(told.get("model", seen.loaded.config.model.name))), ""
    yield "Context", _context(seen), ""
    yield "Store", _store(seen), "bold red" if seen.trouble else ""
    for notice in told.get("notices", []):
        yield "Warning", printable(notice), "bold red"
    if waiting := told.get("needs_restart"):
        yield "Settings", f"count from the next start on: {printable(', '.join(waiting))}", "yellow"
    if refused := told.get("refused"):
        text = f"hermes.yaml was changed and cannot be used; those from before count: {printable(' '.join(refused))}"
        yield "Settings", text, "bold red"


def _state(seen: Seen) -> tuple[str, str]:
    if seen.live:
        since = float(seen.live["since"])
        ran = _duration(time.time() - since)
        return f"running since {local_time(since)} ({ran}), version {seen.live['version']}", "green"
    if seen.state == "not running":
        return "not running; `hermes run` starts it", "yellow"
    if seen.state == "running":
        return "running; with `platforms.web` off it cannot be asked for more", "green"
    if seen.refusal:
        return f"running, but it cannot be asked. {seen.refusal}", "bold red"
    return (
        "in use, but it does not answer: a `hermes chat` has no page, otherwise see `hermes logs`",
        "bold red",
    )


def _work(seen: Seen) -> str:
    waiting = seen.live["waiting"] if seen.live else seen.stored.waiting if seen.stored else 0
    waits = "1 message waits" if waiting == 1 else f"{waiting:,} messages wait"
    if seen.live is None:
        later = " for the next start" if seen.state == "not running" and waiting else ""
        return f"{waits}{later}"
    turns = seen.live["active_turns"]
    answers = "1 answer is" if turns == 1 else f"{turns:,} answers are"
    return f"{answers} being written, {waits}"


def _today(stored: StoreSummary) -> str:
    today = stored.today
    if not today.calls:
        return "no model was asked"
    cached = f" ({today.cache_read_tokens / today.prompt_tokens:.0%} cached)" if today.prompt_tokens else ""
    tokens = f"{brief(today.prompt_tokens)} tokens in{cached}, {brief(today.completion_tokens)} out"
    return f"{tokens}, {cost(today.usd, today.unpriced_calls, today.calls)}"


def _context(seen: Seen) -> str:
    engine = (seen.live or {}).get("engine", seen.loaded.config.context.engine)
    last = seen.stored.last_compaction if seen.stored else None
    if last is None:
        return f"{engine}; nothing was compacted yet"
    change = f"{brief(last.tokens_before)} → {brief(last.tokens_after)} tokens"
    return f"{engine}; last compaction {local_time(last.at)}, {change}"


def _store(seen: Seen) -> str:
    path = seen.loaded.database
    if seen.trouble:
        return f"{path}: {one_line(seen.trouble, _LONGEST)}"
    if seen.stored is None:
        return f"{path}; nothing is stored yet"
    size = f"{seen.stored.bytes / 1_000_000:.1f} MB"
    return f"{path}, {size}, {pluralize(seen.stored.conversations, 'conversation')}"


def _duration(seconds: float) -> str:
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
