"""Read-only access of commands to the store, also while Hermes runs."""

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

NOTHING_YET = "There are no messages yet. Start with `hermes chat`, or with `hermes run` and a browser."
_ALL = 1_000_000


def read_store(
    options: Options, question: Callable[[GatewayStore], Awaitable[T]], *, only_figures: bool = False
) -> T:
    """Run a query on the store, opened read-only; on an empty store before the first start.

    With `only_figures` the configuration may be incomplete. Otherwise it must be valid, because it names the secrets to
    redact."""
    from agent.redaction import keeping_secret  # noqa: PLC0415
    from gateway.config.secrets import all_secrets  # noqa: PLC0415
    from gateway.observability.logs import configure_logging  # noqa: PLC0415
    from gateway.store import open_empty_store, open_store  # noqa: PLC0415

    configure_logging("error", "human")  # standard output is for the result
    loaded = looked_up(options) if only_figures else loaded_for(options)

    is_new = not loaded.database.exists()

    async def ask() -> T:
        async with open_empty_store() if is_new else open_store(loaded, read_only=True) as store:
            return await question(store)

    with keeping_secret(all_secrets(loaded)):
        return asyncio.run(ask())


async def find_overview(store: SessionStore, wanted: str) -> Overview:
    """Find a conversation by its id, by the start of its id with or without `conv_`, or the latest one."""
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
    """Return the latest conversation; imported ones come last, because they were stored recently but are old."""
    found = await store.conversations(limit=1)
    if not any(map(_is_imported, found)):
        return found
    talked_here = (each for each in await store.conversations(limit=_ALL) if not _is_imported(each))
    return [next(talked_here, found[0])]


def _is_imported(overview: Overview) -> bool:
    return overview.conversation.address.platform == "import"


def begins(known_id: str, wanted: str) -> bool:
    return known_id.startswith(wanted) or known_id.partition("_")[2].startswith(wanted)
