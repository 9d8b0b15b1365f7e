"""Configuration of the section `platforms`, and of `gateway` and `sessions`: how messages are received."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from gateway.config.fields import Count, Name, Port, Section, Url, reject_booleans, setting

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised here, never chosen
_ID = re.compile(r"[!-~]{1,128}")
_NUMBER = re.compile(r"-?[0-9]{1,30}")
_TELEGRAM_TOKEN = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_PLATFORM_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_ONE_WORD = re.compile(r"[!-~]+")
_WEBHOOK_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}")


def _id_text(value: object) -> object:
    """Convert an id to a string: YAML reads digits as a number."""
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return str(value) if isinstance(value, int) else value


def is_id(text: str) -> bool:
    """Tell whether a user or a group can have this id: printable ASCII without spaces."""
    return _ID.fullmatch(text) is not None


def _check_id(text: str) -> str:
    if not is_id(text):
        raise ValueError("expected an id without spaces; /whoami tells it")
    return text


def _number(text: str) -> str:
    """Refuse names: a name can change hands, the number of an account never does."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("expected a numeric id, because a name can change hands; /whoami tells it")
    return str(int(text))


def _user_number(text: str) -> str:
    if int(text) <= 0:
        raise ValueError(
            "expected a positive number, because people have no others; groups go to allowed_groups"
        )
    return text


def _telegram_group(text: str) -> str:
    if int(text) >= 0:
        raise ValueError("expected a number that begins with a minus; /whoami or the log tells it")
    return text


def _discord_server(text: str) -> str:
    if int(text) <= 0:
        raise ValueError("expected a positive number, because servers have no others; the log tells it")
    return text


def _web_socket(url: str) -> str:
    if not url.startswith(("ws://", "wss://")):
        raise ValueError("expected a ws or wss URL")
    return url


Id = Annotated[str, BeforeValidator(_id_text), AfterValidator(_check_id)]
"""The id of a user or a group, as the service writes it: `4711`, `-1001234`, `U02AB3`."""
NumericId = Annotated[str, BeforeValidator(_id_text), AfterValidator(_number)]
NumericUserId = Annotated[NumericId, AfterValidator(_user_number)]
TelegramGroupId = Annotated[NumericId, AfterValidator(_telegram_group)]
DiscordServerId = Annotated[NumericId, AfterValidator(_discord_server)]
Socket = Annotated[str, AfterValidator(_web_socket)]
GroupContextSize = Annotated[int, Field(ge=0, le=200), BeforeValidator(reject_booleans)]

_MIN_OPEN_TOKEN = 16
"""Shortest token of a page that other machines can reach, because they can guess without limit."""


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
        description="The password of the chat page and the dashboard. Empty: no password.",
    )
    read_token: SecretStr | None = setting(
        default=None,
        reload="restart",
        description="A second password that opens the dashboard for reading only. It needs `token`.",
    )

    @field_validator("token")
    @classmethod
    def _check_token(cls, token: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        host = info.data.get("host", "localhost")
        if token is None and not is_loopback(host):
            raise ValueError(
                f"expected a token, because platforms.web.host is {host} and others can reach it; "
                "set a token, or listen on 127.0.0.1"
            )
        return _long_enough(token, host)

    @field_validator("read_token")
    @classmethod
    def _check_read_token(cls, read_token: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        token = info.data.get("token")
        if read_token is not None and "token" in info.data and token in (None, read_token):
            raise ValueError(
                "expected a different platforms.web.token beside it: without one, anyone may change everything"
            )
        return _long_enough(read_token, info.data.get("host", "localhost"))


def _long_enough(token: SecretStr | None, host: str) -> SecretStr | None:
    if token and not is_loopback(host) and len(token.get_secret_value()) < _MIN_OPEN_TOKEN:
        raise ValueError(
            f"expected at least {_MIN_OPEN_TOKEN} characters, because platforms.web.host is {host} "
            "and others can try to guess it"
        )
    return token


def _allowed_users(kind: str) -> Any:
    return setting(
        default=(),
        reload="live",
        description=f"Users who may talk to the bot in a direct chat, by {kind}. Others may not.",
    )


def _admins(kind: str) -> Any:
    return setting(
        default=(),
        reload="live",
        description=f"Users who may approve newcomers and change the model, by {kind}. They are allowed users too.",
    )


def _allowed_groups(what: str) -> Any:
    return setting(default=(), reload="live", description=f"{what} in which the bot answers.")


def _more_bots() -> Any:
    return setting(
        default={},
        reload="restart",
        description="More bots, by a name of your choice, each with the keys above.",
    )


class BotConfig(Section):
    """A bot on a chat service. Subclasses add the keys of their service and may narrow the ids."""

    token_variable: ClassVar[str] = ""
    """Environment variable that holds the token if the file has none; empty for a bot with a name."""

    enabled: bool | None = setting(
        default=None,
        reload="restart",
        description="Whether the bot is started. Empty: yes if it has a token.",
    )
    token: SecretStr | None = setting(
        default=None, reload="restart", validate_default=True, description="The bot's token."
    )
    allowed_users: tuple[Id, ...] = _allowed_users("id")
    allowed_groups: tuple[Id, ...] = _allowed_groups("Groups, by id,")
    group_members: Literal["everyone", "allowed_users"] = setting(
        default="everyone", reload="live", description="Who may talk to the bot in an allowed group."
    )
    admins: tuple[Id, ...] = _admins("id")
    pairing: bool = setting(
        default=True,
        reload="live",
        description="Whether a stranger in a direct chat gets a code that the owner can approve with "
        "`hermes pairing approve`. Otherwise the bot does not answer strangers.",
    )
    groups: Literal["shared", "per_person"] = setting(
        default="shared",
        reload="restart",
        description="Whether a group is one conversation, or each of its members has one.",
    )
    group_context: GroupContextSize = setting(
        default=20,
        reload="live",
        description="How many earlier group messages, not addressed to the bot, the model sees when it is addressed.",
    )
    streaming: bool = setting(
        default=True,
        reload="live",
        description="Whether an answer grows as it is written, or appears when it is complete.",
    )

    @classmethod
    def token_problem(cls, token: str) -> str:
        """Say what is wrong with the form of a token; empty if nothing is."""
        return "" if _ONE_WORD.fullmatch(token) else "expected a token without spaces or line breaks"

    @field_validator("token")
    @classmethod
    def _require_token(cls, token: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if token is None and info.data.get("enabled"):
            raise ValueError(
                "expected a token, because enabled is true; "
                f"set {cls.token_variable or 'token'} or enabled: false"
            )
        return token

    @property
    def is_on(self) -> bool:
        return self.token is not None if self.enabled is None else self.enabled


class WebhookConfig(Section):
    """A server that Telegram calls, in place of polling."""

    url: Url | None = setting(
        default=None,
        reload="restart",
        description="The public https address that leads to `host` and `port`. Empty: Hermes polls for messages.",
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
    def _check_secret(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if secret is None and info.data.get("url"):
            raise ValueError(
                "expected a secret, because webhook.url is set; without one anybody could write to the bot"
            )
        if secret is not None and not _WEBHOOK_SECRET.fullmatch(secret.get_secret_value()):
            raise ValueError("expected 16 to 256 of the characters A-Z, a-z, 0-9, _ and -")
        return secret


class _NumericBotConfig(BotConfig):
    """A bot on a service that numbers its users."""

    allowed_users: tuple[NumericUserId, ...] = _allowed_users("numeric id")
    admins: tuple[NumericUserId, ...] = _admins("numeric id")


class TelegramBotConfig(_NumericBotConfig):
    """A Telegram bot."""

    allowed_groups: tuple[TelegramGroupId, ...] = _allowed_groups("Groups, by numeric id,")
    base_url: Url = setting(
        default="https://api.telegram.org",
        reload="restart",
        description="The Bot API server, such as one of your own.",
    )
    webhook: WebhookConfig = Field(default_factory=WebhookConfig)

    @classmethod
    def token_problem(cls, token: str) -> str:
        if _TELEGRAM_TOKEN.fullmatch(token):
            return ""
        return "expected a token as BotFather gives it, such as 123456789:AAF-x2b…"


class TelegramConfig(TelegramBotConfig):
    """Chat via Telegram."""

    token_variable: ClassVar[str] = "TELEGRAM_BOT_TOKEN"  # noqa: S105 - a variable's name

    bots: Mapping[Name, TelegramBotConfig] = _more_bots()


class DiscordBotConfig(_NumericBotConfig):
    """A Discord bot."""

    allowed_groups: tuple[DiscordServerId, ...] = _allowed_groups("Servers, by numeric id,")
    api_base: Url = setting(
        default="https://discord.com/api/v10", reload="restart", description="Discord's REST interface."
    )
    gateway_url: Socket = setting(
        default="wss://gateway.discord.gg/", reload="restart", description="Discord's gateway."
    )


class DiscordConfig(DiscordBotConfig):
    """Chat via Discord."""

    token_variable: ClassVar[str] = "DISCORD_BOT_TOKEN"  # noqa: S105 - a variable's name

    bots: Mapping[Name, DiscordBotConfig] = _more_bots()


class PlatformsConfig(Section):
    """Where people talk to Hermes."""

    web: WebConfig = Field(default_factory=WebConfig)
    telegram: TelegramConfig = Field(default_factory=TelegramConfig)
    discord: DiscordConfig = Field(default_factory=DiscordConfig)


Hour = Annotated[int, Field(ge=0, le=23), BeforeValidator(reject_booleans)]


class SessionsConfig(Section):
    """When a conversation starts a new session by itself. Nothing is deleted, and the chat is told."""

    reset: Literal["none", "idle", "daily"] = setting(
        default="none",
        reload="live",
        description="`none`, `idle` (after a pause) or `daily` (with the first message of the day).",
    )
    idle_minutes: Count = setting(
        default=1440, reload="live", description="The pause after which `idle` starts a new session."
    )
    daily_hour: Hour = setting(
        default=4,
        reload="live",
        description="The hour, in local time, at which a new day begins for `daily`.",
    )


Seconds = Annotated[float, Field(ge=0.0, le=10.0, allow_inf_nan=False), BeforeValidator(reject_booleans)]
DrainSeconds = Annotated[
    float, Field(ge=0.0, le=600.0, allow_inf_nan=False), BeforeValidator(reject_booleans)
]


class GatewayConfig(Section):
    """How messages are received."""

    busy: Literal["queue", "steer", "interrupt"] = setting(
        default="queue",
        reload="live",
        description="What happens to a message that arrives while an answer is being written: it waits (`queue`), "
        "goes to the model at its next step (`steer`), or cancels the answer and takes its place (`interrupt`).",
    )
    join_seconds: Seconds = setting(
        default=1.0,
        reload="live",
        description="Parts of a long paste or an album that arrive within this time of each other are one message.",
    )
    drain_seconds: DrainSeconds = setting(
        default=8.0,
        reload="live",
        description="How long running answers may continue when Hermes stops. The others resume at the next start.",
    )


def bot_configs(platforms: PlatformsConfig) -> Iterator[tuple[str, BotConfig]]:
    """Yield every bot by name (`telegram`, `telegram/work`, `discord`), also those that are off."""
    for name in type(platforms).model_fields:
        section = getattr(platforms, name)
        if isinstance(section, BotConfig):
            yield name, section
            for bot_name, bot in getattr(section, "bots", {}).items():
                yield f"{name}/{bot_name}", bot


def bot_config(platforms: PlatformsConfig, platform: str) -> BotConfig:
    """Return the settings of a bot, such as `telegram` or `telegram/work`. Raises KeyError."""
    return dict(bot_configs(platforms))[platform]


def is_platform_name(name: object) -> bool:
    """Tell whether a platform may have this name: it is a key of the file and the start of every address."""
    return (
        isinstance(name, str) and bool(_PLATFORM_NAME.fullmatch(name)) and not hasattr(PlatformsConfig, name)
    )


def section_key(platform: str) -> str:
    """Return the configuration key of a bot: `platforms.telegram.bots.work` for `telegram/work`."""
    service, _, name = platform.partition("/")
    return f"platforms.{service}.bots.{name}" if name else f"platforms.{service}"


def token_variables(platforms: type[PlatformsConfig] = PlatformsConfig) -> dict[str, str]:
    """Return the environment variable of each platform's token, by platform."""
    variables = {
        name: field.annotation.token_variable
        for name, field in platforms.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BotConfig)
    }
    return {name: variable for name, variable in variables.items() if variable}


def connect_host(host: str) -> str:
    """Return the address under which this machine reaches a server that listens on `host`."""
    return _WILDCARDS.get(host, host)


def local_url(host: str, port: int) -> str:
    """Return the URL under which this machine reaches a server that listens there."""
    host = connect_host(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach `host`. A name other than `localhost` could point anywhere."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
