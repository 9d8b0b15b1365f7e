"""How commands ask the store: for reading only, so they work while Hermes runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from agent.errors import NotFound
from gateway.cli import Options, loaded_for, looked_up

if TYPE_CHECKING:
    from agent.store import Overview, SessionStore
    from gateway.store.ports import GatewayStore

T = TypeVar("T")

NOTHING_YET = "Nothing was said yet. Begin with `hermes chat`, or `hermes run` and a browser."
_ALL = 1_000_000


def read_store(
    options: Options, question: Callable[[GatewayStore], Awaitable[T]], *, only_figures: bool = False
) -> T:
    """Asks the store, opened for reading only; an empty one where nothing was stored yet.

    What people said is shown only where the whole configuration can be read: it knows what is secret in there."""
    from agent.redaction import keeping_secret  # noqa: PLC0415
    from gateway.config.secrets import all_secrets  # noqa: PLC0415
    from gateway.observability.logs import configure_logging  # noqa: PLC0415
    from gateway.store import open_empty_store, open_store  # noqa: PLC0415

    configure_logging("error", "human")  # standard output is for what was asked
    loaded = looked_up(options) if only_figures else loaded_for(options)

    is_new = not loaded.database.exists()

    async def ask() -> T:
        async with open_empty_store() if is_new else open_store(loaded, read_only=True) as store:
            return await question(store)

    with keeping_secret(all_secrets(loaded)):
        return asyncio.run(ask())


async def find_overview(store: SessionStore, wanted: str) -> Overview:
    """By id, by the beginning of an id with or without its `conv_`, or the latest."""
    if wanted == "latest":
        found = await _latest(store)
    else:
        every = await store.conversations(limit=_ALL)
        found = [each for each in every if begins(each.conversation.id, wanted)]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} conversations begin with '{wanted}'; give more of the id.")
    if not found and wanted == "latest":
        raise NotFound(NOTHING_YET)
    if not found:
        raise NotFound(f"No conversation begins with '{wanted}'; `hermes sessions list` shows them.")
    return found[0]


async def _latest(store: SessionStore) -> list[Overview]:
    """What was imported was stored last, and is what somebody talked about long ago: the others come before it."""
    found = await store.conversations(limit=1)
    if not any(map(_is_imported, found)):
        return found
    talked_here = (each for each in await store.conversations(limit=_ALL) if not _is_imported(each))
    return [next(talked_here, found[0])]


def _is_imported(overview: Overview) -> bool:
    return overview.conversation.address.platform == "import"


def begins(known_id: str, wanted: str) -> bool:
    return known_id.startswith(wanted) or known_id.partition("_")[2].startswith(wanted)
