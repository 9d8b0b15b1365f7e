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
async def world() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as world:
        yield world


@contextlib.asynccontextmanager
async def raw(world: FakeDiscord, **query: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A client without manners, after HELLO."""
    async with aiohttp.ClientSession() as session:
        params = {"v": "10", "encoding": "json", **query}
        async with session.ws_connect(world.gateway_url, params=params) as socket:
            hello = await socket.receive_json()
            assert hello["op"] == 10
            yield socket


def identify(world: FakeDiscord, **fields: Any) -> dict[str, Any]:
    return {"op": 2, "d": {"token": world.token, "intents": int(Intent.GUILDS), "properties": {}, **fields}}


async def close_code(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    while not socket.closed:
        await socket.receive(timeout=5)
    return socket.close_code


async def test_ready_and_the_guild(world: FakeDiscord) -> None:
    """READY names the guilds, GUILD_CREATE brings channels, threads and roles."""
    thread = world.general.thread("release")
    role = world.guild.add_role("crew")
    async with online(world) as bot:
        guild = bot.get_guild(world.guild.id)
        assert guild is not None
        assert [channel.name for channel in guild.text_channels] == ["general"]
        assert [t.id for t in guild.threads] == [thread.id]
        assert guild.get_role(role.id) is not None
        assert bot.application_id == world.bot.id


async def _reconnect(world: FakeDiscord) -> None:
    world.gateway.ask_to_reconnect()


async def _invalidate(world: FakeDiscord) -> None:
    world.gateway.invalidate(resumable=True)


async def _close(world: FakeDiscord) -> None:
    await world.gateway.close(4000, "Unknown error.")


async def _abort(world: FakeDiscord) -> None:
    world.gateway.abort()


@pytest.mark.parametrize("accident", [_reconnect, _invalidate, _close, _abort])
async def test_resume_replays_what_was_missed(
    world: FakeDiscord, accident: Callable[[FakeDiscord], Awaitable[None]]
) -> None:
    """Op 7, op 9 true, a close and a cut line: the session goes on and nothing is lost or repeated."""
    ada = world.person("Ada")
    async with online(world) as bot:
        await ada.says("before", channel=world.general)
        await bot.hears("before")
        await accident(world)
        await world.gateway.is_offline()
        await ada.says("while away", channel=world.general)
        await world.gateway.resumed()
        await ada.says("after", channel=world.general)
        assert (await bot.hears("")).content == "while away"
        assert (await bot.hears("")).content == "after"
        numbers = [frame["s"] for frame in world.gateway.sessions[0].sent]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(world.gateway.identifies) == 1


async def test_an_invalid_session_is_gone(world: FakeDiscord) -> None:
    """Op 9 false: a fresh IDENTIFY, and what was missed is not replayed."""
    ada = world.person("Ada")
    async with online(world) as bot:
        world.gateway.invalidate(resumable=False)
        await ada.says("lost", channel=world.general)
        await world.gateway.identified(2)
        await ada.says("heard", channel=world.general)
        assert (await bot.hears("")).content == "heard"
    assert world.gateway.resumes == 0


async def test_a_forgotten_session_cannot_resume(world: FakeDiscord) -> None:
    """RESUME is answered with op 9 false, and the SDK identifies again."""
    async with online(world):
        world.gateway.forget_sessions()
        world.gateway.abort()
        await world.gateway.identified(2)


async def test_a_wrong_token_at_the_gateway(world: FakeDiscord) -> None:
    """4004 ends the client."""
    world.gateway.token = "another"
    with pytest.raises(discord.ConnectionClosed) as caught:
        async with online(world):
            pass
    assert caught.value.code == 4004


async def test_an_intent_that_is_not_switched_on() -> None:
    """4014, which the SDK calls by its name."""
    async with FakeDiscord(intents=Intent(0)) as world:
        with pytest.raises(discord.PrivilegedIntentsRequired):
            async with online(world):
                pass
        assert not world.gateway.online


async def test_without_the_content_intent() -> None:
    """The text is empty, except in direct chats and where the bot is mentioned."""
    async with FakeDiscord(intents=Intent(0)) as world, online(world, Bot(message_content=False)) as bot:
        ada = world.person("Ada")
        secret = await ada.says("secret", channel=world.general)
        assert (await bot.hears("")).content == ""
        assert (await bot.channel(world.general.id).fetch_message(secret.id)).content == ""
        await ada.says("open", channel=world.general, mentions=world.bot)
        await bot.hears("open")
        await ada.says("direct")
        await bot.hears("direct")


async def test_heartbeats(world: FakeDiscord) -> None:
    """They come at the interval HELLO names, and the answer can be withheld."""
    world.gateway.heartbeat_interval = 0.05
    async with online(world):
        await world.gateway.heartbeat(3)
    async with raw(world) as socket:
        await socket.send_json({"op": 1, "d": None})
        assert (await socket.receive_json())["op"] == 11
        world.gateway.acks = False
        await socket.send_json({"op": 1, "d": None})
        assert await close_code(socket) == 4009


async def test_a_silent_client_is_dropped(world: FakeDiscord) -> None:
    """Two intervals without a heartbeat."""
    world.gateway.heartbeat_interval = 0.05
    async with raw(world) as socket:
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
async def test_bad_manners(world: FakeDiscord, frames: list[Any], code: int) -> None:
    """Unknown opcodes, nonsense and impatience end the connection, each with its own code."""
    async with raw(world) as socket:
        for frame in frames:
            await socket.send_json(frame)
        assert await close_code(socket) == code


async def test_bad_identifies(world: FakeDiscord) -> None:
    """Twice (4005), with unknown intents (4013), with a sequence that was never sent (4007)."""
    async with raw(world) as socket:
        await socket.send_json(identify(world))
        ready = (await socket.receive_json())["d"]
        await socket.send_json(identify(world))
        assert await close_code(socket) == 4005
    async with raw(world) as socket:
        await socket.send_json(identify(world, intents=1 << 40))
        assert await close_code(socket) == 4013
    async with raw(world) as socket:
        resume = {"token": world.token, "session_id": ready["session_id"], "seq": 999}
        await socket.send_json({"op": 6, "d": resume})
        assert await close_code(socket) == 4007


async def test_a_flood_is_cut_off(world: FakeDiscord) -> None:
    """120 payloads a minute."""
    async with raw(world) as socket:
        with contextlib.suppress(ConnectionError):
            for _ in range(121):
                await socket.send_json({"op": 1, "d": None})
        assert await close_code(socket) == 4008


async def test_hasty_identifies(world: FakeDiscord) -> None:
    """With Discord's five seconds switched on, the second one gets an invalid session."""
    world.gateway.identify_interval = 5.0
    async with raw(world) as first, raw(world) as second:
        await first.send_json(identify(world))
        assert (await first.receive_json())["t"] == "READY"
        await second.send_json(identify(world))
        assert await second.receive_json() == {"op": 9, "d": False}
        world.clock.advance(5)
        await second.send_json(identify(world))
        assert (await second.receive_json())["t"] == "READY"


@pytest.mark.parametrize(("code", "resumable"), [(1000, False), (1001, False), (4000, True)])
async def test_saying_goodbye_ends_the_session(world: FakeDiscord, code: int, resumable: bool) -> None:
    """A client that closes with 1000 or 1001 has nothing to resume; any other code keeps the session."""
    async with raw(world) as socket:
        await socket.send_json(identify(world))
        await world.gateway.is_online()
        await socket.close(code=code)
    await world.gateway.is_offline()
    assert bool(world.gateway.sessions) is resumable
    assert world.gateway.client_closes == [code]


async def test_the_network_goes_and_comes_back(world: FakeDiscord) -> None:
    """The same address, the same session; what people wrote meanwhile is replayed."""
    ada = world.person("Ada")
    async with online(world) as bot:
        await world.go_down()
        await world.gateway.is_offline()
        with pytest.raises(aiohttp.ClientConnectorError):
            await bot.channel(world.general.id).send("anybody?")
        await ada.says("still here", channel=world.general)
        await world.come_back()
        await bot.hears("still here")


async def test_an_unreachable_gateway_comes_back(world: FakeDiscord) -> None:
    """The SDK keeps trying and resumes."""
    async with online(world):
        world.gateway.refuse_connections()
        world.gateway.abort()
        await world.gateway.is_offline()
        world.gateway.refuse_connections(False)
        await asyncio.wait_for(world.gateway.resumed(), 30)
