"""`hermes status`: what Hermes is doing now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from gateway.cli import looked_up
from gateway.cli.output import console, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.cli.status_format import Seen
    from gateway.config.loader import LoadedConfig

_LOOK_AGAIN_SECONDS = 1.0


@click.command()
@click.option("--once", is_flag=True, help="Print it once, also at a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, once.")
@click.pass_context
def status(ctx: click.Context, once: bool, as_json: bool) -> None:
    """Show what Hermes is doing now, and what it has cost today.

    At a terminal it stays up to date until Ctrl-C; in a pipe it is printed once. The exit code is 0 if Hermes runs and
    every platform is up, 1 if something is wrong, and 3 if no Hermes runs.
    """
    from gateway.cli import status_format as form  # noqa: PLC0415 - help needs none of it
    from gateway.observability.logs import configure_logging  # noqa: PLC0415

    configure_logging("error", "human")  # standard output is for what was asked
    loaded = looked_up(ctx.obj)
    out = console()
    if as_json or once or not out.is_terminal:
        seen = asyncio.run(_look(loaded))
        if as_json:
            print_json(form.as_dict(seen))
        else:
            form.print_status(seen, out)
        ctx.exit(seen.exit_code)
    ctx.exit(_follow(loaded, out))


async def _look(loaded: LoadedConfig) -> Seen:
    from gateway.cli.status_format import look  # noqa: PLC0415

    return await look(loaded)


def _follow(loaded: LoadedConfig, out: Console) -> int:
    """The exit code at the end, which is Ctrl-C."""
    from rich.live import Live  # noqa: PLC0415

    from gateway.cli.status_format import as_table  # noqa: PLC0415

    seen = asyncio.run(_look(loaded))

    async def follow(live: Live) -> None:
        nonlocal seen
        while True:
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            seen = await _look(loaded)
            live.update(as_table(seen, live=True), refresh=True)

    with Live(as_table(seen, live=True), console=out, auto_refresh=False) as live:
        try:
            asyncio.run(follow(live))
        except KeyboardInterrupt:
            live.update(as_table(seen, live=False), refresh=True)
    return seen.exit_code
