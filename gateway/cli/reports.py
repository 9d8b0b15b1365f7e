"""Collects and formats the figures of `hermes status` and `hermes usage`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from datetime import time as clock
from typing import Any, Literal

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agent.errors import HermesError
from gateway.cli.gateway_client import TokenRefused, ask_status, gateway_url
from gateway.cli.output import local_time, one_line, printable
from gateway.config.loader import LoadedConfig
from gateway.limits import format_usd
from gateway.process_lock import is_running
from gateway.store import open_store
from gateway.store.reports import Spending, StoreSummary, UsageTotal
from gateway.text.display import pluralize

_STYLES = {"up": "green", "starting": "yellow", "down": "bold red", "refused": "bold red"}
_MAX_TEXT = 200

_REFRESH_SECONDS = 1.0
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MAX_BAR, _MIN_BAR = 24, 6
_NO_PERSON = "(no person)"
"""A call of Hermes itself, such as a summary between turns."""

State = Literal["running", "not answering", "not running"]


# -- hermes status -------------------------------------------------------------------------------------------


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
    if not await asyncio.to_thread(loaded.has_store):
        return None, ""
    midnight = datetime.combine(datetime.now(), clock.min).timestamp()
    try:
        async with open_store(loaded, read_only=True) as store:
            return await store.reports.summary(midnight=midnight), ""
    except HermesError as error:
        return None, str(error)


def status_as_dict(report: StatusReport) -> dict[str, Any]:
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
        "database": {"path": report.loaded.store_name, "bytes": stored.bytes if stored else 0},
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
        out.print(_table(report, live=False))
        return
    for name, text, _ in _lines(report):
        click.echo(f"{name}\t{text}")


def follow_status(loaded: LoadedConfig, out: Console) -> int:
    """Update the table until Ctrl-C and return the exit code."""
    report = asyncio.run(collect_status(loaded))

    async def follow(live: Live) -> None:
        nonlocal report
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            report = await collect_status(loaded)
            live.update(_table(report, live=True), refresh=True)

    with Live(_table(report, live=True), console=out, auto_refresh=False) as live:
        try:
            asyncio.run(follow(live))
        except KeyboardInterrupt:
            live.update(_table(report, live=False), refresh=True)
    return report.exit_code


def _table(report: StatusReport, *, live: bool) -> Table:
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
    tokens = f"{_short_number(today.prompt_tokens)} tokens in{cached}, {_short_number(today.completion_tokens)} out"
    return f"{tokens}, {_cost(today.usd, today.unpriced_calls, today.calls)}"


def _context(report: StatusReport) -> str:
    engine = (report.live or {}).get("engine", report.loaded.config.context.engine)
    last = report.stored.last_compaction if report.stored else None
    if last is None:
        return f"{engine}; no compaction yet"
    change = f"{_short_number(last.tokens_before)} → {_short_number(last.tokens_after)} tokens"
    return f"{engine}; last compaction {local_time(last.at)}, {change}"


def _store(report: StatusReport) -> str:
    path = report.loaded.store_name
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


# -- hermes usage --------------------------------------------------------------------------------------------


def group_usage(spendings: Iterable[Spending], by: str, days: Sequence[date]) -> list[UsageTotal]:
    """Group by day, including days without calls, or by person or model, most expensive first."""
    lines = {f"{day}": UsageTotal(f"{day}") for day in days} if by == "day" else {}
    for spending in spendings:
        name = str(getattr(spending, by))
        lines.setdefault(name, UsageTotal(name)).add(spending)
    if by == "day":
        return list(lines.values())
    return sorted(lines.values(), key=lambda line: (line.usd, _tokens(line)), reverse=True)


def _add_totals(lines: Iterable[UsageTotal]) -> UsageTotal:
    total = UsageTotal("total")
    for line in lines:
        total.add(line)
    return total


def _tokens(line: UsageTotal) -> int:
    return line.prompt_tokens + line.completion_tokens


def usage_as_dict(lines: Sequence[UsageTotal], by: str, since: date) -> dict[str, Any]:
    return {
        "since": f"{since}",
        "by": by,
        "lines": [{by: line.name, **_numbers(line)} for line in lines],
        "total": _numbers(_add_totals(lines)),
    }


def _numbers(line: UsageTotal) -> dict[str, float]:
    numbers = asdict(line) | {"usd": round(line.usd, 6)}
    del numbers["name"]
    return numbers


def print_usage(lines: Sequence[UsageTotal], by: str, out: Console) -> None:
    """Print a table with bars at a terminal; in a pipe, exact numbers separated by tabs."""
    total = _add_totals(lines)
    if not out.is_terminal:
        for line in [*lines, total]:
            tokens = (line.prompt_tokens, line.cache_read_tokens, line.completion_tokens)
            values = (_name(line), *tokens, round(line.usd, 6), line.unpriced_calls)
            click.echo("\t".join(map(str, values)))
        return
    by_cost = total.usd > 0 and not total.unpriced_calls
    rows = [[by.upper(), "IN", "CACHED", "OUT", "COST"], *(_cells(line) for line in [*lines, total])]
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    room = min(_MAX_BAR, out.width - sum(widths) - 2 * len(widths))
    amounts = [line.usd if by_cost else _tokens(line) for line in lines]
    bars = ["", *(_bar(amount, max(amounts), room) for amount in amounts), ""]
    for number, (row, bar) in enumerate(zip(rows, bars, strict=True)):
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        text = Text(
            "  ".join([row[0].ljust(widths[0]), *numbers]), "bold" if number in (0, len(rows) - 1) else ""
        )
        if bar:
            text.append(f"  {bar}", "cyan")
        out.print(text, no_wrap=True, overflow="ellipsis")
    out.print(Text(_footnote(total, by_cost=by_cost, has_bars=room >= _MIN_BAR), "dim"))


def _footnote(total: UsageTotal, *, by_cost: bool, has_bars: bool) -> str:
    sentences = [f"{pluralize(total.calls, 'call')}."]
    if has_bars:
        sentences.append("The bars show cost." if by_cost else "The bars show tokens in and out.")
    if total.prompt_tokens:
        share = total.cache_read_tokens / total.prompt_tokens
        sentences.append(f"{share:.0%} of the tokens in came from the cache.")
    if total.unpriced_calls:
        unpriced = pluralize(total.unpriced_calls, "call")
        sentences.append(f"The cost excludes {unpriced} of unknown price (?).")
    return " ".join(sentences)


def _name(line: UsageTotal) -> str:
    return one_line(line.name, 40) or _NO_PERSON


def _cells(line: UsageTotal) -> list[str]:
    tokens = (line.prompt_tokens, line.cache_read_tokens, line.completion_tokens)
    cost = _cost(line.usd, line.unpriced_calls, line.calls)
    return [_name(line), *map(_short_number, tokens), cost]


def _cost(usd: float, unpriced_calls: int, calls: int) -> str:
    """Format `$1.20`; `$1.20 + ?` if the price of some calls is unknown, `?` if that of all is."""
    if calls and unpriced_calls == calls:
        return "?"
    return f"{format_usd(usd)} + ?" if unpriced_calls else format_usd(usd)


def _short_number(number: float) -> str:
    for unit in ("", "k", "M"):
        if number < 1000:
            return f"{number:.0f}{unit}" if not unit or number >= 100 else f"{number:.1f}{unit}"
        number /= 1000
    return f"{number:.1f}G"


def _bar(amount: float, largest: float, room: int) -> str:
    """Draw a bar in steps of an eighth of a character; an amount above zero is always visible."""
    if room < _MIN_BAR or amount <= 0:
        return ""
    eighths = max(1, round(amount / largest * room * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
