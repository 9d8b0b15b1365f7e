"""Coming up, falling down, getting up again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
import structlog

from gateway.chat.errors import SlowDown
from tests.fakes.discord.server import FakeDiscord, Fault, Intent, Person
from tests.support.discord_harness import Bot, place, running, send_nonsense


async def test_up(bot: Bot, server: FakeDiscord) -> None:
    """It says who it is and how it is invited."""
    assert bot.platform.name == bot.port.platform == "discord"
    assert bot.platform.health.state == "up"
    assert f"client_id={server.bot.id}" in bot.platform.where
    assert "scope=bot+applications.commands" in bot.platform.where
    assert bot.platform.where.startswith("hermes#0001, ")


async def test_it_asks_for_no_more_than_it_needs(bot: Bot, server: FakeDiscord) -> None:
    """Servers, messages and what is in them: no presence, no members, no typing, no reactions."""
    needed = Intent.GUILDS | Intent.GUILD_MESSAGES | Intent.DIRECT_MESSAGES | Intent.MESSAGE_CONTENT
    assert server.gateway.sessions[0].intents == needed


async def test_a_bad_token(server: FakeDiscord) -> None:
    """A person has to do something, and is told what."""
    async with running(Bot(server, token="wrong-token")) as bot:
        assert bot.platform.health.state == "refused"
        assert "Reset Token" in bot.platform.health.detail
        assert "DISCORD_BOT_TOKEN" in bot.platform.health.detail
        assert "wrong-token" not in bot.platform.health.detail


async def test_a_token_that_is_taken_back(bot: Bot, server: FakeDiscord) -> None:
    """Discord closes with 4004 then: the same sentence as at the start."""
    await server.gateway.close(4004)
    await bot.becomes("refused")
    assert "Reset Token" in bot.platform.health.detail


async def test_a_missing_intent() -> None:
    """Another sentence than for a bad token."""
    async with FakeDiscord(intents=Intent(0)) as server, running(Bot(server)) as bot:
        assert bot.platform.health.state == "refused"
        assert "Message Content Intent" in bot.platform.health.detail


async def test_no_network(server: FakeDiscord, unused_tcp_port: int) -> None:
    """Nothing listens there: down, not refused, and tried again."""
    nowhere = f"http://127.0.0.1:{unused_tcp_port}/api/v10"
    async with running(Bot(server, api_base=nowhere)) as bot:
        assert bot.platform.health.state == "down"
        assert "could not be reached" in bot.platform.health.detail


async def test_a_service_out_of_order(server: FakeDiscord, ada: Person) -> None:
    """The login fails once, then it works."""
    server.fail_next("get_me", Fault.error(503))
    async with running(Bot(server)) as bot:
        await bot.becomes("up")
        await ada.says("hello")
        assert (await bot.receiver.next_message()).text == "hello"


async def test_a_pause_that_discord_asks_for(server: FakeDiscord) -> None:
    """It is kept, however often a connection would else be tried."""
    server.fail_next("get_me", Fault.rate_limited(139.5))
    async with running(Bot(server)) as bot:
        assert bot.platform.health.state == "down"
        assert bot.platform.health.detail == str(SlowDown(139.5))


async def test_a_gateway_that_is_not_there_at_first(server: FakeDiscord, ada: Person) -> None:
    """The library fails with an exception of its own; the next connection succeeds."""
    server.gateway.refuse_connections()
    async with running(Bot(server)) as bot:
        assert bot.platform.health.state == "down"
        assert "could not be reached" in bot.platform.health.detail
        server.gateway.refuse_connections(False)
        await bot.becomes("up")
        await ada.says("hello")
        assert (await bot.receiver.next_message()).text == "hello"


@pytest.mark.parametrize(
    "accident",
    [
        lambda server: server.gateway.ask_to_reconnect(),
        lambda server: server.gateway.invalidate(resumable=True),
        lambda server: server.gateway.abort(),
    ],
    ids=["asked to reconnect", "session invalid but resumable", "connection cut"],
)
async def test_a_resumed_session_misses_nothing(
    bot: Bot, ada: Person, server: FakeDiscord, accident: Callable[[FakeDiscord], None]
) -> None:
    """What is written meanwhile arrives, once and in order."""
    accident(server)
    await ada.says("meanwhile")
    await server.gateway.resumed()
    await ada.says("afterwards")
    assert [(await bot.receiver.next_message()).text for _ in range(2)] == ["meanwhile", "afterwards"]
    assert bot.platform.health.state == "up"
    assert len(server.gateway.identifies) == 1


@pytest.mark.parametrize("code", [1000, 4000, 4009])
async def test_a_closed_session_is_taken_up_again(
    bot: Bot, ada: Person, server: FakeDiscord, code: int
) -> None:
    """For every reason that Discord gives."""
    await server.gateway.close(code)
    await server.gateway.is_online()
    await ada.says("hello")
    assert (await bot.receiver.next_message()).text == "hello"


async def test_health_tells_of_an_interruption(bot: Bot, server: FakeDiscord) -> None:
    """Down while the library mends it, up when it has."""
    server.gateway.refuse_connections()
    server.gateway.abort()
    await bot.becomes("down")
    server.gateway.refuse_connections(False)
    await bot.becomes("up")


async def test_an_interruption_that_does_not_end(server: FakeDiscord, ada: Person) -> None:
    """The library's pauses grow up to a quarter of an hour, so its attempts are given up before."""
    async with running(Bot(server, resume_seconds=0.2)) as bot:
        server.gateway.refuse_connections()
        server.gateway.abort()
        await bot.becomes("down")
        with structlog.testing.capture_logs() as logs:
            await server.until(lambda: len(server.calls_to("get_me")) > 1)
        assert "platform.down" in [entry["event"] for entry in logs]
        server.gateway.refuse_connections(False)
        await bot.becomes("up")
        await ada.says("hello")
        assert (await bot.receiver.next_message()).text == "hello"


async def test_a_malformed_event_is_survived(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Another connection is made."""
    send_nonsense(server)
    await server.gateway.identified(2)
    await ada.says("hello")
    assert (await bot.receiver.next_message()).text == "hello"


async def test_after_stop_nothing_is_left(server: FakeDiscord, ada: Person) -> None:
    """It says goodbye, and leaves no task behind."""
    before = asyncio.all_tasks()
    async with running(Bot(server)):
        pass
    assert server.gateway.client_closes == [1000]
    left = {task.get_name() for task in asyncio.all_tasks() - before}
    assert not any("discord" in name for name in left), left


async def test_the_desk_closes_while_it_can_still_send(server: FakeDiscord, ada: Person) -> None:
    """What is being taken in is finished first, what comes after that is not taken in."""
    async with running(Bot(server)) as bot:
        bot.receiver.gate.clear()
        await ada.says("last words")
        await bot.receiver.next_message()

        async def say_goodbye() -> None:
            assert bot.receiver.gate.is_set(), "closed before the last message was accepted"
            await ada.says("too late")
            await bot.port.send(place(ada.dm()), "Goodbye.")

        bot.receiver.before_closing = say_goodbye
        asyncio.get_running_loop().call_later(0.05, bot.receiver.gate.set)
    assert ada.dm().texts == ["last words", "too late", "Goodbye."]
    assert bot.receiver.is_idle


async def test_several_bots(server: FakeDiscord, ada: Person) -> None:
    """Named ones beside the first, at the same addresses."""
    async with running(Bot(server)) as first, running(Bot(server, name="work")) as second:
        assert second.platform.name == second.port.platform == "discord/work"
        assert (first.platform.health.state, second.platform.health.state) == ("up", "up")


async def test_bots_at_different_addresses(server: FakeDiscord, ada: Person) -> None:
    """The library cannot do that, so the second is refused with a sentence and the first is left in peace."""
    async with FakeDiscord() as elsewhere, running(Bot(server)) as first, running(Bot(elsewhere)) as second:
        assert second.platform.health.state == "refused"
        assert "`api_base`" in second.platform.health.detail
        await ada.says("hello")
        assert (await first.receiver.next_message()).text == "hello"


async def test_the_library_is_quiet(caplog: pytest.LogCaptureFixture, server: FakeDiscord) -> None:
    """Below WARNING it writes down whole messages, and every interruption with a traceback."""
    caplog.set_level(logging.DEBUG)
    server.gateway.refuse_connections()
    async with running(Bot(server)) as bot:
        assert bot.platform.health.state == "down"
        server.gateway.refuse_connections(False)
        await bot.becomes("up")
        server.gateway.abort()
        await server.gateway.resumed()
        await server.gateway.close(4004)
        await bot.becomes("refused")
    assert [record for record in caplog.records if record.name.startswith("discord")] == []


@pytest.mark.parametrize("token", ["s3cret-bot-token", "s3cret-but-wrong"])
async def test_the_token_is_in_no_log(token: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the right one nor a wrong one, even with everything that the library has to say."""
    caplog.set_level(logging.DEBUG)
    async with FakeDiscord(token="s3cret-bot-token") as server:
        with structlog.testing.capture_logs() as ours:
            async with running(Bot(server, token=token)) as bot:
                for name in ("discord", "discord.client", "discord.gateway", "discord.http"):
                    caplog.set_level(logging.DEBUG, logger=name)
                if bot.platform.health.state == "up":
                    server.gateway.ask_to_reconnect()
                    await server.gateway.resumed()
                    server.gateway.abort()
                    await server.gateway.resumed(2)
                    await bot.port.typing(place(server.general))
                    await server.gateway.close(4004)
                    await bot.becomes("refused")
                assert token not in repr(bot.platform.health)
    assert ours
    assert token not in repr(ours)
    assert token not in caplog.text
