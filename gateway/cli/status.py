"""`hermes status`: show the state of Hermes."""

from __future__ import annotations

import asyncio

import click

from gateway.cli import load_config
from gateway.cli.output import console, print_json


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
