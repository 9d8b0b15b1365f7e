"""Platform registry: the built-in platforms, and those that plugins add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.aio import ForeignError, foreign_code
from agent.errors import HermesError
from gateway.access import Gate, Pairing
from gateway.config.fields import Section
from gateway.config.schema_platforms import BotConfig, PlatformsConfig, bot_config, bot_configs
from gateway.platforms.base import (
    BotAccount,
    BotTokenRefused,
    BotUnreachable,
    Platform,
    PlatformContext,
    PlatformSpec,
    Services,
)
from gateway.platforms.discord.spec import DISCORD
from gateway.platforms.telegram.spec import TELEGRAM
from gateway.platforms.web.spec import WEB

if TYPE_CHECKING:
    from gateway.chat.adapter import ChatPort, InboundHandler
    from gateway.config.loader import LoadedConfig
    from gateway.plugins.loader import Plugins

BUILT_IN = (WEB, TELEGRAM, DISCORD)


class PlatformRegistry(Mapping[str, PlatformSpec]):
    """Platform specs by name, in the order in which platforms start."""

    def __init__(self, added: Iterable[PlatformSpec] = ()) -> None:
        self._specs = {spec.name: spec for spec in (*BUILT_IN, *added)}

    @classmethod
    def with_plugins(cls, plugins: Plugins) -> PlatformRegistry:
        return cls(spec for spec in plugins.platforms.values() if isinstance(spec, PlatformSpec))

    def __getitem__(self, platform: str) -> PlatformSpec:
        """Return the spec of `telegram`, which is also the spec of `telegram/work`."""
        return self._specs[platform.partition("/")[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    @property
    def bots(self) -> list[PlatformSpec]:
        """The chat services: every platform that is set up with a token."""
        return [spec for spec in self._specs.values() if spec.is_bot]

    @property
    def command_hyphens(self) -> dict[str, str]:
        return {name: spec.command_hyphen for name, spec in self._specs.items()}

    def configured(self, platforms: PlatformsConfig) -> Iterator[tuple[str, Any]]:
        """Yield the name and section of every platform that is on: `web`, `telegram`, `telegram/work`."""
        bots = dict(bot_configs(platforms))
        for name in self._specs:
            section: Section = getattr(platforms, name)
            if not isinstance(section, BotConfig):
                if getattr(section, "enabled", True):
                    yield name, section
                continue
            for bot, config in bots.items():
                if bot.partition("/")[0] == name and config.is_on:
                    yield bot, config

    def build(self, services: Services) -> list[Platform]:
        """Build the platforms that are on. Only their SDKs are imported."""
        pairing, platforms = Pairing(services.access), list[Platform]()
        for name, config in self.configured(services.live_config.config.platforms):
            context = PlatformContext(
                name=name,
                config=config,
                commands=services.gateway.commands.menu,
                receiver=partial(_build_receiver, services, pairing, name, config),
                on_config_change=partial(_subscribe, services, name),
                services=services,
                platforms=platforms,
            )
            platforms.append(self[name].build(context))
        return platforms


def _build_receiver(
    services: Services, pairing: Pairing, platform: str, config: Any, port: ChatPort
) -> InboundHandler:
    """Build the inbound handler of a bot, which follows the reloaded configuration."""
    from gateway.chat.receiver import ChatReceiver  # noqa: PLC0415 - not for `hermes setup`

    gateway, settings = services.gateway, services.live_config
    gate = gateway.access.add(Gate(platform, config, services.access))
    join_seconds = settings.config.gateway.join_seconds
    handler = ChatReceiver(gateway, port, gate, pairing, services.media, config, join_seconds=join_seconds)
    settings.subscribe(
        lambda new: handler.apply(bot_config(new.platforms, platform), join_seconds=new.gateway.join_seconds)
    )
    gateway.bots[platform] = handler
    return handler


def _subscribe(services: Services, platform: str, apply: Callable[[Any], None]) -> None:
    """Pass on the bot's section after each reload."""
    services.live_config.subscribe(lambda new: apply(bot_config(new.platforms, platform)))


async def probe_bot(spec: PlatformSpec, config: BotConfig, token: str) -> BotAccount:
    """Ask the service whose token this is. Raises BotTokenRefused or BotUnreachable, without the token."""
    assert spec.probe is not None
    token = token.strip()
    if problem := config.token_problem(token):
        raise BotTokenRefused(f"{problem}.")
    try:
        with foreign_code(HermesError):
            return await spec.probe(config, token)
    except ForeignError as failure:  # the message of the error may quote the token
        raise BotUnreachable(f"the probe of {spec.title} failed ({failure}).") from failure.error


def resolve(loaded: LoadedConfig, plugins: Plugins) -> tuple[PlatformRegistry, LoadedConfig]:
    """Add the platforms of plugins, and check their sections of the configuration. Raises ConfigError."""
    if plugins.names:
        loaded = loaded.with_platforms(plugins.platform_sections)
    return PlatformRegistry.with_plugins(plugins), loaded
