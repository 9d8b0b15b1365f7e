"""`hermes status`: show the state of Hermes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from gateway.cli import load_or_warn
from gateway.cli.output import console, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.cli.status_report import StatusReport
    from gateway.config.loader import LoadedConfig

_REFRESH_SECONDS = 1.0


@click.command()
@click.option("--once", is_flag=True, help="Print the state once, also at a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print the state once as JSON.")
@click.pass_context
def status(ctx: click.Context, once: bool, as_json: bool) -> None:
    """Show what Hermes is doing now, and what it has cost today.

    At a terminal the state stays up to date until Ctrl-C; in a pipe it is printed once. The exit code is 0 if Hermes
    runs and every platform is up, 1 if something is wrong, and 3 if Hermes is not running.
    """
    from gateway.cli import status_report as form  # noqa: PLC0415 - not for `--help`
    from gateway.observability.logs import configure_logging  # noqa: PLC0415

    configure_logging("error", "human")  # warnings would disturb the table
    loaded = load_or_warn(ctx.obj)
    out = console()
    if as_json or once or not out.is_terminal:
        report = asyncio.run(_collect(loaded))
        if as_json:
            print_json(form.as_dict(report))
        else:
            form.print_status(report, out)
        ctx.exit(report.exit_code)
    ctx.exit(_follow(loaded, out))


async def _collect(loaded: LoadedConfig) -> StatusReport:
    from gateway.cli.status_report import collect_status  # noqa: PLC0415

    return await collect_status(loaded)


def _follow(loaded: LoadedConfig, out: Console) -> int:
    """Update the table until Ctrl-C and return the exit code."""
    from rich.live import Live  # noqa: PLC0415

    from gateway.cli.status_report import as_table  # noqa: PLC0415

    report = asyncio.run(_collect(loaded))

    async def follow(live: Live) -> None:
        nonlocal report
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            report = await _collect(loaded)
            live.update(as_table(report, live=True), refresh=True)

    with Live(as_table(report, live=True), console=out, auto_refresh=False) as live:
        try:
            asyncio.run(follow(live))
        except KeyboardInterrupt:
            live.update(as_table(report, live=False), refresh=True)
    return report.exit_code
