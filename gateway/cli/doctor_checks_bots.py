"""What `hermes doctor` looks at in each bot that is on: its token, and who may talk to it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agent.errors import StoreError
from gateway.cli.bot_probe import BotTokenRefused, BotUnreachable, ask_bot
from gateway.cli.bots import Bot
from gateway.cli.bots import bots as configured_bots
from gateway.cli.doctor_checks import Finding
from gateway.cli.output import one_line
from gateway.config.load import Loaded
from gateway.config.platforms import TOKEN_VARIABLES, section_of
from gateway.store.sqlite import SqliteStore


def bots(loaded: Loaded, *, offline: bool) -> Iterator[Finding]:
    # The configuration lets no bot be on without a token.
    on = [
        (platform, bot, bot.token.get_secret_value())
        for platform, bot in configured_bots(loaded.config.platforms)
        if bot.is_on and bot.token
    ]
    approved = _approved(loaded.database) if on else Counter()
    for platform, bot, token in on:
        yield from _token(platform, bot, token, offline=offline)
        yield _access(platform, bot, approved[platform])


def _token(platform: str, bot: Bot, token: str, *, offline: bool) -> Iterator[Finding]:
    if offline:
        yield Finding("ok", f"{platform}: the token was not tried (--offline)")
        return
    try:
        account = ask_bot(bot, token)
    except BotTokenRefused as error:
        yield Finding("fail", f"{platform}: {error} Then {_where_to_put_it(platform)}")
    except BotUnreachable as error:
        yield Finding("fail", f"{platform}: {error}")
    else:
        yield Finding("ok", f"{platform}: the token is good, the bot is {one_line(account.name, 60)}")
        if account.problem:
            yield Finding("fail", f"{platform}: {account.problem}")


def _where_to_put_it(platform: str) -> str:
    service, _, name = platform.partition("/")
    if name:
        return f"set {section_of(platform)}.token"
    return f"run `hermes setup --only {service}`, or set {TOKEN_VARIABLES[service]}"


def _access(platform: str, bot: Bot, approved: int) -> Finding:
    users, groups = len({*bot.allowed_users, *bot.admins}), len(bot.allowed_groups)
    if not (users or groups or approved or bot.pairing):
        hint = f"set allowed_users, allowed_groups or `pairing: true` in {section_of(platform)}"
        return Finding("warn", f"{platform}: nobody may talk to the bot; {hint}")
    newcomers = "newcomers get a code" if bot.pairing else "newcomers hear nothing"
    return Finding(
        "ok",
        f"{platform}: allowed users {users}, allowed groups {groups}, people approved {approved}; {newcomers}",
    )


def _approved(database: Path) -> Counter[str]:
    """By platform. A database that cannot be read is another check's finding."""
    try:
        return asyncio.run(_count(database)) if database.exists() else Counter()
    except (StoreError, OSError):
        return Counter()


async def _count(database: Path) -> Counter[str]:
    store = await SqliteStore.open(database, read_only=True)
    try:
        return Counter(paired.platform for paired in await store.people.approved())
    finally:
        await store.close()
