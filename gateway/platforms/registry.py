"""Builds the platforms that are switched on. Imports each SDK only for a platform that is on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from gateway.access.gate import Gate
from gateway.access.pairing import Pairing
from gateway.chat.adapter import ChatPort
from gateway.chat.receiver import ChatReceiver
from gateway.config.schema_platforms import BotConfig, DiscordBotConfig, TelegramBotConfig, bot_in
from gateway.core.gateway import Gateway
from gateway.media.attachments import AttachmentReader
from gateway.observability import Metrics
from gateway.platforms.base import Platform
from gateway.reload import LiveConfig
from gateway.store.ports import Access
from gateway.store.reports import Reports

if TYPE_CHECKING:
    from gateway.platforms.discord import DiscordPlatform
    from gateway.platforms.telegram import TelegramPlatform


Bot = TypeVar("Bot", bound=BotConfig)


def build_platforms(
    settings: LiveConfig,
    gateway: Gateway,
    people: Access,
    insight: Reports,
    media: AttachmentReader,
    *,
    model: str,
    model_line: str,
    metrics: Metrics | None = None,
) -> list[Platform]:
    config = settings.config
    platforms: list[Platform] = []
    web = config.platforms.web
    if web.enabled:
        from gateway.platforms.web import DashboardContext, WebPlatform  # noqa: PLC0415 - see above

        platforms.append(
            WebPlatform(
                gateway,
                host=web.host,
                port=web.port,
                token=web.token.get_secret_value() if web.token else None,
                read_token=web.read_token.get_secret_value() if web.read_token else None,
                model_line=model_line,
                platforms=platforms,
                house=DashboardContext(gateway, insight, people, settings, model, platforms, metrics),
                metrics=metrics,
            )
        )
    pairing = Pairing(people)

    def reception_for(bot: BotConfig) -> Callable[[ChatPort], ChatReceiver]:
        def reception(port: ChatPort) -> ChatReceiver:
            gate = Gate(port.platform, bot, people)
            join_seconds = config.gateway.join_seconds
            desk = ChatReceiver(gateway, port, gate, pairing, media, bot, join_seconds=join_seconds)
            settings.followed_by(
                lambda new: desk.apply(
                    bot_in(new.platforms, port.platform), join_seconds=new.gateway.join_seconds
                )
            )
            return desk

        return reception

    for name, telegram in _bots(config.platforms.telegram, config.platforms.telegram.bots):
        platforms.append(_telegram(name, telegram, settings, gateway, reception_for(telegram)))
    for name, discord in _bots(config.platforms.discord, config.platforms.discord.bots):
        platforms.append(_discord(name, discord, settings, gateway, reception_for(discord)))
    return platforms


def _bots(main: Bot, named: Mapping[str, Bot]) -> Iterator[tuple[str, Bot]]:
    for name, bot in {"": main, **named}.items():
        if bot.is_on:
            yield name, bot


def _telegram(
    name: str,
    bot: TelegramBotConfig,
    settings: LiveConfig,
    gateway: Gateway,
    reception: Callable[[ChatPort], ChatReceiver],
) -> TelegramPlatform:
    from gateway.platforms.telegram import TelegramPlatform  # noqa: PLC0415 - see above

    platform = TelegramPlatform(bot, reception, gateway.commands.all, bot_name=name)
    settings.followed_by(platform.follow)
    return platform


def _discord(
    name: str,
    bot: DiscordBotConfig,
    settings: LiveConfig,
    gateway: Gateway,
    reception: Callable[[ChatPort], ChatReceiver],
) -> DiscordPlatform:
    from gateway.platforms.discord import DiscordPlatform  # noqa: PLC0415 - see above

    platform = DiscordPlatform(bot, reception, gateway.commands.all, bot_name=name)
    settings.followed_by(platform.follow)
    return platform
