"""`hermes backup` and `hermes restore`: everything in one file, and back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli import Options, load_config
from gateway.cli.output import local_time, show_progress
from gateway.text.display import pluralize

if TYPE_CHECKING:
    from gateway.backup.archive import DatabaseContents
    from gateway.backup.create import Made
    from gateway.backup.restore import Restored, Staged
    from gateway.config.loader import LoadedConfig

_RUNNING = "Hermes is running; stop it first, then restore."
_MAX_LISTED = 20
"""Number of unreadable files that are listed."""


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--with-workspaces", is_flag=True, help="Also copy the folders in which the agent keeps files.")
@click.option("--force", is_flag=True, help="Overwrite PATH.")
@click.pass_obj
def backup(options: Options, path: Path | None, with_workspaces: bool, force: bool) -> None:
    """Copy all conversations into one file, and check that the copy is complete.

    The databases of context engines (`*.db` in the state directory) are included.

    It works while Hermes runs, and delays no message. PATH is a file or a directory; without it the backup is written
    to `backups` in the state directory. Copy it to another machine, in case this disk fails.

    The file contains private conversations; only you can read it. It contains no keys: keep a copy of `.env` yourself.
    """
    from gateway.backup.create import Sources, make_backup  # noqa: PLC0415 - not for `--help`; so below

    loaded = load_config(options, log_level="error")
    _refuse_postgres(loaded)
    configuration = _configuration_without_secrets(loaded)
    workspaces = loaded.workspaces if with_workspaces and loaded.workspaces.exists() else None
    sources = Sources(loaded.home, loaded.database, workspaces, configuration)
    with show_progress():
        made = make_backup(sources, _target(loaded, path), overwrite=force)
    _print_made(made, with_workspaces=with_workspaces)
    if configuration is None and loaded.path is not None:
        click.echo(f"{loaded.path} is not in it, because it contains keys or tokens.")
    click.echo("Keys in .env or the environment are not in it; keep them yourself.")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask first.")
@click.pass_obj
def restore(options: Options, file: Path, yes: bool) -> None:
    """Replace the current state with the backup FILE.

    Hermes must not be running. FILE is checked first, and the current state is kept under another name, so that
    `hermes restore` can bring it back. The configuration is not changed.

    It prints what is replaced, and asks at a terminal.
    """
    from gateway.backup.restore import restore as restore_backup  # noqa: PLC0415
    from gateway.config.loader import ensure_home  # noqa: PLC0415
    from gateway.errors import AlreadyRunning  # noqa: PLC0415

    loaded = load_config(options, log_level="error")
    _refuse_postgres(loaded)
    ensure_home(loaded.home)
    try:
        with show_progress():
            restored = restore_backup(
                file.absolute(),
                home=loaded.home,
                database=loaded.database,
                workspaces=loaded.workspaces,
                agreed=lambda staged: _agree(staged, ask=not yes),
            )
    except AlreadyRunning:
        raise click.ClickException(_RUNNING) from None
    _print_restored(restored, file, loaded)


def _refuse_postgres(loaded: LoadedConfig) -> None:
    if loaded.database_url:
        raise click.ClickException(
            "The store is in PostgreSQL. Use pg_dump and pg_restore, or copy it to a file with `hermes migrate-store`."
        )


def _agree(staged: Staged, *, ask: bool) -> None:
    """Print the contents of both databases and ask at a terminal. A script that passes no --yes agrees, too."""
    click.echo(f"The backup holds {_contents(staged.contents, staged.newest)}.")
    if staged.replaces:
        click.echo(f"It takes the place of {_contents(*staged.replaces)}.")
    if ask and sys.stdin.isatty() and sys.stdout.isatty() and not click.confirm("Restore it?"):
        raise click.ClickException("Nothing was changed.")


def _target(loaded: LoadedConfig, path: Path | None) -> Path:
    from gateway.backup.create import backup_directory, default_name  # noqa: PLC0415

    if path is None:
        return backup_directory(loaded.home) / default_name()
    if path.is_dir():
        return (path / default_name()).absolute()
    if not path.name.endswith((".tar.gz", ".tgz")):
        # The disk may not be mounted; a file of that name on the wrong disk would look like a backup.
        raise click.BadParameter(
            f"There is no directory {path}. Make it, or name a file that ends in .tar.gz."
        )
    return path.absolute()


def _configuration_without_secrets(loaded: LoadedConfig) -> str | None:
    """Return the text of hermes.yaml; None if it contains secrets or does not exist."""
    from gateway.backup.archive import holds_secret  # noqa: PLC0415
    from gateway.config.loader import read_text  # noqa: PLC0415
    from gateway.config.secrets import all_secrets  # noqa: PLC0415

    if loaded.path is None:
        return None
    text = read_text(loaded.path)
    return None if holds_secret(text, all_secrets(loaded)) else text


def _print_made(made: Made, *, with_workspaces: bool) -> None:
    from rich.filesize import decimal  # noqa: PLC0415

    manifest = made.manifest
    files = f", {pluralize(made.files, 'file')} of workspaces" if with_workspaces else ""
    engines = "".join(f", {name} of an engine" for name in manifest.engines)
    click.echo(f"Backup  {made.path}")
    click.echo(f"Size    {decimal(made.bytes)} (the database has {decimal(manifest.database_bytes)})")
    click.echo(f"Holds   {_contents(manifest.contents)}{engines}{files}")
    click.echo(f"Took    {made.seconds:.1f} s, and the copy was checked")
    for left_out in made.left_out[:_MAX_LISTED]:
        click.echo(f"Left out, because it cannot be read: {left_out}")
    if (more := len(made.left_out) - _MAX_LISTED) > 0:
        click.echo(f"Left out, because they cannot be read: {more:,} more.")


def _print_restored(restored: Restored, file: Path, loaded: LoadedConfig) -> None:
    staged = restored.staged
    click.echo(f"Restored {_contents(staged.contents)} to {loaded.database}.")
    for name in staged.engines:
        click.echo(f"Restored {name} of an engine to {loaded.home / name}.")
    for kept in restored.kept:
        click.echo(f"The old state is kept as {kept}; delete it when you are sure.")
    if staged.left_out:
        click.echo(f"{staged.left_out} links that may lead out of the workspaces were left out.")
    if staged.has_configuration:
        click.echo(f"The backup also holds hermes.yaml; `tar -xzOf {file} hermes.yaml` shows it.")


def _contents(contents: DatabaseContents, newest: float | None = None) -> str:
    counted = (
        f"{pluralize(contents.conversations, 'conversation')}, {pluralize(contents.messages, 'message')}"
    )
    return f"{counted}, the newest of {local_time(newest)}" if newest else counted
