"""What can be configured about the places where people talk to Hermes."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator

from gateway.config.fields import Count, Name, Port, Section, Url, refuse_booleans, setting

TOKEN_VARIABLES = {"telegram": "TELEGRAM_BOT_TOKEN", "discord": "DISCORD_BOT_TOKEN"}
"""Where a bot's token comes from if the file names none."""

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised here, never chosen


def _numeric(value: object) -> object:
    """A name can change hands; the number of an account never does."""
    if isinstance(value, str) and not value.lstrip("-").isdigit():
        raise ValueError("expected a numeric id, because a name can change hands; /whoami tells it")
    return refuse_booleans(value)


def _of_a_person(number: int) -> int:
    if number <= 0:
        raise ValueError(
            "expected a positive number, because people have no others; groups go to allowed_groups"
        )
    return number


def _of_a_telegram_group(number: int) -> int:
    if number >= 0:
        raise ValueError("expected a number that begins with a minus; /whoami or the log tells it")
    return number


def _of_a_discord_server(number: int) -> int:
    if number <= 0:
        raise ValueError("expected a positive number, because servers have no others; the log tells it")
    return number


def _web_socket(url: str) -> str:
    if not url.startswith(("ws://", "wss://")):
        raise ValueError("expected a ws or wss URL")
    return url


Id = Annotated[int, BeforeValidator(_numeric)]
Person = Annotated[Id, AfterValidator(_of_a_person)]
TelegramGroup = Annotated[Id, AfterValidator(_of_a_telegram_group)]
DiscordServer = Annotated[Id, AfterValidator(_of_a_discord_server)]
Socket = Annotated[str, AfterValidator(_web_socket)]
GroupContext = Annotated[int, Field(ge=0, le=200), BeforeValidator(refuse_booleans)]

_SHORTEST_OPEN_TOKEN = 16
"""Of a page that others can reach: nobody stops them from guessing, so it must be out of reach."""


class WebConfig(Section):
    """The chat page."""

    enabled: bool = setting(default=True, reload="restart", description="Whether the chat page is served.")
    host: Name = setting(
        default="127.0.0.1",
        reload="restart",
        description="The address to listen on. Any but a loopback address needs a token of at least 16 characters.",
    )
    port: Port = setting(
        default=8686, reload="restart", description="The port to listen on. 0 takes any free one."
    )
    token: SecretStr | None = setting(
        default=None,
        reload="restart",
        validate_default=True,
        description="The password of the chat page and the dashboard. Empty: none is asked for.",
    )
    read_token: SecretStr | None = setting(
        default=None,
        reload="restart",
        description="A second password, for whoever may look at the dashboard and change nothing. It needs `token`.",
    )

    @field_validator("token")
    @classmethod
    def _guard_an_open_door(cls, token: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        host = info.data.get("host", "localhost")
        if token is None and not is_loopback(host):
            raise ValueError(
                f"expected a token, because platforms.web.host is {host} and others can reach it; "
                "set a token, or listen on 127.0.0.1"
            )
        return _long_enough(token, host)

    @field_validator("read_token")
    @classmethod
    def _guard_the_window(cls, read_token: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        token = info.data.get("token")
        if read_token is not None and "token" in info.data and token in (None, read_token):
            raise ValueError(
                "expected platforms.web.token beside it, and another one: without it everybody may do everything"
            )
        return _long_enough(read_token, info.data.get("host", "localhost"))


def _long_enough(token: SecretStr | None, host: str) -> SecretStr | None:
    if token and not is_loopback(host) and len(token.get_secret_value()) < _SHORTEST_OPEN_TOKEN:
        raise ValueError(
            f"expected at least {_SHORTEST_OPEN_TOKEN} characters, because platforms.web.host is {host} "
            "and others can try to guess it"
        )
    return token


_ALLOWED_GROUPS = "Groups (Telegram) or servers (Discord) in which it answers, by numeric id."


class BotConfig(Section):
    """What a Telegram bot and a Discord bot have in common."""

    what_to_set: ClassVar[str] = "token"
    """Where a token is missing."""

    enabled: bool | None = setting(
        default=None,
        reload="restart",
        description="Whether the bot is started. Empty: yes if it has a token.",
    )
    token: SecretStr | None = setting(
        default=None, reload="restart", validate_default=True, description="The bot's token."
    )
    allowed_users: tuple[Person, ...] = setting(
        default=(),
        reload="live",
        description="Who may talk to it in a direct chat, by numeric id. Nobody else may.",
    )
    allowed_groups: tuple[Id, ...] = setting(default=(), reload="live", description=_ALLOWED_GROUPS)
    group_members: Literal["everyone", "allowed_users"] = setting(
        default="everyone", reload="live", description="Who may talk to it in an allowed group."
    )
    admins: tuple[Person, ...] = setting(
        default=(),
        reload="live",
        description="Who may approve newcomers and change the model, by numeric id. They are allowed users too.",
    )
    pairing: bool = setting(
        default=True,
        reload="live",
        description="A stranger in a direct chat gets a code, which the owner approves with "
        "`hermes pairing approve`. Otherwise strangers hear nothing.",
    )
    groups: Literal["shared", "per_person"] = setting(
        default="shared",
        reload="restart",
        description="Whether a group is one conversation, or each of its members has one.",
    )
    group_context: GroupContext = setting(
        default=20,
        reload="live",
        description="How many of the messages that others wrote to each other the model is shown when it is addressed.",
    )
    streaming: bool = setting(
        default=True,
        reload="live",
        description="Whether an answer grows as it is written, or appears when it is whole.",
    )

    @field_validator("token")
    @classmethod
    def _needed_to_start(cls, token: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if token is None and info.data.get("enabled"):
            raise ValueError(
                f"expected a token, because enabled is true; set {cls.what_to_set} or enabled: false"
            )
        return token

    @property
    def is_on(self) -> bool:
        return self.token is not None if self.enabled is None else self.enabled


class WebhookConfig(Section):
    """Telegram calls Hermes instead of being asked."""

    url: Url | None = setting(
        default=None,
        reload="restart",
        description="The public https address that leads to `host` and `port`. Empty: Hermes asks for messages itself.",
    )
    secret: SecretStr | None = setting(
        default=None,
        reload="restart",
        validate_default=True,
        description="Proves that a call comes from Telegram. Needed with `url`.",
    )
    host: Name = setting(default="127.0.0.1", reload="restart", description="The address to listen on.")
    port: Port = setting(default=8687, reload="restart", description="The port to listen on.")

    @field_validator("secret")
    @classmethod
    def _as_telegram_wants_it(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if secret is None and info.data.get("url"):
            raise ValueError(
                "expected a secret, because webhook.url is set; without one anybody could write to the bot"
            )
        if secret is not None and not _is_webhook_secret(secret.get_secret_value()):
            raise ValueError("expected 16 to 256 of the characters A-Z, a-z, 0-9, _ and -")
        return secret


class TelegramBotConfig(BotConfig):
    """A Telegram bot."""

    allowed_groups: tuple[TelegramGroup, ...] = setting(
        default=(), reload="live", description=_ALLOWED_GROUPS
    )
    base_url: Url = setting(
        default="https://api.telegram.org",
        reload="restart",
        description="The Bot API server, such as one of your own.",
    )
    webhook: WebhookConfig = Field(default_factory=WebhookConfig)


class TelegramConfig(TelegramBotConfig):
    """Chat via Telegram."""

    what_to_set: ClassVar[str] = TOKEN_VARIABLES["telegram"]

    bots: Mapping[Name, TelegramBotConfig] = setting(
        default={},
        reload="restart",
        description="More bots, by a name of your choice, each with the keys above.",
    )


class DiscordBotConfig(BotConfig):
    """A Discord bot."""

    allowed_groups: tuple[DiscordServer, ...] = setting(
        default=(), reload="live", description=_ALLOWED_GROUPS
    )
    api_base: Url = setting(
        default="https://discord.com/api/v10", reload="restart", description="Discord's REST interface."
    )
    gateway_url: Socket = setting(
        default="wss://gateway.discord.gg/", reload="restart", description="Discord's gateway."
    )


class DiscordConfig(DiscordBotConfig):
    """Chat via Discord."""

    what_to_set: ClassVar[str] = TOKEN_VARIABLES["discord"]

    bots: Mapping[Name, DiscordBotConfig] = setting(
        default={},
        reload="restart",
        description="More bots, by a name of your choice, each with the keys above.",
    )


class PlatformsConfig(Section):
    """Where people talk to Hermes."""

    web: WebConfig = Field(default_factory=WebConfig)
    telegram: TelegramConfig = Field(default_factory=TelegramConfig)
    discord: DiscordConfig = Field(default_factory=DiscordConfig)


Hour = Annotated[int, Field(ge=0, le=23), BeforeValidator(refuse_booleans)]


class SessionsConfig(Section):
    """When a conversation begins anew by itself. Nothing is deleted, and it is announced."""

    reset: Literal["none", "idle", "daily"] = setting(
        default="none",
        reload="live",
        description="`none`, `idle` (after a pause) or `daily` (with the first message of the day).",
    )
    idle_minutes: Count = setting(
        default=1440, reload="live", description="The pause after which `idle` begins anew."
    )
    daily_hour: Hour = setting(
        default=4,
        reload="live",
        description="The hour, in local time, at which a new day begins for `daily`.",
    )


Seconds = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False), BeforeValidator(refuse_booleans)]
DrainSeconds = Annotated[
    float, Field(ge=0.0, le=600.0, allow_inf_nan=False), BeforeValidator(refuse_booleans)
]


class GatewayConfig(Section):
    """How messages are taken in."""

    busy: Literal["queue", "steer", "interrupt"] = setting(
        default="queue",
        reload="live",
        description="What becomes of a message that comes while an answer is written: it waits (`queue`), is given "
        "to the model at its next step (`steer`), or ends the answer and takes its place (`interrupt`).",
    )
    join_seconds: Seconds = setting(
        default=1.0,
        reload="live",
        description="Parts of a long paste or an album that arrive within this time of each other are one message.",
    )
    drain_seconds: DrainSeconds = setting(
        default=8.0,
        reload="live",
        description="What running answers get to end when Hermes is stopped. Those that are not done by then are "
        "taken up at the next start.",
    )


def section_of(platform: str) -> str:
    """Where a bot's settings are in the file: `telegram/work` has those in `platforms.telegram.bots.work`."""
    service, _, name = platform.partition("/")
    return f"platforms.{service}.bots.{name}" if name else f"platforms.{service}"


def bot_in(platforms: PlatformsConfig, platform: str) -> TelegramBotConfig | DiscordBotConfig:
    """The settings of `telegram` or of `telegram/work`, which must be there."""
    service, _, name = platform.partition("/")
    if service == "telegram":
        return platforms.telegram.bots[name] if name else platforms.telegram
    return platforms.discord.bots[name] if name else platforms.discord


def reachable(host: str) -> str:
    """Where one finds, on this machine, who listens there."""
    return _WILDCARDS.get(host, host)


def url_of(host: str, port: int) -> str:
    """Of a server on this machine that listens there."""
    host = reachable(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it. A name other than `localhost` could point anywhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_webhook_secret(text: str) -> bool:
    return 16 <= len(text) <= 256 and all(
        char.isascii() and (char.isalnum() or char in "_-") for char in text
    )
