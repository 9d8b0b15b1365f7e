"""Three chat services, each asked to fail in the same words: Telegram and Discord over real sockets and through their
real ports and libraries, and one in memory that cannot edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, Protocol

from pydantic import SecretStr

from gateway.chat.contract import ChatPort, Place
from gateway.chat.errors import ContentRefused, DeliveryError, SlowDown, Undeliverable, Unreachable
from gateway.config.platforms import DiscordBotConfig
from gateway.platforms.discord import DiscordPlatform
from gateway.platforms.discord.port import DiscordPort
from gateway.platforms.telegram.api import BotApi
from gateway.platforms.telegram.port import TelegramPort
from tests.chat.service import ChatService, Made, Shown, Verb
from tests.discord.bot import Desk
from tests.worlds import discord as discord_world
from tests.worlds import telegram as telegram_world
from tests.worlds.discord import DiscordWorld
from tests.worlds.telegram import TelegramWorld
from tests.worlds.telegram_faults import ALWAYS

Trouble = Literal["429", "reset", "timeout", "lost", "lost for good", "500", "503", "400", "403"]

PAUSE = 0.25
"""What a 429 asks for."""
PATIENCE = 1.0
"""What a call that gets no answer is given. A loopback call takes a hundredth of that."""
PACE = 0.01

Wanted = Callable[[str], bool]
"""Of the calls of one verb, by their text."""


class Chat(Protocol):
    """One chat with nobody in it but the bot and a person who reads."""

    port: ChatPort
    place: Place

    def meet(self, trouble: Trouble, verb: Verb, wanted: Wanted, *, skip: int) -> None:
        """The next such call meets the trouble; of a 403, each from then on."""
        ...

    @property
    def has_met(self) -> bool: ...

    @property
    def calls(self) -> list[float]:
        """When the service was asked to send or edit something here; the first is the first."""
        ...

    @property
    def met_at(self) -> float:
        """When the trouble was met first."""
        ...

    def seen(self) -> list[Shown]:
        """What the person sees now."""
        ...

    def until(self, condition: Callable[[], bool]) -> Awaitable[object]: ...


class Service(Protocol):
    def chat(self, trouble: Trouble) -> Chat:
        """A new one."""
        ...


# -- Telegram ------------------------------------------------------------------------------------------------


class _BriskTelegramPort(TelegramPort):
    def edit_seconds(self, place: Place) -> float:
        return PACE


class TelegramService:
    def __init__(self, world: TelegramWorld, patient: BotApi, impatient: BotApi) -> None:
        self._world = world
        self._ports = {
            is_impatient: _BriskTelegramPort("telegram", api.bot)
            for is_impatient, api in ((False, patient), (True, impatient))
        }

    def chat(self, trouble: Trouble) -> Chat:
        return _TelegramChat(self._world, self._ports[trouble == "timeout"])


class _TelegramChat:
    _METHODS = {"send": "sendMessage", "edit": "editMessageText"}  # noqa: RUF012 - never changed

    def __init__(self, world: TelegramWorld, port: TelegramPort) -> None:
        self.port: ChatPort = port
        self._world = world
        self._chat = world.person().chat
        self.place = Place(str(self._chat.id))

    def meet(self, trouble: Trouble, verb: Verb, wanted: Wanted, *, skip: int) -> None:
        self._planned = self._world.fail_next(
            self._METHODS[verb],
            _on_telegram(trouble),
            times=ALWAYS if trouble == "403" else 1,
            after=skip,
            when=lambda call: self._is_here(call) and wanted(call.text),
        )

    @property
    def has_met(self) -> bool:
        return bool(self._planned.calls)

    @property
    def calls(self) -> list[float]:
        methods = self._METHODS.values()
        return [call.at for call in self._world.calls if call.method in methods and self._is_here(call)]

    @property
    def met_at(self) -> float:
        return self._planned.calls[0].at

    def seen(self) -> list[Shown]:
        return [
            Shown(str(message.id), self.place, message.text, bool(message.entities))
            for message in self._chat.messages
        ]

    def until(self, condition: Callable[[], bool]) -> Awaitable[object]:
        return self._world.wait_for(condition)

    def _is_here(self, call: telegram_world.Call) -> bool:
        return str(call.chat_id) == self.place.chat_id


def _on_telegram(trouble: Trouble) -> telegram_world.Fault:
    match trouble:
        case "429":
            words = f"Too Many Requests: retry after {PAUSE}"
            return telegram_world.Fault.error(429, words, retry_after=PAUSE)
        case "reset":
            return telegram_world.Fault.drop()
        case "timeout":
            return telegram_world.Fault.hang()
        case "lost":
            return telegram_world.Fault.lost()
        case "500":
            return telegram_world.Fault.error(500, "Internal Server Error")
        case "400":
            return telegram_world.Fault.error(400, "Bad Request: can't parse entities: unexpected end")
        case "403":
            return telegram_world.Fault.error(403, "Forbidden: bot was blocked by the user")
    raise AssertionError(trouble)


@asynccontextmanager
async def telegram() -> AsyncIterator[TelegramService]:
    async with TelegramWorld() as world:
        patient, impatient = BotApi(world.token, world.url), BotApi(world.token, world.url, read_seconds=PATIENCE)
        yield TelegramService(world, patient, impatient)
        for api in (patient, impatient):
            await api.close()


# -- Discord -------------------------------------------------------------------------------------------------


class _BriskDiscordPort(DiscordPort):
    def edit_seconds(self, place: Place) -> float:
        return PACE


class DiscordService:
    def __init__(self, world: DiscordWorld, port: DiscordPort) -> None:
        self._world = world
        self._port = port

    def chat(self, trouble: Trouble) -> Chat:
        return _DiscordChat(self._world, self._port)


class _DiscordChat:
    _VERBS = {"send": "send_message", "edit": "edit_message"}  # noqa: RUF012 - never changed

    def __init__(self, world: DiscordWorld, port: DiscordPort) -> None:
        self.port: ChatPort = port
        self._world = world
        self._chat = world.person("Ada").dm()
        self.place = Place(str(self._chat.id))
        self._met: list[discord_world.Call] = []

    def meet(self, trouble: Trouble, verb: Verb, wanted: Wanted, *, skip: int) -> None:
        left_out = [skip]

        def where(call: discord_world.Call) -> bool:
            if not self._is_here(call) or not wanted(str(call.json.get("content"))):
                return False
            left_out[0] -= 1
            if left_out[0] >= 0:
                return False
            self._met.append(call)
            return True

        times = {"403": ALWAYS, "lost for good": 3}.get(trouble, 1)
        self._world.fail_next(self._VERBS[verb], _on_discord(trouble), times=times, where=where)

    @property
    def has_met(self) -> bool:
        return bool(self._met)

    @property
    def calls(self) -> list[float]:
        verbs = self._VERBS.values()
        return [call.at for call in self._world.calls if call.verb in verbs and self._is_here(call)]

    @property
    def met_at(self) -> float:
        return self._met[0].at

    def seen(self) -> list[Shown]:
        return [
            Shown(str(message.id), self.place, message.content, False) for message in self._chat.answers
        ]

    def until(self, condition: Callable[[], bool]) -> Awaitable[object]:
        return self._world.until(condition)

    def _is_here(self, call: discord_world.Call) -> bool:
        return call.ids.get("channel_id") == self.place.chat_id


def _on_discord(trouble: Trouble) -> discord_world.Fault:
    match trouble:
        case "429":
            return discord_world.Fault.rate_limited(PAUSE)
        case "reset":
            return discord_world.Fault.drop()
        case "timeout":
            return discord_world.Fault.hang()
        case "lost" | "lost for good":
            return discord_world.Fault.lose_answer()
        case "500":
            return discord_world.Fault.error(500)
        case "503":
            return discord_world.Fault.error(503)
        case "400":
            return discord_world.Fault.error(400, 50035)
        case "403":
            return discord_world.Fault.error(403, 50007)
    raise AssertionError(trouble)


@asynccontextmanager
async def discord() -> AsyncIterator[DiscordService]:
    async with DiscordWorld() as world:
        settings = DiscordBotConfig(
            token=SecretStr(world.token), api_base=world.api_base, gateway_url=world.gateway_url
        )
        platform = DiscordPlatform(settings, lambda port: Desk(), (), answer_seconds=PATIENCE)
        await platform.start()
        assert platform.health.state == "up", platform.health
        port = _BriskDiscordPort("discord")
        port.client = platform.port.client
        yield DiscordService(world, port)
        await platform.stop()


# -- a service without edits ---------------------------------------------------------------------------------


class PlainService:
    def chat(self, trouble: Trouble) -> Chat:
        return _PlainChat()


class _PlainChat:
    def __init__(self) -> None:
        self._service = ChatService(can_edit=False, pace=PACE)
        self.port: ChatPort = self._service
        self.place = Place("ada")
        self._met: list[Made] = []

    def meet(self, trouble: Trouble, verb: Verb, wanted: Wanted, *, skip: int) -> None:
        error, carried_out = _in_memory(trouble)

        def when(made: Made) -> bool:
            return wanted(made.text)

        self._fault = self._service.fail(
            verb, error, skip=skip, carried_out=carried_out, when=when, for_ever=trouble == "403"
        )

    @property
    def has_met(self) -> bool:
        return self._fault.reached.is_set()

    @property
    def calls(self) -> list[float]:
        return [made.at for made in self._service.made("send", "edit")]

    @property
    def met_at(self) -> float:
        return self._service.made("send")[self._skipped].at

    def seen(self) -> list[Shown]:
        return self._service.messages

    def until(self, condition: Callable[[], bool]) -> Awaitable[object]:
        return self._service.until(condition)


def _in_memory(trouble: Trouble) -> tuple[DeliveryError, bool]:
    """As an adapter would tell it; and whether the call is carried out all the same."""
    match trouble:
        case "429":
            return SlowDown(PAUSE), False
        case "reset" | "timeout" | "500":
            return Unreachable(maybe_done=True), False
        case "lost":
            return Unreachable(maybe_done=True), True
        case "400":
            return ContentRefused(), False
        case "403":
            return Undeliverable(), False
    raise AssertionError(trouble)
