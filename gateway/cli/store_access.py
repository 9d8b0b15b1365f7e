"""Access of commands to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from agent.errors import NotFound
from gateway.cli import Options, load_config

if TYPE_CHECKING:
    from agent.store import Overview, SessionStore
    from gateway.config.loader import LoadedConfig
    from gateway.store.ports import GatewayStore

T = TypeVar("T")

NOTHING_YET = "There are no messages yet. Start with `hermes chat`, or with `hermes run` and a browser."
_ALL = 1_000_000


def read_store(
    options: Options, question: Callable[[GatewayStore], Awaitable[T]], *, only_figures: bool = False
) -> T:
    """Run a query on the store, opened read-only, also while Hermes runs; before the first start, on an empty store.

    With `only_figures` the configuration may be incomplete. Otherwise it must be valid, because it names the secrets to
    redact.
    """
    from agent.redaction import keeping_secret  # noqa: PLC0415 - not for `--help`; so below
    from gateway.config.secrets import all_secrets  # noqa: PLC0415
    from gateway.store import open_empty_store, open_store  # noqa: PLC0415

    loaded = load_config(options, log_level="error", lenient=only_figures)
    is_new = not loaded.has_store()

    async def ask() -> T:
        async with open_empty_store() if is_new else open_store(loaded, read_only=True) as store:
            return await question(store)

    with keeping_secret(all_secrets(loaded)):
        return asyncio.run(ask())


def change_store(
    loaded: LoadedConfig, action: Callable[[GatewayStore], Awaitable[T]], *, if_running: str
) -> T:
    """Change the store as its only user. Refuses with the sentence `if_running` while Hermes runs."""
    from gateway.config.loader import ensure_home  # noqa: PLC0415
    from gateway.errors import AlreadyRunning  # noqa: PLC0415
    from gateway.process_lock import hold_lock  # noqa: PLC0415
    from gateway.store import open_store  # noqa: PLC0415

    async def act() -> T:
        async with open_store(loaded) as store:
            return await action(store)

    ensure_home(loaded.home)
    try:
        with hold_lock(loaded.home, loaded.database):
            return asyncio.run(act())
    except AlreadyRunning:
        raise click.ClickException(if_running) from None


async def find_overview(store: SessionStore, wanted: str) -> Overview:
    """Find a conversation by its id, by the start of its id with or without `conv_`, or the latest one."""
    if wanted == "latest":
        return await _latest(store)
    every = await store.conversations(limit=_ALL)
    found = [each for each in every if begins(each.conversation.id, wanted)]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} conversations begin with '{wanted}'; give more of the id.")
    if not found:
        raise NotFound(f"No conversation begins with '{wanted}'; `hermes sessions list` shows them.")
    return found[0]


async def _latest(store: SessionStore) -> Overview:
    """Return the latest conversation; imported ones come last, because they were stored recently but are old."""
    latest = await store.conversations(limit=1)
    if not latest:
        raise NotFound(NOTHING_YET)
    if not _is_imported(latest[0]):
        return latest[0]
    talked_here = (each for each in await store.conversations(limit=_ALL) if not _is_imported(each))
    return next(talked_here, latest[0])


def _is_imported(overview: Overview) -> bool:
    return overview.conversation.address.platform == "import"


def begins(known_id: str, wanted: str) -> bool:
    return known_id.startswith(wanted) or known_id.partition("_")[2].startswith(wanted)
