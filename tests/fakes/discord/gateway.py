"""The gateway: HELLO, IDENTIFY, READY, sequence numbers, heartbeats, RESUME with replay, and its accidents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.discord.errors import Json
from tests.fakes.discord.places import Guild
from tests.fakes.discord.service_state import DiscordState, Intent
from tests.fakes.discord.session import Close, Connection, Session

PRIVILEGED = Intent.GUILD_MEMBERS | Intent.GUILD_PRESENCES | Intent.MESSAGE_CONTENT
KNOWN_INTENTS = (1 << 26) - 1


class Gateway:
    def __init__(self, state: DiscordState, *, token: str, granted: Intent) -> None:
        """`granted`: the privileged intents switched on for the application."""
        self.state = state
        self.token = token
        self.granted = granted
        self.heartbeat_interval = 41.25
        self.identify_interval = 0.0
        """Seconds between two IDENTIFYs (really 5); a hasty one gets INVALID SESSION."""
        self.acks = True
        """Whether heartbeats are acknowledged."""
        self.identifies: list[float] = []
        self.resumes = 0
        self.heartbeats = 0
        self.client_closes: list[int] = []
        """Close codes the client hung up with."""
        self.resume_url = ""
        self.sessions: list[Session] = []
        self.connections: list[Connection] = []
        self._unreachable = False
        self._held_back: set[int] = set()
        state.tell = self.tell

    def tell(self, event: str, intent: Intent | None, payload: Callable[[bool], Json]) -> None:
        for session in self.sessions:
            if session.wants(intent):
                session.dispatch(event, payload(Intent.MESSAGE_CONTENT in session.intents))

    @property
    def online(self) -> bool:
        return any(session.connection is not None for session in self.sessions)

    async def flush(self) -> None:
        """Until what was told has left."""
        for connection in list(self.connections):
            await connection.flush()

    async def is_online(self) -> None:
        """Until a client has a session with a live connection."""
        await self._until(lambda: self.online)

    async def is_offline(self) -> None:
        await self._until(lambda: not self.online)

    async def identified(self, count: int) -> None:
        await self._until(lambda: len(self.identifies) >= count and self.online)

    async def resumed(self, count: int = 1) -> None:
        await self._until(lambda: self.resumes >= count)

    async def heartbeat(self, count: int) -> None:
        await self._until(lambda: self.heartbeats >= count)

    def ask_to_reconnect(self) -> None:
        """Opcode 7."""
        self._send_all({"op": 7, "d": None})

    def invalidate(self, *, resumable: bool) -> None:
        """Opcode 9. Not resumable: the session and what it had to replay are gone."""
        self._send_all({"op": 9, "d": resumable})
        if not resumable:
            self.forget_sessions()

    def forget_sessions(self) -> None:
        """A later RESUME is answered with opcode 9 false."""
        self.sessions.clear()

    async def close(self, code: int, reason: str = "") -> None:
        for connection in list(self.connections):
            await connection.hang_up(code, reason)

    def abort(self) -> None:
        """The connections vanish without a word."""
        for connection in list(self.connections):
            connection.abort()

    def refuse_connections(self, refuse: bool = True) -> None:
        """The gateway answers 503 to new connections."""
        self._unreachable = refuse

    def hold_back(self, guild: Guild) -> None:
        """New sessions get to see it only once it arrives, as in an outage."""
        self._held_back.add(guild.id)

    def arrive(self, guild: Guild) -> None:
        self._held_back.discard(guild.id)
        self.tell("GUILD_CREATE", Intent.GUILDS, lambda _: self.state.guild_json(guild))

    def ask_for_heartbeat(self) -> None:
        self._send_all({"op": 1, "d": None})

    def _send_all(self, frame: Json) -> None:
        for connection in self.connections:
            connection.send(frame)

    async def _until(self, condition: Callable[[], bool]) -> None:
        def describe() -> str:
            return (
                f"{len(self.identifies)} identified, {self.resumes} resumed, online: {self.online}, "
                f"{self.heartbeats} heartbeats, closed by the client with {self.client_closes}"
            )

        await self.state.until(condition, otherwise=describe)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        if self._unreachable:
            return web.Response(status=503)
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        connection = Connection(socket, request)
        self.connections.append(connection)
        try:
            if request.query.get("v") != "10" or request.query.get("encoding") != "json":
                raise Close(4012)
            connection.send({"op": 10, "d": {"heartbeat_interval": int(self.heartbeat_interval * 1000)}})
            await self._listen(connection)
        except Close as close:
            await connection.flush()
            await connection.hang_up(close.code, str(close))
        finally:
            await self._ended(connection)
        return socket

    async def _ended(self, connection: Connection) -> None:
        self.connections.remove(connection)
        session = connection.session
        if session is not None and session.connection is connection:
            session.connection = None
            # A client that hangs up with 1000 or 1001 says goodbye: there is nothing to resume.
            said_goodbye = not connection.hung_up and connection.socket.close_code in (1000, 1001)
            if said_goodbye and session in self.sessions:
                self.sessions.remove(session)
        self.state.watch.changed()
        await connection.end()

    async def _listen(self, connection: Connection) -> None:
        """Silence for two heartbeats ends the connection."""
        patience, loop = self.heartbeat_interval * 2, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience) as deadline:
                async for received in connection.socket:
                    if received.type is not WSMsgType.TEXT:
                        raise Close(4002)
                    connection.note_received()
                    op = self._handle(connection, received.data)
                    if op == 1:
                        deadline.reschedule(loop.time() + patience)
        except TimeoutError:
            raise Close(4009) from None
        self.client_closes.append(connection.socket.close_code or 1006)

    def _handle(self, connection: Connection, text: str) -> int:
        try:
            frame = json.loads(text)
            op, data = frame["op"], frame.get("d")
        except (ValueError, KeyError, TypeError):
            raise Close(4002) from None
        handlers: dict[Any, Callable[[Connection, Any], None]] = {
            1: self._heartbeat,
            2: self._identify,
            3: self._presence,
            6: self._resume,
            8: self._request_members,
        }
        if op not in handlers:
            raise Close(4001)
        if op not in (1, 2, 6) and connection.session is None:
            raise Close(4003)
        handlers[op](connection, data)
        self.state.watch.changed()
        return int(op)

    def _heartbeat(self, connection: Connection, sequence: Any) -> None:
        sent = len(connection.session.sent) if connection.session else None
        if not (sequence is None or (isinstance(sequence, int) and (sent is None or sequence <= sent))):
            raise Close(4007)
        self.heartbeats += 1
        if self.acks:
            connection.send({"op": 11})

    def _identify(self, connection: Connection, data: Json) -> None:
        if connection.session is not None:
            raise Close(4005)
        self._check_token(data)
        intents = data.get("intents")
        if not isinstance(intents, int) or intents & ~KNOWN_INTENTS:
            raise Close(4013)
        if intents & PRIVILEGED & ~self.granted:
            raise Close(4014)
        now = self.state.clock.now()
        hasty = bool(self.identifies) and now - self.identifies[-1] < self.identify_interval
        self.identifies.append(now)
        if hasty:
            connection.send({"op": 9, "d": False})
            return
        session = Session(Intent(intents), connection=connection)
        self.sessions.append(session)
        connection.session = session
        self._greet(session)

    def _check_token(self, data: Json) -> None:
        if str(data.get("token")).removeprefix("Bot ") != self.token:
            raise Close(4004)

    def _greet(self, session: Session) -> None:
        guilds = list(self.state.guilds.values()) if Intent.GUILDS in session.intents else []
        bot = self.state.bot
        ready: Json = {
            "v": 10,
            "user": {**bot.json(), "mfa_enabled": False, "verified": True, "email": None, "flags": 0},
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": self.resume_url,
            "private_channels": [],
            "application": {"id": str(bot.id), "flags": self.application_flags},
        }
        session.dispatch("READY", ready)
        for guild in guilds:
            if guild.id not in self._held_back:
                session.dispatch("GUILD_CREATE", self.state.guild_json(guild))

    @property
    def application_flags(self) -> int:
        """The "limited" bits: what a bot in fewer than 100 guilds has switched on."""
        bits = {
            Intent.GUILD_PRESENCES: 1 << 13,
            Intent.GUILD_MEMBERS: 1 << 15,
            Intent.MESSAGE_CONTENT: 1 << 19,
        }
        return sum(bit for intent, bit in bits.items() if intent in self.granted)

    def _presence(self, connection: Connection, data: Json) -> None:
        """Accept and ignore the bot's presence."""

    def _resume(self, connection: Connection, data: Json) -> None:
        if connection.session is not None:
            raise Close(4005)
        self._check_token(data)
        session = next((s for s in self.sessions if s.id == data.get("session_id")), None)
        if session is None:
            connection.send({"op": 9, "d": False})
            return
        sequence = data.get("seq")
        if not isinstance(sequence, int) or sequence > len(session.sent):
            raise Close(4007)
        connection.session, session.connection = session, connection
        for frame in session.sent[sequence:]:
            connection.send(frame)
        self.resumes += 1
        session.dispatch("RESUMED", {})

    def _request_members(self, connection: Connection, data: Json) -> None:
        assert connection.session is not None
        guild = self.state.guilds[int(data["guild_id"])]
        wanted = {int(user) for user in _as_list(data.get("user_ids"))}
        if data.get("query") == "" and not data.get("limit") and Intent.GUILD_MEMBERS not in self.granted:
            raise Close(4014)
        members = [
            member.json()
            for member in guild.members.values()
            if (member.user.id in wanted if wanted else member.user.name.startswith(data.get("query") or ""))
        ]
        chunk = {"guild_id": str(guild.id), "members": members, "chunk_index": 0, "chunk_count": 1}
        found = {member["user"]["id"] for member in members}
        chunk["not_found"] = [str(user) for user in wanted if str(user) not in found]
        connection.session.dispatch("GUILD_MEMBERS_CHUNK", {**chunk, "nonce": data.get("nonce")})


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
