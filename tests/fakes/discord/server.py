"""A Discord on the loopback interface: REST and gateway, as strict as the real one, with people to talk to the bot.

    async with FakeDiscord() as server:
        # hermes.yaml: platforms.discord with server.token, server.api_base and server.gateway_url
        ...                                              # start the bot
        await server.gateway.is_online()

        ada = server.person("Ada")                        # a member of server.guild
        await ada.says("Hello")                          # no channel given: her direct chat with the bot
        answer = await ada.dm().answer(lambda m: "Hello" in m.content)
        assert answer.most_edits_in_flight <= 1 and not server.pings()

        general = server.general                          # the guild's one channel, also server.channels["general"]
        await ada.says("what is this?", channel=general, mentions=server.bot, reply_to=None)
        thread = general.thread("release")               # or: await ada.opens_thread("release", on=message)

        used = await ada.uses("compress", focus="billing", channel=general)
        await used.acknowledged()                        # 3 s by server.clock
        reply = await used.reply(lambda m: "compressed" in m.content)
        pressed = await ada.presses(reply, "Once")       # a button, by its label

        fault = server.fail_next("edit_message", Fault.rate_limited(2.0), times=1, after=3)
        server.fail_next("send_message", Fault.lose_answer())          # done, but the bot does not hear of it
        hang = server.fail_next("send_message", Fault.hang()); await hang.arrived(); hang.release()
        server.limit("send_message", 5, per=5.0)          # a real bucket for each channel
        call = await server.called("send_message", 2)     # until the second such request has arrived

        server.gateway.ask_to_reconnect()                 # op 7; also invalidate(), close(code), abort(), acks = False
        await server.go_down(); await server.come_back()   # the whole network
        server.clock.advance(16 * 60)                     # interaction tokens are dead now

Files in messages: `Upload("a.txt", b"...")`, downloadable by the address the bot gets. While the bot is away people
can still write, and GET messages?after= finds it. Names for `fail_next`, `limit` and `called` are in `ROUTES`.
Not offered, though the real one does: voice, forums, autocomplete, modals, components version 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from aiohttp import web

from tests.fakes.discord.application import ApplicationRoutes
from tests.fakes.discord.channels import ChannelRoutes
from tests.fakes.discord.commands import Commands
from tests.fakes.discord.errors import Refused
from tests.fakes.discord.faults import Call, Fault, Limit
from tests.fakes.discord.gateway import Gateway
from tests.fakes.discord.interactions import Interaction, Interactions
from tests.fakes.discord.messages import Attachment, Flag, Message, Type, Upload
from tests.fakes.discord.people import NotPossible, Person, Webhook
from tests.fakes.discord.places import Channel, Guild, May, Role, User
from tests.fakes.discord.rest import API, Rest
from tests.fakes.discord.routes import ROUTES, acts
from tests.fakes.discord.service_state import Channels, DiscordState, Intent
from tests.fakes.discord.time import Clock

__all__ = [
    "ROUTES",
    "Attachment",
    "Call",
    "Channel",
    "Clock",
    "FakeDiscord",
    "Fault",
    "Flag",
    "Guild",
    "Intent",
    "Interaction",
    "May",
    "Message",
    "NotPossible",
    "Person",
    "Refused",
    "Role",
    "Type",
    "Upload",
    "User",
    "Webhook",
]


class FakeDiscord:
    def __init__(
        self,
        *,
        token: str = "test-bot-token",
        intents: Intent = Intent.MESSAGE_CONTENT,
        clock: Clock | None = None,
    ) -> None:
        """`intents`: the privileged ones switched on for the application."""
        self.token = token
        self.clock = clock or Clock()
        self.state = DiscordState(self.clock)
        self.gateway = Gateway(self.state, token=token, granted=intents)
        self.commands = Commands(self.state)
        self.interactions = Interactions(self.state)
        self.guild = self.state.add_guild("Workshop")
        self.general = self.guild.add_channel("general")
        self._rest = Rest(self.state, token=token)
        self._application = ApplicationRoutes(self.state, self.gateway)
        self._channel_routes = ChannelRoutes(self.state, granted=intents)

    @property
    def bot(self) -> User:
        return self.state.bot

    @property
    def channels(self) -> Channels:
        """By id or name; direct chats are named "@Ada"."""
        return self.state.channels

    @property
    def calls(self) -> list[Call]:
        """Every REST request, in order of arrival."""
        return self._rest.calls

    def calls_to(self, verb: str) -> list[Call]:
        return [call for call in self.calls if call.verb == verb]

    @property
    def refusals(self) -> list[Call]:
        """What was answered with 4xx. Discord bans those who collect 10,000 of 401, 403 and 429."""
        return [call for call in self.calls if 400 <= call.status < 500]

    def pings(self) -> Sequence[Message]:
        """The bot's messages that notified people; `Message.pinged` names them."""
        return self.state.pings()

    def person(self, name: str, *, guild: Guild | None = None, outsider: bool = False) -> Person:
        """A member of that guild (`server.guild` unless told), or of none that the bot is in."""
        return self._join(Person(self, self.state.new_id(), name), guild, outsider)

    def other_bot(self, name: str, *, guild: Guild | None = None) -> Person:
        return self._join(Person(self, self.state.new_id(), name, bot=True), guild, False)

    def _join(self, person: Person, guild: Guild | None, outsider: bool) -> Person:
        self.state.add_user(person)
        if not outsider:
            (guild or self.guild).add_member(person)
        return person

    def webhook(self, name: str, channel: Channel) -> Webhook:
        return Webhook(self, channel, name)

    def add_guild(self, name: str) -> Guild:
        return self.state.add_guild(name)

    def fail_next(
        self,
        verb: str,
        fault: Fault,
        *,
        times: int = 1,
        after: int = 0,
        where: Callable[[Call], bool] | None = None,
    ) -> Fault:
        """The next requests like that meet the fault, `after` so many were spared.

        `verb`: a name from ROUTES, "POST /channels/123/messages", or "*".
        """
        self._rest.faults.add(verb, fault, times, after, where)
        return fault

    def limit(self, verbs: str | Sequence[str], count: int, *, per: float) -> None:
        """These routes share a bucket for each channel. Without it buckets are wide: 1,000 a second."""
        self._rest.limits.set([verbs] if isinstance(verbs, str) else verbs, count, per)

    def limit_everything(self, count: int, *, per: float) -> None:
        """The global limit (really 50 a second)."""
        self._rest.limits.overall = Limit("global", count, per)

    async def called(
        self, verb: str, count: int = 1, *, where: Callable[[Call], bool] = lambda call: True
    ) -> Call:
        """Until that many such requests have arrived; gives the last of them."""

        def found() -> list[Call]:
            return [call for call in self.calls_to(verb) if where(call)]

        def describe() -> str:
            return f"there were: {[f'{call.verb} {call.status}' for call in self.calls]}"

        await self.state.until(lambda: len(found()) >= count, otherwise=describe)
        return found()[count - 1]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until something about this server has come true."""
        await self.state.until(condition)

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}{API}"

    @property
    def gateway_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        self._add_routes(app)
        # Without handler cancellation: a request that has arrived is carried out, even if its client dies.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        self.port: int = self._runner.addresses[0][1]
        self.state.files_url = f"http://127.0.0.1:{self.port}"
        self._application.gateway_url = self.gateway_url
        self.gateway.resume_url = f"{self.gateway_url}resume"
        return self

    async def go_down(self) -> None:
        """Stop listening and cut every connection."""
        await self._site.stop()
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    async def come_back(self) -> None:
        """At the same address, with everything as it was; people may have written meanwhile."""
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()

    async def __aexit__(self, *_: object) -> None:
        self._rest.faults.release_all()
        self.gateway.abort()
        await self._runner.cleanup()

    def _add_routes(self, app: web.Application) -> None:
        app.router.add_get("/", self.gateway.serve)
        app.router.add_get("/resume", self.gateway.serve)
        known = acts(self._application, self._channel_routes, self.commands, self.interactions)
        for verb, method, path in ROUTES:
            # What carries its own token in the path needs no other.
            is_open = "{token}" in path or verb == "get_gateway"
            self._rest.add(app, verb, method, API + path, known[verb], auth=not is_open)
        files = "/attachments/{channel_id}/{file_id}/{name}"
        self._rest.add(app, "get_file", "GET", files, self._channel_routes.get_file, auth=False)
        app.router.add_route("*", "/{anything:.*}", self._rest.unknown_route)
