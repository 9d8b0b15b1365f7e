"""`hermes migrate-store`: copy the store to another database."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from gateway.cli import Options, load_config
from gateway.cli.output import show_progress
from gateway.text.display import pluralize

_RUNNING = "Hermes is running; stop it first, then copy the store."


@click.command(name="migrate-store")
@click.argument("target")
@click.pass_obj
def migrate_store(options: Options, target: str) -> None:
    """Copy the store to TARGET, a PostgreSQL URL or a new file.

    Hermes must not be running. TARGET must be empty. Every row of the copy is compared with its original; if one
    differs, nothing is copied. The present store stays as it is, and the configuration is not changed: the command
    prints what to write there.
    """
    from gateway.config.loader import ensure_home  # noqa: PLC0415 - not for `--help`; so below
    from gateway.errors import AlreadyRunning  # noqa: PLC0415
    from gateway.process_lock import hold_lock  # noqa: PLC0415
    from gateway.store import copy_store_to  # noqa: PLC0415

    loaded = load_config(options, log_level="error")
    is_url = target.startswith(("postgresql://", "postgres://"))
    location = target if is_url else Path(target).absolute()
    if not loaded.has_store():
        raise click.ClickException("There is no store yet, so nothing was copied.")
    ensure_home(loaded.home)
    try:
        with hold_lock(loaded.home, loaded.database), show_progress():
            copied = asyncio.run(copy_store_to(loaded, location))
    except AlreadyRunning:
        raise click.ClickException(_RUNNING) from None
    messages, rows = copied["messages"], sum(copied.values())
    click.echo(f"Copied and compared {pluralize(messages, 'message')}, {pluralize(rows, 'row')} in all.")
    click.echo(
        "To use the copy, set `storage.url` in hermes.yaml to that URL."
        if is_url
        else f"To use the copy, remove `storage.url` from hermes.yaml and set `storage.path` to {location}."
    )
