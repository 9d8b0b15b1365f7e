"""`hermes sessions`: list, read, search and export conversations. Only `restore` writes to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from agent.errors import NotFound
from gateway.cli import Options, loaded_for
from gateway.cli.export import format_option
from gateway.cli.output import console, print_json, print_rows
from gateway.cli.store_access import NOTHING_YET, begins, find_overview, read_store

if TYPE_CHECKING:
    from agent.context.branches import UndoResult
    from agent.store import Conversation, SearchHit, Session, SessionStore
    from gateway.cli.lineage import Lineage
    from gateway.cli.sessions_format import Record
    from gateway.store.ports import GatewayStore

T = TypeVar("T")

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

    found = read_store(options, lambda store: store.sessions.conversations(platform=platform, limit=limit))
    if as_json:
        print_json([form.overview_as_dict(overview) for overview in found])
    elif found:
        out = console()
        print_rows(out, form.OVERVIEW_COLUMNS, form.overview_rows(found, brief=out.is_terminal))
    else:
        click.echo(NOTHING_YET, err=True)


@sessions.command()
@wanted_id
@as_json_flag
@click.pass_obj
def show(options: Options, wanted: str, as_json: bool) -> None:
    """Print a conversation, each tool call on one line."""
    from gateway.cli import sessions_format as form  # noqa: PLC0415

    record = read_store(options, lambda store: _record(store.sessions, wanted))
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

    async def find(store: GatewayStore) -> list[SearchHit]:
        within = (await _conversation(store.sessions, wanted)).id if wanted else None
        return await store.sessions.search(" ".join(words), conversation_id=within, limit=limit)

    hits = read_store(options, find)
    if as_json:
        print_json([form.hit_as_dict(hit) for hit in hits])
    elif hits:
        form.print_hits(hits, console())
    else:
        click.echo("No message contains these words.", err=True)


@sessions.command()
@wanted_id
@format_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead of standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.pass_obj
def export(options: Options, wanted: str, style: str, output: Path | None, force: bool) -> None:
    """Write a conversation to a file or to standard output.

    jsonl holds every field of every message, a line each; markdown and html are for reading. Text that looks like a
    key or a password is redacted. `hermes export` writes many conversations.
    """
    from gateway.cli.export_writer import ExportOptions, export_one  # noqa: PLC0415

    overview = read_store(options, lambda store: find_overview(store.sessions, wanted))
    export_one(options, overview, ExportOptions(style, output=output, overwrite=force))


@sessions.command()
@wanted_id
@click.option("--all", "everything", is_flag=True, help="Leave nothing out of long lines of sessions.")
@as_json_flag
@click.pass_obj
def lineage(options: Options, wanted: str, everything: bool, as_json: bool) -> None:
    """Print a conversation's sessions as a tree.

    For each: why and when it was split off, its messages, what its compaction came to, and which one is live.
    """
    from gateway.cli import lineage as form  # noqa: PLC0415

    async def find(store: GatewayStore) -> Lineage:
        overview = await find_overview(store.sessions, wanted)
        return await form.read_lineage(store.sessions, overview, everything=everything or as_json)

    found = read_store(options, find)
    if as_json:
        print_json(form.as_dict(found))
    else:
        form.print_lineage(found, console())


@sessions.command()
@wanted_id
@click.argument("session", required=False)
@click.pass_obj
def restore(options: Options, wanted: str, session: str | None) -> None:
    """Undo the last compaction, or go back to the ancestor SESSION.

    What was said since comes along, and nothing is deleted. While Hermes runs, type /undo-compress in the chat.
    """
    from agent.context import branches  # noqa: PLC0415

    async def go_back(store: SessionStore) -> UndoResult | None:
        conversation = await _conversation(store, wanted)
        if session is None:
            return await branches.undo_compaction(store, conversation)
        return await branches.restore(store, conversation, (await _session(store, conversation, session)).id)

    rewound = _change(options, go_back)
    if rewound is None:
        click.echo(branches.NOTHING_TO_UNDO, err=True)
    else:
        click.echo(f"Restored: {rewound}; {rewound.live.session.id} is live.")


def _change(options: Options, action: Callable[[SessionStore], Awaitable[T]]) -> T:
    """Change the store as its only user: a running Hermes would not notice the change."""
    from gateway.config.loader import ensure_home  # noqa: PLC0415
    from gateway.errors import AlreadyRunning  # noqa: PLC0415
    from gateway.observability.logs import configure_logging  # noqa: PLC0415
    from gateway.process_lock import hold_lock  # noqa: PLC0415
    from gateway.store import open_store  # noqa: PLC0415

    configure_logging("error", "human")
    loaded = loaded_for(options)
    if not loaded.database.exists():
        raise NotFound(NOTHING_YET)

    async def act() -> T:
        async with open_store(loaded) as store:
            return await action(store.sessions)

    ensure_home(loaded.home)
    try:
        with hold_lock(loaded.home, loaded.database):
            return asyncio.run(act())
    except AlreadyRunning:
        message = "Hermes is running. Type /undo-compress in the chat, or stop Hermes first."
        raise click.ClickException(message) from None


async def _record(store: SessionStore, wanted: str) -> Record:
    """Read a conversation and redact secrets: printed text is often copied elsewhere."""
    from gateway.cli.sessions_format import Record, without_secrets  # noqa: PLC0415

    conversation = await _conversation(store, wanted)
    sessions, messages = await store.sessions(conversation.id), await store.transcript(conversation.id)
    return await asyncio.to_thread(without_secrets, Record(conversation, sessions, messages))


async def _conversation(store: SessionStore, wanted: str) -> Conversation:
    return (await find_overview(store, wanted)).conversation


async def _session(store: SessionStore, conversation: Conversation, wanted: str) -> Session:
    """Find a session by its id, or by the start of its id with or without `ses_`."""
    found = [each for each in await store.sessions(conversation.id) if begins(each.id, wanted)]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} sessions begin with '{wanted}'; give more of the id.")
    if not found:
        shows = f"`hermes sessions lineage {conversation.id}` shows them"
        raise NotFound(f"No session of this conversation begins with '{wanted}'; {shows}.")
    return found[0]
