"""Which settings a running Hermes takes over, and which ones wait for a restart. Every key stands in one of the lists.

A bot under `bots` goes by the same lists as the first one; that there is such a bot at all is decided at the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from gateway.config.fields import Section
from gateway.config.schema import Config
from gateway.config.yaml_document import Place

_SERVICES = ("telegram", "discord")
_BOTS = "bots"

AT_ONCE = frozenset(
    {
        "agent.max_iterations",
        "agent.system_prompt",
        "tools.approval",
        *(
            f"platforms.{service}.{key}"
            for service in _SERVICES
            for key in (
                "allowed_users",
                "allowed_groups",
                "group_members",
                "admins",
                "pairing",
                "group_context",
                "streaming",
            )
        ),
        "gateway.busy",
        "gateway.join_seconds",
        "gateway.drain_seconds",
        "sessions.reset",
        "sessions.idle_minutes",
        "sessions.daily_hour",
        "limits.messages_per_minute",
        "limits.owner_messages_per_minute",
        "limits.waiting_messages",
        "limits.daily_usd_per_person",
        "limits.daily_usd_total",
        "limits.unknown_price",
        "logging.level",
        "logging.format",
        "logging.file",
    }
)

AFTER_RESTART = frozenset(
    {
        "model.name",
        "model.base_url",
        "model.api_key",
        "model.context_length",
        "model.vision",
        "model.max_tokens",
        "model.fallbacks",
        "tools.enabled",
        "tools.platforms",
        "tools.sandbox.mode",
        "tools.sandbox.network",
        "tools.sandbox.memory_mb",
        "tools.sandbox.processes",
        "tools.sandbox.seconds",
        "tools.sandbox.cpu_seconds",
        "tools.sandbox.file_mb",
        "storage.path",
        "platforms.web.enabled",
        "platforms.web.host",
        "platforms.web.port",
        "platforms.web.token",
        "platforms.web.read_token",
        *(
            f"platforms.{service}.{key}"
            for service in _SERVICES
            for key in ("enabled", "token", "groups", _BOTS)
        ),
        "platforms.telegram.base_url",
        "platforms.telegram.webhook.url",
        "platforms.telegram.webhook.secret",
        "platforms.telegram.webhook.host",
        "platforms.telegram.webhook.port",
        "platforms.discord.api_base",
        "platforms.discord.gateway_url",
        "context.engine",
        "context.options",
        "compression.enabled",
        "compression.threshold",
        "compression.target_ratio",
        "compression.protect_last_n",
        "compression.background_at",
        "compression.memory_flush",
        "auxiliary.compression.model",
        "auxiliary.compression.provider",
        "auxiliary.compression.base_url",
        "auxiliary.transcription.model",
        "auxiliary.transcription.base_url",
        "auxiliary.transcription.api_key",
        "prompt_caching.cache_ttl",
        "prompt_caching.strategy",
        "plugins.enabled",
    }
)

S = TypeVar("S", bound=Section)


def in_effect(started: Config, wanted: Config) -> Config:
    """What a process goes by that was started with the one and has read the other."""
    return _merged(started, wanted, ())


def differences(old: Section, new: Section, place: Place = ()) -> Iterator[Place]:
    """The keys that are not the same. A bot that only one of them has is one key."""
    for name in type(old).model_fields:
        yield from _differences(getattr(old, name), getattr(new, name), (*place, name))


def applies_at_once(place: Place) -> bool:
    return ".".join(map(str, _of_the_first_bot(place))) in AT_ONCE


def _differences(old: Any, new: Any, place: Place) -> Iterator[Place]:
    if isinstance(old, Section):
        yield from differences(old, new, place)
    elif _holds_bots(place):
        for name in {**old, **new}:
            if name in old and name in new:
                yield from differences(old[name], new[name], (*place, name))
            else:
                yield (*place, name)
    elif old != new:
        yield place


def _merged(started: S, wanted: S, place: Place) -> S:
    update = {
        name: _merged_value(getattr(started, name), getattr(wanted, name), (*place, name))
        for name in type(started).model_fields
    }
    return started.model_copy(update=update)


def _merged_value(started: Any, wanted: Any, place: Place) -> Any:
    if isinstance(started, Section):
        return _merged(started, wanted, place)
    if _holds_bots(place):
        return {
            name: _merged(bot, wanted.get(name, bot), (*place, name))
            for name, bot in _as_mapping(started).items()
        }
    return wanted if applies_at_once(place) else started


def _as_mapping(bots: Any) -> Mapping[str, Section]:
    assert isinstance(bots, Mapping)
    return bots


def _holds_bots(place: Place) -> bool:
    return len(place) == 3 and place[0] == "platforms" and place[2] == _BOTS


def _of_the_first_bot(place: Place) -> Place:
    """`platforms.telegram.bots.work.admins` is `platforms.telegram.admins`, whatever the bot is called."""
    return (*place[:2], *place[4:]) if _holds_bots(place[:3]) and len(place) > 4 else place
