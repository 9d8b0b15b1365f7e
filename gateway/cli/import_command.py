"""`hermes import`: import conversations of other programs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.errors import HermesError
from gateway.cli import load_config
from gateway.cli.output import one_line, show_progress
from gateway.cli.store_access import change_store, read_store
from gateway.text.display import pluralize

if TYPE_CHECKING:
    from agent.store import Address
    from gateway.config.loader import LoadedConfig
    from gateway.importers import Source
    from gateway.store.import_types import ImportedConversation, ImportResult
    from gateway.store.ports import GatewayStore

    Verb = Callable[[ImportedConversation], Awaitable[ImportResult]]

_RUNNING = "Hermes is running; stop it first, then import. `--dry-run` works meanwhile."


@dataclass(slots=True)
class _Outcome:
    conversations: int = 0
    messages: int = 0
    known: int = 0
    left_out: int = 0
    refused: list[str] = field(default_factory=list)
    """Conversations that cannot be imported, with the reason."""

    def count(self, imported: ImportedConversation, taken: ImportResult) -> None:
        self.conversations += taken.is_new
        self.messages += taken.messages
        self.known += taken.known
        self.left_out += imported.left_out

    def refuse(self, address: Address, why: str) -> None:
        self.refused.append(f"{one_line(address.chat_id, 80)}: {why}")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what would be imported.")
@click.option(
    "--person",
    default="owner",
    metavar="ID",
    help="The person to import for, such as telegram:4711; by default you.",
)
@click.option(
    "--assistant", default="", metavar="NAME", help="The name or id of the author who is the agent."
)
@click.pass_context
def import_(ctx: click.Context, file: Path, dry_run: bool, person: str, assistant: str) -> None:
    """Import conversations from FILE.

    FILE is the `state.db` of hermes-agent, the `result.json` of Telegram Desktop's export, or a channel that
    DiscordChatExporter has written as JSON.

    The conversations appear on the platform `import`, with their original times and order, and search finds them.
    Messages that were imported before are skipped, so an interrupted import can be repeated.
    """
    from gateway.importers import read_source  # noqa: PLC0415 - not for `--help`; so below

    loaded = load_config(ctx.obj, log_level="error")
    with show_progress():
        outcome = _Outcome()
        source = read_source(file, person=person, assistant=assistant)
        if dry_run:
            read_store(ctx.obj, lambda store: _each(source, store.imports.preview, outcome))
        else:
            _import(loaded, source, outcome)
    _report(source, outcome, dry_run=dry_run)
    if outcome.refused:
        ctx.exit(1)


def _import(loaded: LoadedConfig, source: Source, outcome: _Outcome) -> None:
    async def import_all(store: GatewayStore) -> None:
        await _each(source, store.imports.add, outcome)
        await store.health.finish_index()

    try:
        change_store(loaded, import_all, if_running=_RUNNING)
    except HermesError:
        if outcome.messages:
            done = f"{pluralize(outcome.conversations, 'conversation')} ({pluralize(outcome.messages, 'message')})"
            click.echo(f"Complete so far: {done}; import the file again to continue.", err=True)
        raise


async def _each(source: Source, verb: Verb, outcome: _Outcome) -> None:
    from gateway.errors import ImportRefused  # noqa: PLC0415
    from gateway.store.import_types import Unreadable  # noqa: PLC0415

    for imported in source.conversations:
        if isinstance(imported, Unreadable):
            outcome.refuse(imported.address, imported.detail)
            continue
        try:
            outcome.count(imported, await verb(imported))
        except ImportRefused as error:
            outcome.refuse(imported.address, error.detail)


def _report(source: Source, outcome: _Outcome, *, dry_run: bool) -> None:
    would = "Would import" if dry_run else "Imported"
    new = pluralize(outcome.conversations, "new conversation")
    counts = f"{new} and {pluralize(outcome.messages, 'new message')}"
    click.echo(f"{would} {counts} from {source.name}.")
    if outcome.known:
        click.echo(f"Already imported: {pluralize(outcome.known, 'message')}.")
    if outcome.left_out:
        click.echo(
            f"Left out: {outcome.left_out:,} entries that are not messages (notices, prompts, undone turns)."
        )
    for sentence in outcome.refused:
        click.echo(f"Not imported: {sentence}", err=True)
    if outcome.messages and not dry_run:
        click.echo("`hermes sessions list --platform import` shows them.")
