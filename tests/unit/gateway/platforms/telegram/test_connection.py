"""How the bot connects, what it says when it cannot, and how it comes back."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from gateway.config.schema_platforms import TelegramBotConfig
from gateway.platforms.base import Health
from tests.fakes.telegram.server import FakeTelegram, Fault
from tests.fakes.telegram.updates import Webhook
from tests.support.telegram_harness import TelegramHarness, running, settings_for

WRONG = "7000000001:AAnobody-knows-this-token"


async def test_where_to_find_it(harness: TelegramHarness) -> None:
    """The bot's name, and a link that opens the chat."""
    assert harness.platform.name == "telegram"
    assert harness.platform.where == "@hermes_bot, https://t.me/hermes_bot"
    assert harness.platform.health == Health("up")


async def test_a_bot_with_a_name_of_its_own(server: FakeTelegram) -> None:
    """Several bots in one process are told apart, and each gets what is said to it."""
    second = server.add_bot("7000000002:AAsecond", "second_bot")
    settings = settings_for(server, token=second.token)
    async with running(server) as one, running(server, settings=settings, bot_name="work") as two:
        assert (two.platform.name, two.port.platform) == ("telegram/work", "telegram/work")
        await two.ada.says("to the second", chat=two.ada.chat_with(second))
        assert (await two.receiver.next()).text == "to the second"
        assert one.receiver.messages == []


async def test_a_wrong_token(server: FakeTelegram) -> None:
    """A person has to do something, and is told what."""
    async with running(server, settings=settings_for(server, token=WRONG)) as harness:
        health = harness.platform.health
        assert health.state == "refused"
        assert "ask @BotFather for a new token and set TELEGRAM_BOT_TOKEN" in health.detail
        assert harness.platform.where == health.detail


@pytest.mark.parametrize("token", ["abc", "not a token", "7000000001", "7000000001:AA/../getMe"])
async def test_what_is_no_token_at_all(server: FakeTelegram, token: str) -> None:
    """Every invalid token is refused."""
    async with running(server, settings=settings_for(server, token=token)) as harness:
        assert harness.platform.health.state == "refused"
        assert "expected a token as BotFather gives it" in harness.platform.health.detail
        assert token not in harness.platform.health.detail
        assert server.calls == []


async def test_a_wrong_token_of_a_named_bot(server: FakeTelegram) -> None:
    """Its token has another place."""
    async with running(server, settings=settings_for(server, token=WRONG), bot_name="work") as harness:
        assert "platforms.telegram.bots.work.token" in harness.platform.health.detail


async def test_no_token(server: FakeTelegram) -> None:
    """Said as such."""
    async with running(server, settings=TelegramBotConfig(base_url=server.url)) as harness:
        assert harness.platform.health.state == "refused"
        assert "it has no token" in harness.platform.health.detail


async def test_a_token_that_is_revoked_while_running(harness: TelegramHarness) -> None:
    """Noticed at the next poll."""
    harness.server.fail_next("getUpdates", Fault.error(401, "Unauthorized"))
    await harness.ada.says("hello")
    assert "@BotFather" in (await harness.until("refused")).detail


@pytest.mark.parametrize("method", ["getMe", "deleteWebhook", "getUpdates"])
async def test_telegram_asks_for_a_pause(server: FakeTelegram, method: str) -> None:
    """It gets it before the next try, however short our own pauses are."""
    refused = server.fail_next(
        method, Fault.error(429, "Too Many Requests: retry after 0.3", retry_after=0.3)
    )
    async with running(server, retry_seconds=0.01) as harness:
        call = await refused.arrived()
        assert "asks for a pause. (0.3 s)" in harness.platform.health.detail
        await harness.until("up")
    assert server.calls_of("getMe")[-1].at - call.at >= 0.3


async def test_a_server_that_comes_up_later(server: FakeTelegram) -> None:
    """The start does not fail; the bot connects when it can."""
    await server.go_down()
    async with running(server) as harness:
        assert harness.platform.health.state == "down"
        assert "check the network" in harness.platform.health.detail
        await server.come_back()
        await harness.ada.says("are you there?")
        assert (await harness.receiver.next()).text == "are you there?"
        assert harness.platform.health == Health("up")


async def test_a_server_that_goes_and_comes_back(harness: TelegramHarness) -> None:
    """What was said meanwhile is not lost."""
    await harness.says("before")
    await harness.server.go_down()
    assert "check the network" in (await harness.until("down")).detail
    await harness.ada.says("meanwhile")
    await harness.server.come_back()
    assert (await harness.receiver.next()).text == "meanwhile"
    await harness.until("up")


async def test_what_waited_before_the_start(server: FakeTelegram) -> None:
    """Never dropped: people wrote while Hermes was off."""
    ada = server.person()
    await ada.says("while you were off")
    async with running(server) as harness:
        assert (await harness.receiver.next()).text == "while you were off"
    assert server.bot.updates.dropped == []


async def test_only_what_is_needed_is_asked_for(harness: TelegramHarness) -> None:
    """Four kinds of updates, long polls of half a minute."""
    await harness.says("hello")
    await harness.server.called("getUpdates", 3)
    call = harness.server.calls_of("getUpdates")[-1]
    assert call.params["allowed_updates"] == ["message", "edited_message", "callback_query", "my_chat_member"]
    assert call.params["timeout"] == 30


async def test_a_stop_confirms_what_was_taken_in(server: FakeTelegram) -> None:
    """Even if the next poll, which would have done so, has not got through: the next start gets nothing twice."""
    await server.person().says("once")
    with server.hold("getUpdates", when=lambda call: bool(call.params.get("timeout"))) as held:
        async with running(server) as harness:
            assert (await harness.receiver.next()).text == "once"
            await held.arrived()
            assert len(server.bot.updates.pending) > 0
    assert server.bot.updates.pending == []


async def test_a_webhook_that_somebody_left_behind(server: FakeTelegram) -> None:
    """It is taken away, and what waited for it comes here."""
    server.bot.updates.set_webhook(Webhook("http://127.0.0.1:9/"))
    await server.person().says("to the webhook")
    async with running(server) as harness:
        assert (await harness.receiver.next()).text == "to the webhook"
    assert server.bot.updates.dropped == []


async def test_a_proxy_that_the_environment_names(
    server: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Telegram cannot be reached directly. The server plays the proxy: it is asked for another host."""
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    async with running(server, settings=settings_for(server, base_url="http://telegram.invalid")) as harness:
        assert (await harness.says("hello")).text == "hello"


async def test_a_second_poller(server: FakeTelegram) -> None:
    """Said as what it is; not called up again before a whole poll has passed undisturbed."""
    async with running(server, poll_seconds=1) as harness, aiohttp.ClientSession() as http:
        await server.called("getUpdates", 2)
        async with http.get(f"{server.url}/bot{server.token}/getUpdates"):
            health = await harness.until("down")
        assert "Another program polls with this token" in health.detail
        polls = len(server.calls_of("getUpdates"))
        await harness.until("up")
        assert len(server.calls_of("getUpdates")) >= polls + 2


async def test_messages_come_in_even_while_contested(server: FakeTelegram) -> None:
    """Being disturbed is no reason to leave a message lying."""
    async with running(server) as harness:
        server.fail_next("getUpdates", Fault.error(409, "Conflict: terminated by other getUpdates request"))
        await harness.ada.says("before")
        await harness.until("down")
        await harness.receiver.next()
        assert (await harness.says("in between")).text == "in between"


async def test_a_poll_that_never_ends(server: FakeTelegram) -> None:
    """Noticed a little after it should have ended; another connection takes its place."""
    async with running(server, poll_seconds=0, poll_margin=0.5) as harness:
        with server.hold("getUpdates") as held:
            await held.arrived()
            assert "stopped answering" in (await harness.until("down")).detail
        assert (await harness.says("are you back?")).text == "are you back?"
        await harness.until("up")


async def test_an_update_that_cannot_be_read_is_passed_over(harness: TelegramHarness) -> None:
    """It is neither asked for again and again, nor does it keep others from coming."""
    harness.server.bot.updates.add("message", {"message_id": "?", "unheard": "of"})
    assert (await harness.says("hello")).text == "hello"
    await harness.server.wait_for(lambda: harness.server.bot.updates.pending == [])
    assert harness.platform.health.state == "up"


async def test_an_answer_that_is_no_json(harness: TelegramHarness) -> None:
    """The page of some proxy is a network that does not work."""
    harness.server.fail_next("getUpdates", Fault.error(503, "<html>"))
    await harness.ada.says("hello")
    assert "check the network" in (await harness.until("down")).detail
    assert (await harness.receiver.next()).text == "hello"


async def test_messages_can_be_sent_while_none_come_in(harness: TelegramHarness) -> None:
    """The way out does not hang on the way in."""
    await harness.says("hello")
    with harness.server.hold("getMe"):
        harness.server.fail_next("getUpdates", Fault.error(500, "Internal Server Error"))
        await harness.ada.says("hello again")
        await harness.until("down")
        await harness.port.send(harness.direct, "I can still talk")
    assert harness.ada.chat.texts == ["I can still talk"]


async def test_nothing_is_confirmed_before_it_is_kept(server: FakeTelegram) -> None:
    """A message that is not yet stored comes again at the next start, and is deduplicated by its id."""
    async with running(server) as harness:
        gate = harness.receiver.gates[str(harness.ada.id)] = asyncio.Event()
        bob = server.person(first_name="Bob")
        await harness.ada.says("just in time")
        await bob.says("at the same time")
        assert (await harness.receiver.next()).text == "at the same time"
        assert len(server.bot.updates.pending) == 2
        asyncio.get_running_loop().call_later(0.05, gate.set)
    assert [message.text for message in harness.receiver.messages] == ["at the same time", "just in time"]


async def test_what_could_not_be_kept_comes_again(harness: TelegramHarness) -> None:
    """A full disk: the connection says so, and once there is room nothing is missing."""
    harness.receiver.refuses = 2
    await harness.ada.says("hello")
    assert "disk" in (await harness.until("down")).detail
    assert (await harness.receiver.next()).text == "hello"
    await harness.until("up")
    assert (await harness.says("and again")).text == "and again"


async def test_what_follows_on_a_refused_message_does_not_get_ahead_of_it(server: FakeTelegram) -> None:
    """Both came in one batch, and only the first met a store that was full for a moment."""
    ada = server.person(first_name="Ada")
    for text in ("first", "second"):
        await ada.says(text)
    async with running(server, refuses=1, never_refused="second") as harness:
        assert [(await harness.receiver.next()).text for _ in range(2)] == ["first", "second"]


async def test_the_desk_can_still_send_while_the_platform_stops(server: FakeTelegram) -> None:
    """Nothing comes in any more; what it has to say goes out."""
    async with running(server) as harness:
        await harness.says("hello")
        harness.receiver.on_close = lambda: harness.port.send(harness.direct, "I am going to sleep.")
    assert harness.ada.chat.texts == ["I am going to sleep."]
