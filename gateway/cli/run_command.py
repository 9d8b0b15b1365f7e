"""`hermes run`: run the gateway."""

from __future__ import annotations

import asyncio

import click

from gateway.cli import Options, load_config
from gateway.cli.output import show_progress


@click.command()
@click.pass_obj
def run(options: Options) -> None:
    """Start the gateway: web chat and every platform that is on.

    It runs until Ctrl-C or SIGTERM. Answers in progress then get `gateway.drain_seconds` to finish; the rest continue
    at the next start. A second Ctrl-C stops Hermes at once.
    """
    from gateway.config.loader import ensure_home  # noqa: PLC0415 - not for `--help`
    from gateway.run import serve  # noqa: PLC0415

    loaded = load_config(options)
    ensure_home(loaded.home)
    with show_progress():
        asyncio.run(serve(loaded, announce=click.echo))
