"""`hermes export`: write conversations to files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from gateway.cli import Options, load_config
from gateway.cli.store_access import find_overview, read_store
from gateway.text.display import pluralize

format_option = click.option(
    "--format",
    "style",
    type=click.Choice(["jsonl", "markdown", "html"]),
    default="jsonl",
    show_default=True,
    help="jsonl for programs, markdown for reading, html for a browser.",
)
force_option = click.option("--force", is_flag=True, help="Overwrite existing files.")


@click.command()
@click.option(
    "--conversation",
    "wanted",
    metavar="ID",
    help="Only this conversation: an id, its beginning, or `latest`.",
)
@click.option("--person", metavar="ID", help="Only conversations of this person, such as telegram:4711.")
@click.option("--platform", metavar="NAME", help="Only conversations on this platform, such as telegram.")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DATE",
    help="Only messages since this date, such as 2026-11-17.",
)
@format_option
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="Write to this file, or one file per conversation to this directory (created if it ends in /).",
)
@force_option
@click.pass_obj
def export(
    options: Options,
    wanted: str | None,
    person: str | None,
    platform: str | None,
    since: datetime | None,
    style: str,
    output: str | None,
    force: bool,
) -> None:
    """Write conversations to a file, to a directory or to standard output.

    jsonl contains everything: for each conversation a line about it and its sessions, then a line for each message,
    also on abandoned branches. markdown and html contain each conversation as it is now. Text that looks like a key
    or a password is redacted. The command works while Hermes runs.
    """
    from gateway.cli.export_writer import ExportOptions, export_many  # noqa: PLC0415 - not for `--help`

    moment = since.timestamp() if since else 0.0
    only = read_store(options, lambda store: find_overview(store.sessions, wanted)) if wanted else None
    if not load_config(options).has_store():
        click.echo("There are no conversations yet, so nothing was written.", err=True)
        return
    written = export_many(
        options, person, platform, ExportOptions(style, moment, _target(output), force), only
    )
    if not written:
        click.echo("No conversation matches, so nothing was written.", err=True)
    elif output is not None:
        click.echo(f"Wrote {pluralize(len(written), 'conversation')} to {output}.", err=True)


def _target(output: str | None) -> Path | None:
    """Return the path; creates a directory, readable by the owner only, if `output` ends in a slash."""
    if not output:
        return None
    path = Path(output)
    if output.endswith("/"):
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise click.ClickException(f"{path} cannot be created: {error.strerror}.") from None
    return path
