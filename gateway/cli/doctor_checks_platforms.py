"""Platform checks of `hermes doctor`: ports, tokens, and who may talk to each bot."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from agent.errors import StoreError
from gateway.cli.output import one_line
from gateway.config.loader import LoadedConfig
from gateway.config.schema_platforms import BotConfig, section_key
from gateway.errors import ConfigError
from gateway.platforms.base import BotTokenRefused, BotUnreachable, Finding, PlatformSpec
from gateway.platforms.registry import PlatformRegistry, probe_bot, resolve
from gateway.plugins.loader import survey_plugins
from gateway.store import open_store

_MAX_CLOCK_SECONDS = 300


def platforms(loaded: LoadedConfig, *, offline: bool) -> Iterator[Finding]:
    """Check every platform that is on."""
    registry = PlatformRegistry()
    try:
        plugins, _ = survey_plugins(loaded.home, loaded.config.plugins.enabled)
        registry, loaded = resolve(loaded, plugins)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("fail", problem)
    on = dict(registry.configured(loaded.config.platforms))
    bots = {name: section for name, section in on.items() if isinstance(section, BotConfig)}
    approved = _count_approved(loaded) if bots else Counter()
    yield from _shared_tokens(bots)
    for spec in registry.values():
        if spec.name not in on and not spec.is_bot:
            yield Finding("ok", f"{spec.name}: off")
    for name, section in on.items():
        spec = registry[name]
        if isinstance(section, BotConfig):
            yield from _token(name, spec, section, offline=offline)
            yield _access(name, section, approved[name])
        if spec.check is not None:
            yield from spec.check(name, section, loaded.home)


def _shared_tokens(bots: Mapping[str, BotConfig]) -> Iterator[Finding]:
    """Find bots with the same token: the service would deliver each message to any one of them."""
    by_token: defaultdict[str, list[str]] = defaultdict(list)
    for name, config in bots.items():
        if config.token:
            by_token[config.token.get_secret_value()].append(name)
    for names in by_token.values():
        if len(names) > 1:
            yield Finding("fail", f"{' and '.join(names)} have the same token; each bot needs its own")


def _token(name: str, spec: PlatformSpec, config: BotConfig, *, offline: bool) -> Iterator[Finding]:
    assert config.token is not None, "the configuration refuses a bot that is on without a token"
    token = config.token.get_secret_value()
    if problem := config.token_problem(token):
        yield Finding("fail", f"{name}: {problem}. Copy it again and {_token_advice(name, spec)}")
        return
    if offline or spec.probe is None:
        yield Finding("ok", f"{name}: the token was not checked" + (" (--offline)" if offline else ""))
        return
    try:
        account = asyncio.run(probe_bot(spec, config, token))
    except BotTokenRefused as error:
        yield Finding("fail", f"{name}: {error} Then {_token_advice(name, spec)}")
        return
    except BotUnreachable as error:
        yield Finding("fail", f"{name}: {error}")
        return
    yield Finding("ok", f"{name}: the token is good, the bot is {one_line(account.name, 60)}")
    if account.problem:
        yield Finding("fail", f"{name}: {account.problem}")
    if abs(account.clock_ahead) > _MAX_CLOCK_SECONDS:
        minutes, which = round(abs(account.clock_ahead) / 60), "fast" if account.clock_ahead > 0 else "slow"
        yield Finding(
            "fail",
            f"{name}: this machine's clock is {minutes} minutes {which}, compared with the service's; set it "
            "(`timedatectl set-ntp true`): certificates, codes and daily limits depend on it",
        )


def _token_advice(name: str, spec: PlatformSpec) -> str:
    if "/" in name:
        return f"set {section_key(name)}.token"
    return f"run `hermes setup --only {spec.name}`, or set {spec.token_variable}"


def _access(name: str, config: BotConfig, approved: int) -> Finding:
    users, groups = len({*config.allowed_users, *config.admins}), len(config.allowed_groups)
    if not (users or groups or approved or config.pairing):
        hint = f"set allowed_users, allowed_groups or `pairing: true` in {section_key(name)}"
        return Finding("warn", f"{name}: no one may talk to the bot; {hint}")
    newcomers = "newcomers get a code" if config.pairing else "newcomers get no answer"
    return Finding(
        "ok",
        f"{name}: allowed users {users}, allowed groups {groups}, people approved {approved}; {newcomers}",
    )


def _count_approved(loaded: LoadedConfig) -> Counter[str]:
    """Count approved people by platform. The store check reports a database that cannot be read."""

    async def count() -> Counter[str]:
        async with open_store(loaded, read_only=True) as store:
            return Counter(paired.platform for paired in await store.access.approved())

    try:
        return asyncio.run(count()) if loaded.has_store() else Counter()
    except (StoreError, OSError):
        return Counter()
