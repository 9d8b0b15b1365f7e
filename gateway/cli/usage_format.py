"""Groups and formats tokens and cost for `hermes usage`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from gateway.cli.output import one_line
from gateway.limits import format_usd
from gateway.store.reports import Spending, UsageTotal
from gateway.text.display import pluralize

_EIGHTHS = " ▏▎▍▌▋▊▉"
_MAX_BAR = 24
_MIN_BAR = 6
_MAX_NAME = 40
_NO_PERSON = "(no person)"
"""A call of Hermes itself, such as a summary between turns."""


def group_usage(spendings: Iterable[Spending], by: str, days: Sequence[date]) -> list[UsageTotal]:
    """Group by day, including days without calls, or by person or model, most expensive first."""
    lines = {f"{day}": UsageTotal(f"{day}") for day in days} if by == "day" else {}
    for spending in spendings:
        name = str(getattr(spending, by))
        lines.setdefault(name, UsageTotal(name)).add(spending)
    if by == "day":
        return list(lines.values())
    return sorted(lines.values(), key=lambda line: (line.usd, _tokens(line)), reverse=True)


def add_totals(lines: Iterable[UsageTotal]) -> UsageTotal:
    total = UsageTotal("total")
    for line in lines:
        total.add(line)
    return total


def _tokens(line: UsageTotal) -> int:
    return line.prompt_tokens + line.completion_tokens


def as_dict(lines: Sequence[UsageTotal], by: str, since: date) -> dict[str, Any]:
    return {
        "since": f"{since}",
        "by": by,
        "lines": [{by: line.name, **_numbers(line)} for line in lines],
        "total": _numbers(add_totals(lines)),
    }


def _numbers(line: UsageTotal) -> dict[str, float]:
    return {
        "calls": line.calls,
        "prompt_tokens": line.prompt_tokens,
        "cache_read_tokens": line.cache_read_tokens,
        "cache_write_tokens": line.cache_write_tokens,
        "completion_tokens": line.completion_tokens,
        "usd": round(line.usd, 6),
        "unpriced_calls": line.unpriced_calls,
    }


def print_usage(lines: Sequence[UsageTotal], by: str, out: Console) -> None:
    """Print a table with bars at a terminal; in a pipe, exact numbers separated by tabs."""
    total = add_totals(lines)
    if not out.is_terminal:
        for line in [*lines, total]:
            click.echo("\t".join([_name(line), *map(str, _exact(line))]))
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
    return one_line(line.name, _MAX_NAME) or _NO_PERSON


def _exact(line: UsageTotal) -> list[float]:
    return [
        line.prompt_tokens,
        line.cache_read_tokens,
        line.completion_tokens,
        round(line.usd, 6),
        line.unpriced_calls,
    ]


def _cells(line: UsageTotal) -> list[str]:
    return [
        _name(line),
        *(
            short_number(number)
            for number in (line.prompt_tokens, line.cache_read_tokens, line.completion_tokens)
        ),
        format_cost(line.usd, line.unpriced_calls, line.calls),
    ]


def format_cost(usd: float, unpriced_calls: int, calls: int) -> str:
    """Format `$1.20`; `$1.20 + ?` if the price of some calls is unknown, `?` if that of all is."""
    if calls and unpriced_calls == calls:
        return "?"
    return f"{format_usd(usd)} + ?" if unpriced_calls else format_usd(usd)


def short_number(number: float) -> str:
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
