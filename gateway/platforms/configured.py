"""The platforms that are switched on. Their libraries are heavy and loaded only for those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from gateway.access.gate import Gate
from gateway.access.pairing import Pairing
from gateway.access.people import People
from gateway.chat.contract import ChatPort
from gateway.chat.reception import Reception
from gateway.config.platforms import BotConfig, DiscordBotConfig, TelegramBotConfig
from gateway.config.schema import Config
from gateway.gateway import Gateway
from gateway.media.intake import MediaIntake
from gateway.metrics import Metrics
from gateway.platforms.base import Platform

if TYPE_CHECKING:
    from gateway.platforms.discord import DiscordPlatform
    from gateway.platforms.telegram import TelegramPlatform

Bot = TypeVar("Bot", bound=BotConfig)


def configured_platforms(
    config: Config,
    gateway: Gateway,
    people: People,
    media: MediaIntake,
    *,
    model_line: str,
    metrics: Metrics | None = None,
) -> list[Platform]:
    platforms: list[Platform] = []
    web = config.platforms.web
    if web.enabled:
        from gateway.platforms.web import WebPlatform  # noqa: PLC0415 - see above

        token = web.token.get_secret_value() if web.token else None
        platforms.append(
            WebPlatform(
                gateway,
                host=web.host,
                port=web.port,
                token=token,
                model_line=model_line,
                platforms=platforms,
                metrics=metrics,
            )
        )
    pairing = Pairing(people)

    def reception_for(settings: BotConfig) -> Callable[[ChatPort], Reception]:
        def reception(port: ChatPort) -> Reception:
            gate = Gate(port.platform, settings, people)
            join_seconds = config.gateway.join_seconds
            return Reception(gateway, port, gate, pairing, media, settings, join_seconds=join_seconds)

        return reception

    for name, telegram in _bots(config.platforms.telegram, config.platforms.telegram.bots):
        platforms.append(_telegram(name, telegram, gateway, reception_for(telegram)))
    for name, discord in _bots(config.platforms.discord, config.platforms.discord.bots):
        platforms.append(_discord(name, discord, gateway, reception_for(discord)))
    return platforms


def _bots(main: Bot, named: Mapping[str, Bot]) -> Iterator[tuple[str, Bot]]:
    for name, bot in {"": main, **named}.items():
        if bot.is_on:
            yield name, bot


def _telegram(
    name: str, settings: TelegramBotConfig, gateway: Gateway, reception: Callable[[ChatPort], Reception]
) -> TelegramPlatform:
    from gateway.platforms.telegram import TelegramPlatform  # noqa: PLC0415 - see above

    return TelegramPlatform(settings, reception, gateway.commands.all, bot_name=name)


def _discord(
    name: str, settings: DiscordBotConfig, gateway: Gateway, reception: Callable[[ChatPort], Reception]
) -> DiscordPlatform:
    from gateway.platforms.discord import DiscordPlatform  # noqa: PLC0415 - see above

    return DiscordPlatform(settings, reception, gateway.commands.all, bot_name=name)
