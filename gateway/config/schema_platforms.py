"""Configuration of the section `platforms`, and of `gateway` and `sessions`: how messages are received."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from gateway.config.fields import Name, Port, Section, Url, Whole, setting

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


def _number(text: str) -> str:
    """Refuse names: a name can change hands, the number of an account never does."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("expected a numeric id, because a name can change hands; /whoami tells it")
    return str(int(text))


def _checked(holds: Callable[[str], bool], expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not holds(text):
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


def _positive(reason: str) -> AfterValidator:
    return _checked(lambda text: int(text) > 0, f"a positive number, because {reason}")


Id = Annotated[str, BeforeValidator(_id_text), _checked(is_id, "an id without spaces; /whoami tells it")]
"""The id of a user or a group, as the service writes it: `4711`, `-1001234`, `U02AB3`."""
NumericId = Annotated[str, BeforeValidator(_id_text), AfterValidator(_number)]
NumericUserId = Annotated[NumericId, _positive("people have no others; groups go to allowed_groups")]
TelegramGroupId = Annotated[
    NumericId,
    _checked(lambda text: int(text) < 0, "a number that begins with a minus; /whoami or the log tells it"),
]
DiscordServerId = Annotated[NumericId, _positive("servers have no others; the log tells it")]
Socket = Annotated[str, _checked(lambda url: url.startswith(("ws://", "wss://")), "a ws or wss URL")]

_MIN_OPEN_TOKEN = 16
"""Shortest token of a page that other machines can reach, because they can guess without limit."""


class WebConfig(Section):
    """The chat page."""

    enabled: bool = setting(True, "Whether the chat page is served.")
    host: Name = setting(
        "127.0.0.1",
        "The address to listen on. Any but a loopback address needs a token of at least 16 characters.",
    )
    port: Port = setting(8686, "The port to listen on. 0 takes any free one.")
    token: SecretStr | None = setting(
        None, "The password of the chat page and the dashboard. Empty: no password.", validate_default=True
    )
    read_token: SecretStr | None = setting(
        None, "A second password that opens the dashboard for reading only. It needs `token`."
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
        (), f"Users who may talk to the bot in a direct chat, by {kind}. Others may not.", reload="live"
    )


def _admins(kind: str) -> Any:
    return setting(
        (),
        f"Users who may approve newcomers and change the model, by {kind}. They are allowed users too.",
        reload="live",
    )


def _allowed_groups(what: str) -> Any:
    return setting((), f"{what} in which the bot answers.", reload="live")


def _more_bots() -> Any:
    return setting({}, "More bots, by a name of your choice, each with the keys above.")


class BotConfig(Section):
    """A bot on a chat service. Subclasses add the keys of their service and may narrow the ids."""

    token_variable: ClassVar[str] = ""
    """Environment variable that holds the token if the file has none. Every platform sets it; a named bot has none."""

    enabled: bool | None = setting(None, "Whether the bot is started. Empty: yes if it has a token.")
    token: SecretStr | None = setting(None, "The bot's token.", validate_default=True)
    allowed_users: tuple[Id, ...] = _allowed_users("id")
    allowed_groups: tuple[Id, ...] = _allowed_groups("Groups, by id,")
    group_members: Literal["everyone", "allowed_users"] = setting(
        "everyone", "Who may talk to the bot in an allowed group.", reload="live"
    )
    admins: tuple[Id, ...] = _admins("id")
    pairing: bool = setting(
        True,
        "Whether a stranger in a direct chat gets a code that the owner can approve with "
        "`hermes pairing approve`. Otherwise the bot does not answer strangers.",
        reload="live",
    )
    groups: Literal["shared", "per_person"] = setting(
        "shared", "Whether a group is one conversation, or each of its members has one."
    )
    group_context: Whole = setting(
        20,
        "How many earlier group messages, not addressed to the bot, the model sees when it is addressed.",
        within=(0, 200),
        reload="live",
    )
    streaming: bool = setting(
        True, "Whether an answer grows as it is written, or appears when it is complete.", reload="live"
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
        None, "The public https address that leads to `host` and `port`. Empty: Hermes polls for messages."
    )
    secret: SecretStr | None = setting(
        None, "Proves that a call comes from Telegram. Needed with `url`.", validate_default=True
    )
    host: Name = setting("127.0.0.1", "The address to listen on.")
    port: Port = setting(8687, "The port to listen on.")

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
    base_url: Url = setting("https://api.telegram.org", "The Bot API server, such as one of your own.")
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
    api_base: Url = setting("https://discord.com/api/v10", "Discord's REST interface.")
    gateway_url: Socket = setting("wss://gateway.discord.gg/", "Discord's gateway.")


class DiscordConfig(DiscordBotConfig):
    """Chat via Discord."""

    token_variable: ClassVar[str] = "DISCORD_BOT_TOKEN"  # noqa: S105 - a variable's name

    bots: Mapping[Name, DiscordBotConfig] = _more_bots()


class PlatformsConfig(Section):
    """Where people talk to Hermes."""

    web: WebConfig = Field(default_factory=WebConfig)
    telegram: TelegramConfig = Field(default_factory=TelegramConfig)
    discord: DiscordConfig = Field(default_factory=DiscordConfig)


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


def token_variables(more: Mapping[str, type[Section]] = {}) -> dict[str, str]:
    """Return the environment variable of each platform's token, by platform. `more` are the sections of plugins."""
    sections = {name: field.annotation for name, field in PlatformsConfig.model_fields.items()} | dict(more)
    variables = {name: getattr(section, "token_variable", "") for name, section in sections.items()}
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
