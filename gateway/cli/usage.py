"""`hermes usage`: show tokens and cost as a table with bars."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

import click

from gateway.cli import Options
from gateway.cli.output import as_json_flag, console, print_json
from gateway.cli.store_access import read_store

if TYPE_CHECKING:
    from gateway.store.reports import GroupBy


@click.command()
@click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=14,
    show_default=True,
    help="Number of days, including today.",
)
@click.option(
    "--by",
    type=click.Choice(["day", "person", "model"]),
    default="day",
    show_default=True,
    help="Group by day, person or model.",
)
@as_json_flag
@click.pass_obj
def usage(options: Options, days: int, by: GroupBy, as_json: bool) -> None:
    """Show the tokens and the cost of model calls.

    Input tokens include those from the cache. The cost comes from providers and price lists; calls of unknown price are
    counted separately and not included in it. Days are in the local time of this machine.
    """
    from gateway.cli import reports  # noqa: PLC0415 - not for `--help`

    today = date.today()
    first = today - timedelta(days=days - 1)
    since = datetime.combine(first, time.min).timestamp()
    spendings = read_store(
        options, lambda store: store.reports.spending(since=since, by=[by]), only_figures=True
    )
    lines = reports.group_usage(spendings, by, [first + timedelta(days=number) for number in range(days)])
    if as_json:
        print_json(reports.usage_as_dict(lines, by, first))
    elif spendings:
        reports.print_usage(lines, by, console())
    else:
        click.echo(f"There were no model calls since {first}.", err=True)
