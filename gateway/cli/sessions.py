"""`hermes sessions`: list, read, search and export conversations. Only `restore` writes to the store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.errors import NotFound
from gateway.cli import Options, load_config
from gateway.cli.export import force_option, format_option
from gateway.cli.output import as_json_flag, console, print_json, print_rows
from gateway.cli.store_access import NOTHING_YET, begins, change_store, find_overview, read_store

if TYPE_CHECKING:
    from agent.context.branches import UndoResult
    from agent.store import Conversation, SearchHit, Session, SessionStore
    from gateway.cli.sessions_format import Lineage, Record
    from gateway.store.ports import GatewayStore

wanted_id = click.argument("wanted", metavar="ID")
limit_option = click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Print at most this many."
)


@click.group()
def sessions() -> None:
    """List, read, search and export conversations.

    ID is the id of a conversation, its beginning, or `latest`.
    """


@sessions.command("list")
@click.option("--platform", metavar="NAME", help="Only conversations on this platform, such as telegram.")
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
@click.option("--conversation", "wanted", metavar="ID", help="Search only this conversation.")
@limit_option
@as_json_flag
@click.pass_obj
def search(options: Options, words: tuple[str, ...], wanted: str | None, limit: int, as_json: bool) -> None:
    """Search all messages; the best match comes first."""
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
    help="Write to this file instead of standard output.",
)
@force_option
@click.pass_obj
def export(options: Options, wanted: str, style: str, output: Path | None, force: bool) -> None:
    """Write a conversation to a file or to standard output.

    jsonl contains a line with all fields for each message; markdown and html are for reading. Text that looks like a
    key or a password is redacted. `hermes export` writes many conversations.
    """
    from gateway.cli.export_writer import ExportOptions, export_one  # noqa: PLC0415

    overview = read_store(options, lambda store: find_overview(store.sessions, wanted))
    export_one(options, overview, ExportOptions(style, output=output, overwrite=force, whole=False))


@sessions.command()
@wanted_id
@click.option(
    "--all", "everything", is_flag=True, help="Show every session, also in the middle of long lines."
)
@as_json_flag
@click.pass_obj
def lineage(options: Options, wanted: str, everything: bool, as_json: bool) -> None:
    """Print the sessions of a conversation as a tree.

    Each session is shown with the reason and time of its split, its messages and the result of its compaction. The
    live session is marked.
    """
    from gateway.cli import sessions_format as form  # noqa: PLC0415

    async def find(store: GatewayStore) -> Lineage:
        overview = await find_overview(store.sessions, wanted)
        return await form.read_lineage(store.sessions, overview, everything=everything or as_json)

    found = read_store(options, find)
    if as_json:
        print_json(form.lineage_as_dict(found))
    else:
        form.print_lineage(found, console())


@sessions.command()
@wanted_id
@click.argument("session", required=False)
@click.pass_obj
def restore(options: Options, wanted: str, session: str | None) -> None:
    """Undo the last compaction, or go back to the ancestor SESSION.

    Later messages are kept, and nothing is deleted. While Hermes runs, type /undo-compress in the chat instead.
    """
    from agent.context import branches  # noqa: PLC0415

    async def go_back(gateway_store: GatewayStore) -> UndoResult | None:
        store = gateway_store.sessions
        conversation = await _conversation(store, wanted)
        if session is None:
            return await branches.undo_compaction(store, conversation)
        return await branches.restore(store, conversation, (await _session(store, conversation, session)).id)

    loaded = load_config(options, log_level="error")
    if not loaded.has_store():
        raise NotFound(NOTHING_YET)
    rewound = change_store(
        loaded,
        go_back,
        if_running="Hermes is running. Type /undo-compress in the chat, or stop Hermes first.",
    )
    if rewound is None:
        click.echo(branches.NOTHING_TO_UNDO, err=True)
    else:
        click.echo(f"Restored: {rewound}; {rewound.live.session.id} is live.")


async def _record(store: SessionStore, wanted: str) -> Record:
    """Read a conversation and redact secrets: printed text is often copied elsewhere."""
    from gateway.cli.sessions_format import Record  # noqa: PLC0415

    overview = await find_overview(store, wanted)
    conversation_id = overview.conversation.id
    sessions, messages = await store.sessions(conversation_id), await store.transcript(conversation_id)
    record = Record.redacted(overview, sessions, messages)
    return replace(record, messages=await asyncio.to_thread(list, record.messages))


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
