"""Messages that people write while the session is lost."""

from __future__ import annotations

import time

import pytest
import structlog
from discord.utils import snowflake_time

from gateway.platforms.discord.catch_up import LastSeen
from gateway.types import ChatMessage, Place
from tests.fakes.discord.messages import Message
from tests.fakes.discord.server import Channel, FakeDiscord, Fault, May, Person
from tests.support.discord_harness import Bot, RecordingReceiver, place, running, send_nonsense


async def interrupted(server: FakeDiscord) -> None:
    """The library gives up its connection, and with it the session; another connection is not yet to be had."""
    server.gateway.refuse_connections()
    send_nonsense(server)
    await server.gateway.is_offline()


async def back_again(server: FakeDiscord) -> None:
    server.gateway.refuse_connections(False)
    await server.gateway.identified(2)


async def next_messages(bot: Bot, count: int) -> list[ChatMessage]:
    return [await bot.receiver.next_message() for _ in range(count)]


async def test_a_new_session_begins_with_what_was_missed(
    bot: Bot, ada: Person, ben: Person, server: FakeDiscord
) -> None:
    """In places with a conversation, also threads, and each message once."""
    thread = await ada.opens_thread("release", channel=server.general)
    for channel in (ada.dm(), thread):
        await ada.says("before", channel=channel)
        await bot.receiver.next_message()
    await interrupted(server)
    for channel in (ada.dm(), thread):
        await ada.says("meanwhile", channel=channel)
    await back_again(server)
    assert {(message.text, message.place) for message in await next_messages(bot, 2)} == {
        ("meanwhile", place(ada.dm())),
        ("meanwhile", place(thread)),
    }
    await ben.says("afterwards")
    assert (await bot.receiver.next_message()).text == "afterwards"
    assert bot.platform.health.state == "up"


async def test_what_was_missed_comes_before_what_comes_now(
    bot: Bot, ada: Person, server: FakeDiscord
) -> None:
    """Reading it takes a moment, in which people go on talking."""
    await ada.says("before", channel=server.general)
    await bot.receiver.next_message()
    await interrupted(server)
    await ada.says("meanwhile", channel=server.general)
    reading = server.fail_next("get_messages", Fault.hang("after"))
    await back_again(server)
    await ada.says("now", channel=server.general)
    await reading.arrived()
    reading.release()
    texts = [message.text for message in await next_messages(bot, 2)]
    assert texts == ["meanwhile", "now"]


async def test_channels_in_which_nobody_has_spoken_yet(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Discord tells with the server what the newest message of a channel is."""
    quiet = server.guild.add_channel("quiet")
    await interrupted(server)
    await ada.says("anybody here?", channel=quiet)
    await back_again(server)
    assert (await bot.receiver.next_message()).place == place(quiet)
    assert {call.ids["channel_id"] for call in server.calls_to("get_messages")} == {str(quiet.id)}


async def test_a_server_that_is_not_allowed_is_not_looked_through(
    bot: Bot, ada: Person, server: FakeDiscord
) -> None:
    """No one has access there."""
    elsewhere = server.add_guild("Elsewhere")
    elsewhere.add_member(ada)
    lounge = elsewhere.add_channel("lounge")
    await interrupted(server)
    await ada.says("psst", channel=lounge)
    await ada.says("hello", channel=server.general)
    await back_again(server)
    assert (await bot.receiver.next_message()).text == "hello"
    assert {call.ids["channel_id"] for call in server.calls_to("get_messages")} == {str(server.general.id)}


async def test_nothing_from_before_the_start_is_read(server: FakeDiscord, ada: Person) -> None:
    """What was written before the process ran is not its business."""
    await ada.says("long ago", channel=server.general)
    server.clock.advance(60)
    bot = Bot(server)
    bot.receiver.since = time.time() + 30  # by the clock of that server, between the two
    async with running(bot):
        await interrupted(server)
        server.clock.advance(60)
        await ada.says("meanwhile", channel=server.general)
        await back_again(server)
        assert (await bot.receiver.next_message()).text == "meanwhile"


async def test_the_direct_chat_of_a_person_in_the_configuration(server: FakeDiscord, ada: Person) -> None:
    """Even if they have not written since the start: Discord lists no direct chats, but this one can be opened."""
    async with running(Bot(server, people=[4711, ada.id])) as bot:
        await interrupted(server)
        await ada.says("meanwhile")
        await back_again(server)
        message = await bot.receiver.next_message()
        assert (message.text, message.place) == ("meanwhile", place(ada.dm()))


async def flood(ada: Person, channel: Channel, count: int) -> None:
    for number in range(count):
        await ada.says(str(number), channel=channel)


async def test_many_messages(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """More than one answer of Discord's holds."""
    await ada.says("before")
    await bot.receiver.next_message()
    await interrupted(server)
    await flood(ada, ada.dm(), 130)
    await back_again(server)
    assert [message.text for message in await next_messages(bot, 130)] == [
        str(number) for number in range(130)
    ]


async def test_too_many_messages(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """The newest are read, and the log tells that there were more."""
    await ada.says("before")
    await bot.receiver.next_message()
    await interrupted(server)
    await flood(ada, ada.dm(), 205)
    with structlog.testing.capture_logs() as logs:
        await back_again(server)
        texts = [message.text for message in await next_messages(bot, 200)]
    assert texts == [str(number) for number in range(5, 205)]
    [told] = [entry for entry in logs if entry["event"] == "discord.missed_messages_left_out"]
    assert told["channel"] == ada.dm().id


@pytest.mark.parametrize("trouble", ["hidden", "failing"])
async def test_a_channel_that_cannot_be_read_keeps_nobody_from_coming_back(
    bot: Bot, ada: Person, server: FakeDiscord, trouble: str
) -> None:
    """What was missed there is lost; the rest is not."""
    for channel in (server.general, ada.dm()):
        await ada.says("before", channel=channel)
        await bot.receiver.next_message()
    if trouble == "hidden":
        server.general.forbid(server.bot, May.VIEW)
    where = str(server.general.id)
    server.fail_next(
        "get_messages", Fault.error(403, 50001), where=lambda call: call.ids["channel_id"] == where
    )
    await interrupted(server)
    for channel in (server.general, ada.dm()):
        await ada.says("meanwhile", channel=channel)
    await back_again(server)
    assert (await bot.receiver.next_message()).place == place(ada.dm())


async def test_a_channel_that_can_be_read_only_later(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """What was missed there still comes before what comes now: once that is kept, nobody would look for it again."""
    await ada.says("before")
    await bot.receiver.next_message()
    await interrupted(server)
    await ada.says("meanwhile")
    server.fail_next("get_messages", Fault.error(503))
    await back_again(server)
    await ada.says("now")
    assert [message.text for message in await next_messages(bot, 2)] == ["meanwhile", "now"]


def restarted(server: FakeDiscord, seen: Message) -> Bot:
    """A new process; an earlier one has seen this last."""
    bot = Bot(server)
    bot.receiver.known = {place(seen.channel): str(seen.id)}
    bot.receiver.since = time.time() - 3600
    return bot


async def test_a_new_process_goes_on_where_the_last_one_was(server: FakeDiscord, ada: Person) -> None:
    """The receiver knows what was kept last in each place; what was written since then was missed, first words too."""
    first = await ada.says("kept")
    await ada.says("missed")
    await ada.says("first words", channel=server.general)
    async with running(restarted(server, first)) as bot:
        texts = {message.text for message in await next_messages(bot, 2)}
        assert texts == {"missed", "first words"}
        await ada.says("now")
        assert (await bot.receiver.next_message()).text == "now"


async def test_a_server_that_arrives_late(server: FakeDiscord, ada: Person, ben: Person) -> None:
    """Nobody waits for it, and what was missed there is found all the same."""
    bot = restarted(server, await ada.says("kept"))
    await ada.says("missed", channel=server.general)
    server.gateway.hold_back(server.guild)
    async with running(bot):
        await ben.says("now")
        assert (await bot.receiver.next_message()).text == "now"
        server.gateway.arrive(server.guild)
        await ada.says("later", channel=server.general)
        assert [message.text for message in await next_messages(bot, 2)] == ["missed", "later"]


async def test_a_thread_that_was_archived_meanwhile(server: FakeDiscord, ada: Person) -> None:
    """Discord does not list it with its server, but the bot knows it."""
    thread = await ada.opens_thread("release", channel=server.general)
    bot = restarted(server, await ada.says("kept", channel=thread))
    await ada.says("missed", channel=thread, mentions=server.bot)
    thread.archived = True
    async with running(bot):
        message = await bot.receiver.next_message()
        assert (message.text, message.place, message.addressed) == ("missed", place(thread), True)


async def test_one_message_does_not_cost_those_behind_it(server: FakeDiscord, ada: Person) -> None:
    """After every kind of failure."""
    bot = restarted(server, await ada.says("kept"))
    bot.receiver.crashes_on = "two"
    for text in ("one", "two", "three"):
        await ada.says(text)
    async with running(bot):
        assert [message.text for message in await next_messages(bot, 2)] == ["one", "three"]


async def test_a_session_that_only_the_service_has_lost(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """The library wants to resume it and must begin a new one, over the same connection."""
    await ada.says("before")
    await bot.receiver.next_message()
    server.gateway.forget_sessions()
    server.gateway.abort()
    await server.gateway.is_offline()
    await ada.says("meanwhile")
    await server.gateway.identified(2)
    assert (await bot.receiver.next_message()).text == "meanwhile"


async def test_who_may_not_speak_is_not_remembered(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Strangers who write a lot must not push out the chats that count."""
    bot.receiver.allows = False
    await ada.says("before")
    await bot.receiver.next_message()
    await interrupted(server)
    await ada.says("meanwhile")
    await back_again(server)
    await ada.says("now")
    assert (await bot.receiver.next_message()).text == "now"


async def test_a_place_that_was_forgotten_is_not_read_from_the_start() -> None:
    """What was seen there is older than what made it be forgotten."""
    seen = LastSeen()
    await seen.begin(RecordingReceiver())
    began = seen.in_place(Place("1"))
    assert time.time() - snowflake_time(began).timestamp() < 10
    for number in range(1001):
        seen.note(Place(str(number)), began + number)
    assert seen.in_place(Place("0")) == began, "forgotten"
    assert seen.in_place(Place("1")) == began + 1
    assert seen.direct_chats(2) == [Place("1000"), Place("999")]
