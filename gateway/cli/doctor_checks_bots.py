"""What `hermes doctor` looks at in each bot that is on: its token, and who may talk to it."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.errors import StoreError
from gateway.cli.bots import Bot, BotTokenRefused, BotUnreachable, ask_bot
from gateway.cli.bots import bots as configured_bots
from gateway.cli.doctor_checks import Finding, try_to_listen
from gateway.cli.output import one_line
from gateway.config.loader import Loaded
from gateway.config.schema_platforms import TOKEN_VARIABLES, TelegramBotConfig, WebhookConfig, section_of
from gateway.config.secrets import token_problem
from gateway.process_lock import is_running
from gateway.store import open_store

_CLOCK_SECONDS = 300


def bots(loaded: Loaded, *, offline: bool) -> Iterator[Finding]:
    # The configuration lets no bot be on without a token.
    on = [
        (platform, bot, bot.token.get_secret_value())
        for platform, bot in configured_bots(loaded.config.platforms)
        if bot.is_on and bot.token
    ]
    approved = _approved(loaded) if on else Counter()
    yield from _shared_tokens([(platform, token) for platform, _, token in on])
    for platform, bot, token in on:
        yield from _token(platform, bot, token, offline=offline)
        yield _access(platform, bot, approved[platform])
        if isinstance(bot, TelegramBotConfig) and bot.webhook.url:
            yield from _webhook(platform, bot.webhook, loaded.home)


def _shared_tokens(on: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """A service delivers each message to one of them, now to this one, now to that."""
    by_token: defaultdict[str, list[str]] = defaultdict(list)
    for platform, token in on:
        by_token[token].append(platform)
    for platforms in by_token.values():
        if len(platforms) > 1:
            yield Finding(
                "fail", f"{' and '.join(platforms)} have the same token; each bot needs one of its own"
            )


def _webhook(platform: str, webhook: WebhookConfig, home: Path) -> Iterator[Finding]:
    where = f"{webhook.host}:{webhook.port}"
    try:
        try_to_listen(webhook.host, webhook.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and is_running(home):
            yield Finding("ok", f"{platform}: {where} is in use, and Hermes is running")
            return
        why = "it is in use by another program" if error.errno == errno.EADDRINUSE else error.strerror
        setting = f"{section_of(platform)}.webhook"
        yield Finding(
            "fail",
            f"{platform}: cannot listen on {where} for the webhook ({why}); set {setting}.host and port",
        )
    else:
        yield Finding("ok", f"{platform}: {where} is free for the webhook")


def _token(platform: str, bot: Bot, token: str, *, offline: bool) -> Iterator[Finding]:
    if problem := token_problem(platform.partition("/")[0], token):
        yield Finding("fail", f"{platform}: {problem}. Copy it again and {_where_to_put_it(platform)}")
        return
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
        if abs(account.clock_ahead) > _CLOCK_SECONDS:
            minutes, which = (
                round(abs(account.clock_ahead) / 60),
                "fast" if account.clock_ahead > 0 else "slow",
            )
            yield Finding(
                "fail",
                f"{platform}: the clock of this machine is {minutes} minutes {which}, by the service's; set it "
                "(`timedatectl set-ntp true`): certificates, codes and days go by it",
            )


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


def _approved(loaded: Loaded) -> Counter[str]:
    """By platform. A database that cannot be read is another check's finding."""
    try:
        return asyncio.run(_count(loaded)) if loaded.database.exists() else Counter()
    except (StoreError, OSError):
        return Counter()


async def _count(loaded: Loaded) -> Counter[str]:
    async with open_store(loaded, read_only=True) as store:
        return Counter(paired.platform for paired in await store.access.approved())
