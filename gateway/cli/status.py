"""`hermes status` and `hermes usage`: show the state of Hermes, tokens and cost."""

from __future__ import annotations

import asyncio
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

import click

from gateway.cli import Options, load_config
from gateway.cli.output import as_json_flag, console, print_json
from gateway.cli.store_access import read_store

if TYPE_CHECKING:
    from gateway.store.reports import GroupBy


@click.command()
@click.option("--once", is_flag=True, help="Print the state once, also at a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print the state once as JSON.")
@click.pass_context
def status(ctx: click.Context, once: bool, as_json: bool) -> None:
    """Show what Hermes is doing now, and what it has cost today.

    At a terminal the state stays up to date until Ctrl-C; in a pipe it is printed once. The exit code is 0 if Hermes
    runs and every platform is up, 1 if something is wrong, and 3 if Hermes is not running.
    """
    from gateway.cli import reports  # noqa: PLC0415 - not for `--help`

    loaded = load_config(ctx.obj, log_level="error", lenient=True)
    out = console()
    if out.is_terminal and not as_json and not once:
        ctx.exit(reports.follow_status(loaded, out))
    report = asyncio.run(reports.collect_status(loaded))
    if as_json:
        print_json(reports.status_as_dict(report))
    else:
        reports.print_status(report, out)
    ctx.exit(report.exit_code)


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
    from gateway.cli import reports  # noqa: PLC0415

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
