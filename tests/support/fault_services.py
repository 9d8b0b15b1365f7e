"""Three chat services that fail in the same ways: Telegram and Discord over real sockets, through their real ports and
libraries, and one in memory that cannot edit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, Protocol

from pydantic import SecretStr

from gateway.chat.adapter import ChatPort
from gateway.chat.errors import ContentRefused, DeliveryError, SlowDown, Undeliverable, Unreachable
from gateway.config.schema_platforms import DiscordBotConfig
from gateway.platforms.discord.platform import DiscordPlatform
from gateway.platforms.discord.port import DiscordPort
from gateway.platforms.telegram.api import BotApi
from gateway.platforms.telegram.port import TelegramPort
from gateway.types import Place
from tests.fakes.discord import server as discord_server
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.telegram import server as telegram_server
from tests.fakes.telegram.faults import ALWAYS
from tests.fakes.telegram.server import FakeTelegram
from tests.support.chat_service import ChatService, RecordedCall, VisibleMessage
from tests.support.discord_harness import RecordingReceiver

Trouble = Literal["429", "reset", "timeout", "lost", "lost for good", "500", "503", "400", "403"]

PAUSE = 0.25
"""Seconds that a 429 response asks for."""
PATIENCE = 1.0
"""What a call that gets no answer is given. A loopback call takes a hundredth of that."""
PACE = 0.01


class Chat(Protocol):
    """A chat between the bot and one reader."""

    port: ChatPort
    place: Place

    def meet(
        self, trouble: Trouble, verb: Literal["send", "edit"], wanted: Callable[[str], bool], skip: int
    ) -> None:
        """The next such call with a text like that meets the trouble. A 403 stays."""
        ...

    @property
    def has_met(self) -> bool: ...

    @property
    def calls(self) -> list[RecordedCall]:
        """Return the calls that sent or edited a message in this chat."""
        ...

    @property
    def seen(self) -> list[VisibleMessage]:
        """Return the texts that are visible now."""
        ...

    def until(self, condition: Callable[[], bool]) -> Awaitable[object]: ...


class Service(Protocol):
    def chat(self, trouble: Trouble) -> Chat:
        """A new one, for that."""
        ...


# -- Telegram ------------------------------------------------------------------------------------------------


class _BriskTelegramPort(TelegramPort):
    def edit_seconds(self, place: Place) -> float:
        return PACE


class TelegramService:
    def __init__(self, server: FakeTelegram, patient: BotApi, impatient: BotApi) -> None:
        self._server = server
        self._patient, self._impatient = patient, impatient

    def chat(self, trouble: Trouble) -> Chat:
        api = self._impatient if trouble == "timeout" else self._patient
        return _TelegramChat(self._server, _BriskTelegramPort("telegram", api.bot))


class _TelegramChat:
    def __init__(self, server: FakeTelegram, port: TelegramPort) -> None:
        self.port: ChatPort = port
        self._server = server
        self._chat = server.person().chat
        self.place = Place(str(self._chat.id))

    def meet(
        self, trouble: Trouble, verb: Literal["send", "edit"], wanted: Callable[[str], bool], skip: int
    ) -> None:
        method = {"send": "sendMessage", "edit": "editMessageText"}[verb]
        times = ALWAYS if trouble == "403" else 1

        def when(call: telegram_server.Call) -> bool:
            return self._is_here(call) and wanted(call.text)

        self._met = self._server.fail_next(method, _on_telegram(trouble), times=times, after=skip, when=when)

    @property
    def has_met(self) -> bool:
        return bool(self._met.calls)

    @property
    def calls(self) -> list[RecordedCall]:
        return [
            RecordedCall(
                "send" if call.method == "sendMessage" else "edit", call.at, self.place.chat_id, "", call.text
            )
            for call in self._server.calls
            if call.method in ("sendMessage", "editMessageText") and self._is_here(call)
        ]

    @property
    def seen(self) -> list[VisibleMessage]:
        return [
            VisibleMessage(str(message.id), self.place, message.text, bool(message.entities))
            for message in self._chat.messages
        ]

    def until(self, condition: Callable[[], bool]) -> Awaitable[object]:
        return self._server.wait_for(condition)

    def _is_here(self, call: telegram_server.Call) -> bool:
        return str(call.chat_id) == self.place.chat_id


def _on_telegram(trouble: Trouble) -> telegram_server.Fault:
    fault = telegram_server.Fault
    return {
        "429": fault.error(429, f"Too Many Requests: retry after {PAUSE}", retry_after=PAUSE),
        "reset": fault.drop(),
        "timeout": fault.hang(),
        "lost": fault.lost(),
        "500": fault.error(500, "Internal Server Error"),
        "400": fault.error(400, "Bad Request: can't parse entities: unexpected end of the text"),
        "403": fault.error(403, "Forbidden: bot was blocked by the user"),
    }[trouble]


@asynccontextmanager
async def telegram() -> AsyncIterator[Service]:
    async with FakeTelegram() as server:
        patient = BotApi(server.token, server.url)
        impatient = BotApi(server.token, server.url, read_seconds=PATIENCE)
        yield TelegramService(server, patient, impatient)
        await patient.close()
        await impatient.close()


# -- Discord -------------------------------------------------------------------------------------------------


class _BriskDiscordPort(DiscordPort):
    def edit_seconds(self, place: Place) -> float:
        return PACE


class DiscordService:
    def __init__(self, server: FakeDiscord, port: DiscordPort) -> None:
        self._server = server
        self._port = port

    def chat(self, trouble: Trouble) -> Chat:
        return _DiscordChat(self._server, self._port)


class _DiscordChat:
    def __init__(self, server: FakeDiscord, port: DiscordPort) -> None:
        self.port: ChatPort = port
        self._server = server
        self._chat = server.person("Ada").dm()
        self.place = Place(str(self._chat.id))

    def meet(
        self, trouble: Trouble, verb: Literal["send", "edit"], wanted: Callable[[str], bool], skip: int
    ) -> None:
        times = {"403": ALWAYS, "lost for good": 3}.get(trouble, 1)

        def where(call: discord_server.Call) -> bool:
            return self._is_here(call) and wanted(call.json["content"])

        self._fault = self._server.fail_next(
            f"{verb}_message", _on_discord(trouble), times=times, after=skip, where=where
        )

    @property
    def has_met(self) -> bool:
        return self._fault.reached > 0

    @property
    def calls(self) -> list[RecordedCall]:
        return [
            RecordedCall(
                "send" if call.method == "POST" else "edit",
                call.at,
                self.place.chat_id,
                "",
                call.json["content"],
            )
            for call in self._server.calls
            if call.verb in ("send_message", "edit_message") and self._is_here(call)
        ]

    @property
    def seen(self) -> list[VisibleMessage]:
        return [
            VisibleMessage(str(message.id), self.place, message.content, False)
            for message in self._chat.answers
        ]

    def until(self, condition: Callable[[], bool]) -> Awaitable[object]:
        return self._server.until(condition)

    def _is_here(self, call: discord_server.Call) -> bool:
        return call.ids.get("channel_id") == self.place.chat_id


def _on_discord(trouble: Trouble) -> discord_server.Fault:
    fault = discord_server.Fault
    return {
        "429": fault.rate_limited(PAUSE),
        "reset": fault.drop(),
        "timeout": fault.hang(),
        "lost": fault.lose_answer(),
        "lost for good": fault.lose_answer(),
        "500": fault.error(500),
        "503": fault.error(503),
        "400": fault.error(400, 50035),
        "403": fault.error(403, 50007),
    }[trouble]


@asynccontextmanager
async def discord() -> AsyncIterator[Service]:
    async with FakeDiscord() as server:
        settings = DiscordBotConfig(
            token=SecretStr(server.token), api_base=server.api_base, gateway_url=server.gateway_url
        )
        platform = DiscordPlatform(settings, lambda port: RecordingReceiver(), (), response_seconds=PATIENCE)
        await platform.start()
        assert platform.health.state == "up", platform.health
        port = _BriskDiscordPort("discord")
        port.client = platform.port.client
        yield DiscordService(server, port)
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

    def meet(
        self, trouble: Trouble, verb: Literal["send", "edit"], wanted: Callable[[str], bool], skip: int
    ) -> None:
        self._fault = self._service.fail(
            verb,
            _in_memory(trouble),
            skip=skip,
            executed=trouble == "lost",
            when=lambda call: wanted(call.text),
            permanent=trouble == "403",
        )

    @property
    def has_met(self) -> bool:
        return self._fault.reached.is_set()

    @property
    def calls(self) -> list[RecordedCall]:
        return self._service.calls_of("send", "edit")

    @property
    def seen(self) -> list[VisibleMessage]:
        return self._service.messages

    def until(self, condition: Callable[[], bool]) -> Awaitable[object]:
        return self._service.until(condition)


def _in_memory(trouble: Trouble) -> DeliveryError:
    """Convert the fault to the error of an adapter."""
    in_doubt = Unreachable(maybe_done=True)
    return {
        "429": SlowDown(PAUSE),
        "reset": in_doubt,
        "timeout": in_doubt,
        "lost": in_doubt,
        "500": in_doubt,
        "400": ContentRefused(),
        "403": Undeliverable(),
    }[trouble]
