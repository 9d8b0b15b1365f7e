"""`hermes sessions`: what was said. Reads the store and writes nothing, so it works while Hermes runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from agent.errors import NotFound
from gateway.cli import Options
from gateway.cli.output import console, print_json, print_rows, write_new_file

if TYPE_CHECKING:
    from agent.store import Conversation, SearchHit, SessionStore
    from gateway.cli.sessions_format import Record

T = TypeVar("T")

_ALL = 1_000_000
_NOTHING_YET = "Nothing was said yet. Begin with `hermes chat`, or `hermes run` and a browser."

wanted_id = click.argument("wanted", metavar="ID")
as_json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many."
)


@click.group()
def sessions() -> None:
    """List, read, search and export conversations.

    ID is a conversation's id, the beginning of one, or `latest`.
    """


@sessions.command("list")
@click.option("--platform", metavar="NAME", help="Only this platform: web, terminal, ...")
@limit_option
@as_json_flag
@click.pass_obj
def list_conversations(options: Options, platform: str | None, limit: int, as_json: bool) -> None:
    """List conversations, the latest first."""
    from gateway.cli import sessions_format as form  # noqa: PLC0415 - help needs none of it; so below

    found = _read(options, lambda store: store.conversations(platform=platform, limit=limit))
    if as_json:
        print_json([form.overview_as_dict(overview) for overview in found])
    elif found:
        out = console()
        print_rows(out, form.OVERVIEW_COLUMNS, form.overview_rows(found, brief=out.is_terminal))
    else:
        click.echo(_NOTHING_YET, err=True)


@sessions.command()
@wanted_id
@as_json_flag
@click.pass_obj
def show(options: Options, wanted: str, as_json: bool) -> None:
    """Print a conversation, each tool call on one line."""
    from gateway.cli import sessions_format as form  # noqa: PLC0415

    record = _read(options, lambda store: _record(store, wanted))
    if as_json:
        print_json(form.record_as_dict(record))
    else:
        form.print_record(record, console())


@sessions.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--conversation", "wanted", metavar="ID", help="Only in this one.")
@limit_option
@as_json_flag
@click.pass_obj
def search(options: Options, words: tuple[str, ...], wanted: str | None, limit: int, as_json: bool) -> None:
    """Find messages by their words, the best first."""
    from gateway.cli import sessions_format as form  # noqa: PLC0415

    async def find(store: SessionStore) -> list[SearchHit]:
        within = (await _conversation(store, wanted)).id if wanted else None
        return await store.search(" ".join(words), conversation_id=within, limit=limit)

    hits = _read(options, find)
    if as_json:
        print_json([form.hit_as_dict(hit) for hit in hits])
    elif hits:
        form.print_hits(hits, console())
    else:
        click.echo("No message holds these words.", err=True)


@sessions.command()
@wanted_id
@click.option(
    "--format", "style", type=click.Choice(["jsonl", "markdown"]), default="jsonl", show_default=True
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.pass_obj
def export(options: Options, wanted: str, style: str, output: Path | None, force: bool) -> None:
    """Write a conversation to a file or to standard output.

    jsonl holds every field of every message, a line each; markdown is for reading.
    """
    from gateway.cli import sessions_format as form  # noqa: PLC0415

    record = _read(options, lambda store: _record(store, wanted))
    text = form.as_jsonl(record) if style == "jsonl" else form.as_markdown(record)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_new_file(output, text, overwrite=force)


def _read(options: Options, question: Callable[[SessionStore], Awaitable[T]]) -> T:
    """Asks the store, opened for reading only; an empty one where nothing was stored yet."""
    from gateway.config.load import load  # noqa: PLC0415
    from gateway.logs import configure_logging  # noqa: PLC0415
    from gateway.store import MemoryStore, SqliteStore  # noqa: PLC0415

    configure_logging("error", "human")  # standard output is for what was asked
    path = load(options.config_path).database
    something_stored = path.exists()

    async def ask() -> T:
        store = await SqliteStore.open(path, read_only=True) if something_stored else MemoryStore()
        try:
            return await question(store)
        finally:
            await store.close()

    return asyncio.run(ask())


async def _record(store: SessionStore, wanted: str) -> Record:
    from gateway.cli.sessions_format import Record  # noqa: PLC0415

    conversation = await _conversation(store, wanted)
    return Record(
        conversation, await store.sessions(conversation.id), await store.transcript(conversation.id)
    )


async def _conversation(store: SessionStore, wanted: str) -> Conversation:
    """By id, by the beginning of an id with or without its `conv_`, or the latest."""
    overviews = await store.conversations(limit=1 if wanted == "latest" else _ALL)
    found = [overview.conversation for overview in overviews]
    if wanted != "latest":
        found = [
            each
            for each in found
            if each.id.startswith(wanted) or each.id.partition("_")[2].startswith(wanted)
        ]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} conversations begin with '{wanted}'; give more of the id.")
    if not found and wanted == "latest":
        raise NotFound(_NOTHING_YET)
    if not found:
        raise NotFound(f"No conversation begins with '{wanted}'; `hermes sessions list` shows them.")
    return found[0]
