"""The loopback Discord's gateway: sessions, sequence numbers, replay, and the codes it hangs up with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import discord
import pytest

from tests.fakes.discord.bot import Bot, online
from tests.fakes.discord.server import FakeDiscord, Intent


@pytest.fixture
async def server() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as server:
        yield server


@contextlib.asynccontextmanager
async def raw(server: FakeDiscord, **query: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A client without manners, after HELLO."""
    async with aiohttp.ClientSession() as session:
        params = {"v": "10", "encoding": "json", **query}
        async with session.ws_connect(server.gateway_url, params=params) as socket:
            hello = await socket.receive_json()
            assert hello["op"] == 10
            yield socket


def identify(server: FakeDiscord, **fields: Any) -> dict[str, Any]:
    return {"op": 2, "d": {"token": server.token, "intents": int(Intent.GUILDS), "properties": {}, **fields}}


async def close_code(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    while not socket.closed:
        await socket.receive(timeout=5)
    return socket.close_code


async def test_ready_and_the_guild(server: FakeDiscord) -> None:
    """READY names the guilds, GUILD_CREATE brings channels, threads and roles."""
    thread = server.general.thread("release")
    role = server.guild.add_role("crew")
    async with online(server) as bot:
        guild = bot.get_guild(server.guild.id)
        assert guild is not None
        assert [channel.name for channel in guild.text_channels] == ["general"]
        assert [t.id for t in guild.threads] == [thread.id]
        assert guild.get_role(role.id) is not None
        assert bot.application_id == server.bot.id


async def _reconnect(server: FakeDiscord) -> None:
    server.gateway.ask_to_reconnect()


async def _invalidate(server: FakeDiscord) -> None:
    server.gateway.invalidate(resumable=True)


async def _close(server: FakeDiscord) -> None:
    await server.gateway.close(4000, "Unknown error.")


async def _abort(server: FakeDiscord) -> None:
    server.gateway.abort()


@pytest.mark.parametrize("accident", [_reconnect, _invalidate, _close, _abort])
async def test_resume_replays_what_was_missed(
    server: FakeDiscord, accident: Callable[[FakeDiscord], Awaitable[None]]
) -> None:
    """Op 7, op 9 true, a close and a cut line: the session goes on and nothing is lost or repeated."""
    ada = server.person("Ada")
    async with online(server) as bot:
        await ada.says("before", channel=server.general)
        await bot.hears("before")
        await accident(server)
        await server.gateway.is_offline()
        await ada.says("while away", channel=server.general)
        await server.gateway.resumed()
        await ada.says("after", channel=server.general)
        assert (await bot.hears("")).content == "while away"
        assert (await bot.hears("")).content == "after"
        numbers = [frame["s"] for frame in server.gateway.sessions[0].sent]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(server.gateway.identifies) == 1


async def test_an_invalid_session_is_gone(server: FakeDiscord) -> None:
    """Op 9 false: a fresh IDENTIFY, and what was missed is not replayed."""
    ada = server.person("Ada")
    async with online(server) as bot:
        server.gateway.invalidate(resumable=False)
        await ada.says("lost", channel=server.general)
        await server.gateway.identified(2)
        await ada.says("heard", channel=server.general)
        assert (await bot.hears("")).content == "heard"
    assert server.gateway.resumes == 0


async def test_a_forgotten_session_cannot_resume(server: FakeDiscord) -> None:
    """RESUME is answered with op 9 false, and the SDK identifies again."""
    async with online(server):
        server.gateway.forget_sessions()
        server.gateway.abort()
        await server.gateway.identified(2)


async def test_a_wrong_token_at_the_gateway(server: FakeDiscord) -> None:
    """4004 ends the client."""
    server.gateway.token = "another"
    with pytest.raises(discord.ConnectionClosed) as caught:
        async with online(server):
            pass
    assert caught.value.code == 4004


async def test_an_intent_that_is_not_switched_on() -> None:
    """4014, which the SDK calls by its name."""
    async with FakeDiscord(intents=Intent(0)) as server:
        with pytest.raises(discord.PrivilegedIntentsRequired):
            async with online(server):
                pass
        assert not server.gateway.online


async def test_without_the_content_intent() -> None:
    """The text is empty, except in direct chats and where the bot is mentioned."""
    async with FakeDiscord(intents=Intent(0)) as server, online(server, Bot(message_content=False)) as bot:
        ada = server.person("Ada")
        secret = await ada.says("secret", channel=server.general)
        assert (await bot.hears("")).content == ""
        assert (await bot.channel(server.general.id).fetch_message(secret.id)).content == ""
        await ada.says("open", channel=server.general, mentions=server.bot)
        await bot.hears("open")
        await ada.says("direct")
        await bot.hears("direct")


async def test_heartbeats(server: FakeDiscord) -> None:
    """They come at the interval HELLO names, and the answer can be withheld."""
    server.gateway.heartbeat_interval = 0.05
    async with online(server):
        await server.gateway.heartbeat(3)
    async with raw(server) as socket:
        await socket.send_json({"op": 1, "d": None})
        assert (await socket.receive_json())["op"] == 11
        server.gateway.acks = False
        await socket.send_json({"op": 1, "d": None})
        assert await close_code(socket) == 4009


async def test_a_silent_client_is_dropped(server: FakeDiscord) -> None:
    """Two intervals without a heartbeat."""
    server.gateway.heartbeat_interval = 0.05
    async with raw(server) as socket:
        assert await close_code(socket) == 4009


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([{"op": 99, "d": None}], 4001),
        ([{"d": None}], 4002),
        ([{"op": 3, "d": {}}], 4003),
        ([{"op": 6, "d": {"token": "wrong", "session_id": "x", "seq": 1}}], 4004),
        ([{"op": 1, "d": "nonsense"}], 4007),
    ],
)
async def test_bad_manners(server: FakeDiscord, frames: list[Any], code: int) -> None:
    """Unknown opcodes, nonsense and impatience end the connection, each with its own code."""
    async with raw(server) as socket:
        for frame in frames:
            await socket.send_json(frame)
        assert await close_code(socket) == code


async def test_bad_identifies(server: FakeDiscord) -> None:
    """Twice (4005), with unknown intents (4013), with a sequence that was never sent (4007)."""
    async with raw(server) as socket:
        await socket.send_json(identify(server))
        ready = (await socket.receive_json())["d"]
        await socket.send_json(identify(server))
        assert await close_code(socket) == 4005
    async with raw(server) as socket:
        await socket.send_json(identify(server, intents=1 << 40))
        assert await close_code(socket) == 4013
    async with raw(server) as socket:
        resume = {"token": server.token, "session_id": ready["session_id"], "seq": 999}
        await socket.send_json({"op": 6, "d": resume})
        assert await close_code(socket) == 4007


async def test_a_flood_is_cut_off(server: FakeDiscord) -> None:
    """120 payloads a minute."""
    async with raw(server) as socket:
        with contextlib.suppress(ConnectionError):
            for _ in range(121):
                await socket.send_json({"op": 1, "d": None})
        assert await close_code(socket) == 4008


async def test_hasty_identifies(server: FakeDiscord) -> None:
    """With Discord's five seconds switched on, the second one gets an invalid session."""
    server.gateway.identify_interval = 5.0
    async with raw(server) as first, raw(server) as second:
        await first.send_json(identify(server))
        assert (await first.receive_json())["t"] == "READY"
        await second.send_json(identify(server))
        assert await second.receive_json() == {"op": 9, "d": False}
        server.clock.advance(5)
        await second.send_json(identify(server))
        assert (await second.receive_json())["t"] == "READY"


@pytest.mark.parametrize(("code", "resumable"), [(1000, False), (1001, False), (4000, True)])
async def test_saying_goodbye_ends_the_session(server: FakeDiscord, code: int, resumable: bool) -> None:
    """A client that closes with 1000 or 1001 has nothing to resume; any other code keeps the session."""
    async with raw(server) as socket:
        await socket.send_json(identify(server))
        await server.gateway.is_online()
        await socket.close(code=code)
    await server.gateway.is_offline()
    assert bool(server.gateway.sessions) is resumable
    assert server.gateway.client_closes == [code]


async def test_the_network_goes_and_comes_back(server: FakeDiscord) -> None:
    """The same address, the same session; what people wrote meanwhile is replayed."""
    ada = server.person("Ada")
    async with online(server) as bot:
        await server.go_down()
        await server.gateway.is_offline()
        with pytest.raises(aiohttp.ClientConnectorError):
            await bot.channel(server.general.id).send("anybody?")
        await ada.says("still here", channel=server.general)
        await server.come_back()
        await bot.hears("still here")


async def test_an_unreachable_gateway_comes_back(server: FakeDiscord) -> None:
    """The SDK keeps trying and resumes."""
    async with online(server):
        server.gateway.refuse_connections()
        server.gateway.abort()
        await server.gateway.is_offline()
        server.gateway.refuse_connections(False)
        await asyncio.wait_for(server.gateway.resumed(), 30)
