"""Platform contract: `Platform` is a running platform, `PlatformSpec` all that Hermes knows about one."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agent.errors import HermesError
from agent.redaction import own_rules, redact
from gateway.config.fields import Section
from gateway.config.schema_platforms import BotConfig

if TYPE_CHECKING:
    from gateway.chat.adapter import ChatPort, InboundHandler
    from gateway.commands import Command
    from gateway.core.gateway import Gateway
    from gateway.media.attachments import AttachmentReader
    from gateway.observability.metrics import Metrics
    from gateway.reload import LiveConfig
    from gateway.store.access import Access


@dataclass(frozen=True, slots=True)
class Health:
    """State of a platform, with a hint for the operator if it is not up."""

    state: Literal["up", "starting", "down", "refused"]
    """`down` recovers by itself; `refused` needs a person, and is retried now and then."""
    detail: str = ""
    """Public text: secrets that a service quotes are redacted."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", redact(self.detail, own_rules()))


class Platform(Protocol):
    """A running platform: turns the events of its service into messages and shows the answers there."""

    @property
    def name(self) -> str:
        """`telegram`, or `telegram/work` for a bot with a name."""
        ...

    @property
    def where(self) -> str:
        """Tell people where to find it, in the start-up lines."""
        ...

    @property
    def health(self) -> Health: ...

    async def start(self) -> None:
        """Connect, or begin to. Raises a HermesError with advice if the platform can never start."""
        ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Services:
    """Parts of the application that platforms use."""

    live_config: LiveConfig
    gateway: Gateway
    access: Access
    media: AttachmentReader
    model: str
    """Which model answers, and why."""
    model_line: str
    """Line about the model for people; often empty."""
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class PlatformContext:
    """Argument of `PlatformSpec.build`: the configuration of one bot, and what connects it to the gateway."""

    name: str
    """`telegram`, or `telegram/work` for a bot with a name."""
    config: Any
    """The bot's section: an instance of `PlatformSpec.config`, or of the type of its `bots`."""
    commands: Sequence[Command]
    receiver: Callable[[ChatPort], InboundHandler]
    """Creates the handler of inbound events for the platform's `ChatPort`."""
    on_config_change: Callable[[Callable[[Any], None]], None]
    """Registers a function that gets the bot's section after each reload."""
    services: Services
    platforms: Sequence[Platform]
    """All platforms of this process, as far as they are built."""

    @property
    def bot_name(self) -> str:
        """The name under `bots`; empty for the main bot."""
        return self.name.partition("/")[2]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `hermes doctor`: what was checked, and what to do if it is wrong."""

    level: Literal["ok", "warn", "fail"]
    text: str


class BotTokenRefused(HermesError):
    """The token is not right:"""


class BotUnreachable(HermesError):
    """The token could not be tried:"""


@dataclass(frozen=True, slots=True)
class BotAccount:
    """Account that a token belongs to, as a probe found it."""

    name: str
    link: str
    """Address where a person begins: a chat with the bot, or the page that invites it to a server."""
    owner_id: str = ""
    """The user who owns the bot, where the service tells."""
    owner_name: str = ""
    problem: str = ""
    """Reason why the bot cannot work although the token is good; empty if it can."""
    clock_ahead: float = 0.0
    """Seconds by which this machine's clock is ahead of the service's."""


@dataclass(frozen=True, slots=True)
class SetupGuide:
    """Texts of `hermes setup` for one service."""

    steps: tuple[str, ...]
    """Instructions for creating a bot and getting its token."""
    own_id: str = "Leave it at `none` if you do not know it; /whoami shows it later."
    """Hint for finding one's own user id."""
    next_step: str = "Write to it at"
    """Text in front of the bot's link."""


@dataclass(frozen=True, slots=True)
class PlatformSpec:
    """Description of a platform, for configuration, setup, doctor and start. It imports no SDK before `build`."""

    name: str
    """The key under `platforms`, and the start of every address: `telegram`."""
    title: str
    config: type[Section]
    """The model of `platforms.<name>`. For a chat service it extends `BotConfig`, which also checks tokens and ids."""
    build: Callable[[PlatformContext], Platform]
    probe: Callable[[Any, str], Awaitable[BotAccount]] | None = None
    """Asks the service about a token, given the bot's section. Raises BotTokenRefused or BotUnreachable."""
    guide: SetupGuide | None = None
    check: Callable[[str, Any, Path], Iterator[Finding]] | None = None
    """Further findings for `hermes doctor`, given the platform's name, section and state directory."""
    command_hyphen: str = "-"
    """Character that `/help` shows for the hyphen in a command's name."""

    @property
    def is_bot(self) -> bool:
        return issubclass(self.config, BotConfig)

    @property
    def token_variable(self) -> str:
        """The environment variable that holds the token; empty if there is none."""
        return self.config.token_variable if issubclass(self.config, BotConfig) else ""

    def token_problem(self, token: str) -> str:
        """Say what is wrong with the form of a token; empty if nothing is."""
        return self.config.token_problem(token) if issubclass(self.config, BotConfig) else ""


def listen_error(host: str, port: int) -> OSError | None:
    """Return the error that keeps a server from listening there; None if the port is free."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()
    except OSError as error:
        return error
    return None
