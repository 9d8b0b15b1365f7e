"""`hermes usage`: tokens and cost, as a table with a small chart."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING

import click

from gateway.cli import Options
from gateway.cli.output import console, print_json
from gateway.cli.store_access import read_store

if TYPE_CHECKING:
    from gateway.store.reports import GroupBy


@click.command()
@click.option(
    "--days", type=click.IntRange(1, 3650), default=14, show_default=True, help="So many days, with today."
)
@click.option(
    "--by",
    type=click.Choice(["day", "person", "model"]),
    default="day",
    show_default=True,
    help="What a line stands for.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def usage(options: Options, days: int, by: GroupBy, as_json: bool) -> None:
    """Show what the models were asked and what it cost.

    Tokens from the cache are a part of those that went in. Cost is what providers and price lists report; a call of a
    model without a known price is counted and said, and adds nothing to the cost. Days are those of this machine's
    clock.
    """
    from gateway.cli import usage_format as form  # noqa: PLC0415 - help needs none of it

    today = date.today()
    first = today - timedelta(days=days - 1)
    since = datetime.combine(first, time.min).timestamp()
    spendings = read_store(
        options, lambda store: store.reports.spending(since=since, by=[by]), only_figures=True
    )
    lines = form.lines_by(spendings, by, [first + timedelta(days=number) for number in range(days)])
    if as_json:
        print_json(form.as_dict(lines, by, first))
    elif spendings:
        form.print_usage(lines, by, console())
    else:
        click.echo(f"No model was asked since {first}.", err=True)
