"""What the receiver asks for, as people on Discord get to see it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from gateway.chat.errors import (
    ContentRefused,
    DeliveryError,
    MessageGone,
    SlowDown,
    Undeliverable,
    Unreachable,
)
from gateway.types import Button, Place
from tests.fakes.discord.server import FakeDiscord, Fault, Flag, May, Message, Person
from tests.support.discord_harness import Bot, place

TABLE = "| name | age |\n|---|---|\n| Ada | 36 |"


def sent(server: FakeDiscord, message_id: str) -> Message:
    return server.state.messages[int(message_id)]


async def test_a_message_appears_as_it_is(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Markdown is Discord's own language. Links stay folded: a preview would be fetched by Discord."""
    text = "**bold** `code` https://example.org"
    message = sent(server, await bot.port.send(place(ada.dm()), text, formatted=True))
    assert message.content == text
    assert message.flags == Flag.SUPPRESS_EMBEDS


async def test_a_silent_message(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """It rings no phone."""
    message = sent(server, await bot.port.send(place(ada.dm()), "psst", silent=True))
    assert Flag.SUPPRESS_NOTIFICATIONS in message.flags


async def test_tables_become_readable(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Discord shows no tables, so a formatted text is sent without their rulers; plain text stays as it is."""
    formatted = sent(server, await bot.port.send(place(ada.dm()), TABLE, formatted=True))
    assert "|---|" not in formatted.content
    assert "Ada" in formatted.content
    await bot.port.edit(place(ada.dm()), str(formatted.id), TABLE, formatted=False)
    assert formatted.content == TABLE


async def test_a_table_that_would_not_fit_stays_as_it_is(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """A text that was cut to the limit must not grow beyond it."""
    full = TABLE + "\n" + "\n".join(f"| {number:04} | {'x' * 20} |" for number in range(62))
    text = full[:2000]
    message = sent(server, await bot.port.send(place(ada.dm()), text, formatted=True))
    assert len(message.content) <= 2000


async def test_a_reply(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """The reply refers to its question and notifies no one, not even its author."""
    asked = await ada.says("why?", channel=server.general)
    message = sent(server, await bot.port.send(place(server.general), "because", reply_to=str(asked.id)))
    assert message.reply_to is asked
    assert not server.pings()


async def test_a_reply_to_what_is_gone_is_sent_all_the_same(
    bot: Bot, ada: Person, server: FakeDiscord
) -> None:
    """Deleted, or made up."""
    asked = await ada.says("why?")
    await ada.deletes(asked)
    for reply_to in (str(asked.id), "12345"):
        message = sent(server, await bot.port.send(place(ada.dm()), "because", reply_to=reply_to))
        assert (message.content, message.reply_to) == ("because", None)
    assert not server.refusals, "Discord was asked to overlook it"


async def test_a_reply_that_is_not_permitted_becomes_a_message(
    bot: Bot, ada: Person, server: FakeDiscord
) -> None:
    """Without the right to read the history one may write but not reply."""
    asked = await ada.says("why?", channel=server.general)
    server.general.forbid(server.bot, May.READ_HISTORY)
    message = sent(server, await bot.port.send(place(server.general), "because", reply_to=str(asked.id)))
    assert (message.content, message.reply_to) == ("because", None)


async def test_an_edit_replaces_text_and_buttons(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """An edit without buttons removes them; an edit without changes succeeds."""
    here = place(ada.dm())
    message = sent(server, await bot.port.send(here, "May I?", buttons=[Button("Once", "1")]))
    await bot.port.edit(here, str(message.id), "May I?", buttons=[Button("Yes", "2"), Button("No", "3")])
    assert message.labels == ["Yes", "No"]
    for _ in range(2):
        await bot.port.edit(here, str(message.id), "Allowed.")
        assert (message.content, message.labels) == ("Allowed.", [])


async def test_deleting(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Deleting a deleted message succeeds."""
    here = place(ada.dm())
    message = sent(server, await bot.port.send(here, "working..."))
    await bot.port.delete(here, str(message.id))
    await bot.port.delete(here, str(message.id))
    assert message.deleted


async def test_typing(bot: Bot, ada: Person) -> None:
    """One request shows it for some seconds."""
    await bot.port.typing(place(ada.dm()))
    assert len(ada.dm().typings) == 1


async def test_threads_are_written_to(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Not the channel they belong to."""
    thread = await ada.opens_thread("release", channel=server.general)
    message = sent(server, await bot.port.send(place(thread), "here"))
    assert message.channel is thread


async def test_a_direct_chat_is_opened(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """With a person who has never written."""
    where = await bot.port.direct(str(ada.id))
    assert where == place(ada.dm())
    with pytest.raises(Undeliverable):
        await bot.port.direct("4711")


async def test_a_file(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """With its caption."""
    message = sent(server, await bot.port.send_file(place(ada.dm()), "a.csv", b"1,2", caption="the data"))
    [file] = message.attachments
    assert (message.content, file.filename, file.data) == ("the data", "a.csv", b"1,2")


async def test_a_file_name_cannot_break_out(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Neither out of its folder nor out of the request, and it pings nobody."""
    name = '../@everyone"\r\nX-Evil: 1'
    message = sent(server, await bot.port.send_file(place(server.general), name, b"x"))
    [file] = message.attachments
    assert not set('/"\r\n') & set(file.filename)
    assert not server.pings()


async def test_nobody_is_pinged(bot: Bot, ada: Person, ben: Person, server: FakeDiscord) -> None:
    """In the first message, in the second, in an edit, in a caption."""
    role = server.guild.add_role("crew", mentionable=True)
    text = f"@everyone @here {role.mention} {ben.mention}"
    here = place(server.general)
    asked = await ada.says("go", channel=server.general)
    first = await bot.port.send(here, text, reply_to=str(asked.id))
    await bot.port.send(here, text, formatted=True)
    await bot.port.edit(here, first, f"{text} again")
    await bot.port.send_file(here, "a.txt", b"x", caption=text)
    assert len(server.general.answers) == 3
    assert not server.pings()
    bodies = [call.json for call in server.calls if call.verb in ("send_message", "edit_message")]
    assert all(body["allowed_mentions"]["parse"] == [] for body in bodies)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (404, 10003, Undeliverable),
        (404, 10008, MessageGone),
        (403, 50001, Undeliverable),
        (403, 50005, MessageGone),
        (403, 50007, Undeliverable),
        (403, 50013, Undeliverable),
        (400, 30046, MessageGone),
        (400, 50006, ContentRefused),
        (400, 50035, ContentRefused),
        (400, 160005, Undeliverable),
        (400, 200000, ContentRefused),
        (413, 40005, ContentRefused),
        (401, 0, Unreachable),
        (503, 0, Unreachable),
    ],
)
async def test_refusals_have_a_meaning(
    bot: Bot, ada: Person, server: FakeDiscord, status: int, code: int, expected: type[DeliveryError]
) -> None:
    """By what is to be done about them, the same for every verb."""
    here = place(ada.dm())
    message_id = await bot.port.send(here, "one")
    for verb in ("send_message", "edit_message"):
        server.fail_next(verb, Fault.error(status, code), times=3)
    with pytest.raises(expected):
        await bot.port.send(here, "two")
    with pytest.raises(expected):
        await bot.port.edit(here, message_id, "three")


async def test_a_long_pause_is_told(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """The library waits for short limits; a limit of minutes must not block the caller."""
    server.fail_next("send_message", Fault.rate_limited(139.5))
    with pytest.raises(SlowDown) as caught:
        await bot.port.send(place(ada.dm()), "hello")
    assert caught.value.retry_after == 139.5


async def test_a_short_pause_is_sat_out(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """The text arrives once."""
    server.fail_next("send_message", Fault.rate_limited(0.05))
    await bot.port.send(place(ada.dm()), "hello")
    assert ada.dm().texts == ["hello"]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_lost_answer_does_not_double_the_message(
    bot: Bot, ada: Person, server: FakeDiscord, times: int
) -> None:
    """It may have arrived; sent again at once, Discord recognises it. Files as well."""
    here = place(ada.dm())
    server.fail_next("send_message", Fault.lose_answer(), times=times)
    text = await bot.port.send(here, "hello")
    server.fail_next("send_message", Fault.lose_answer(), times=times)
    file = await bot.port.send_file(here, "a.csv", b"1,2", caption="the data")
    assert ada.dm().texts == ["hello", "the data"]
    assert [str(message.id) for message in ada.dm().answers] == [text, file]
    assert [upload.data for upload in sent(server, file).attachments] == [b"1,2"]


@pytest.mark.parametrize(
    "then",
    [Fault.lose_answer(), Fault.error(401), Fault.rate_limited(139.5)],
    ids=["no answer either", "a refusal to listen", "a long pause"],
)
async def test_a_doubt_remains(bot: Bot, ada: Person, server: FakeDiscord, then: Fault) -> None:
    """The first attempt may have arrived, whatever the later ones return."""
    server.fail_next("send_message", Fault.lose_answer())
    server.fail_next("send_message", then, times=2)
    with pytest.raises(Unreachable) as caught:
        await bot.port.send(place(ada.dm()), "hello")
    assert caught.value.maybe_done
    assert ada.dm().texts == ["hello"]


@pytest.mark.parametrize("body", [True, {}, [], "sent", {"id": "x"}], ids=str)
async def test_an_unreadable_response_may_mean_sent(
    bot: Bot, ada: Person, server: FakeDiscord, body: object
) -> None:
    """Discord accepted the request: the message may exist, and is not sent a second time."""
    for send in (
        lambda: bot.port.send(place(ada.dm()), "hi"),
        lambda: bot.port.send_file(place(ada.dm()), "a.txt", b"a"),
    ):
        before = len(ada.dm().messages)
        server.fail_next("send_message", Fault.odd(body), times=3)
        with pytest.raises(Unreachable) as caught:
            await send()
        assert caught.value.maybe_done
        assert len(ada.dm().messages) == before + 1


async def test_a_readable_response_to_the_second_try_settles_the_doubt(
    bot: Bot, ada: Person, server: FakeDiscord
) -> None:
    """The nonce makes Discord return the message that the first request created."""
    server.fail_next("send_message", Fault.odd(True))
    message = sent(server, await bot.port.send(place(ada.dm()), "hi"))
    assert ada.dm().messages == [message]


@pytest.mark.parametrize("body", [True, {}, [], "edited"], ids=str)
async def test_an_unreadable_response_to_an_edit(
    bot: Bot, ada: Person, server: FakeDiscord, body: object
) -> None:
    """An edit counts as done or is tried again; nothing else escapes."""
    message = sent(server, await bot.port.send(place(ada.dm()), "hi"))
    server.fail_next("edit_message", Fault.odd(body))
    with suppress(Unreachable):
        await bot.port.edit(place(ada.dm()), str(message.id), "ho")
    assert message.content == "ho"


async def test_the_same_words_can_be_said_twice(bot: Bot, ada: Person) -> None:
    """What surely arrived is not recognised: two messages are two."""
    for _ in range(2):
        await bot.port.send(place(ada.dm()), "Done.")
    assert ada.dm().texts == ["Done.", "Done."]


@pytest.mark.parametrize("text", ["x" * 2001, "", "   "])
async def test_discord_judges_the_text(bot: Bot, ada: Person, text: str) -> None:
    """Too long or empty: sending it again is useless."""
    with pytest.raises(ContentRefused):
        await bot.port.send(place(ada.dm()), text)


async def test_the_limit_counts_characters(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """An emoji is one of them, though it is two units elsewhere."""
    text = "😀" * bot.port.limit
    assert bot.port.measure(text) == bot.port.limit == 2000
    assert sent(server, await bot.port.send(place(ada.dm()), text)).content == text


async def test_a_file_at_the_limit(bot: Bot, ada: Person) -> None:
    """What the port says it takes is taken, and not a byte more."""
    await bot.port.send_file(place(ada.dm()), "a.bin", bytes(bot.port.file_limit))
    with pytest.raises(ContentRefused):
        await bot.port.send_file(place(ada.dm()), "a.bin", bytes(bot.port.file_limit + 1))


async def test_a_channel_out_of_sight(bot: Bot, server: FakeDiscord) -> None:
    """Hidden from the bot, or not there at all."""
    server.general.forbid(server.bot, May.VIEW)
    for hidden in (place(server.general), Place("123", "", "group", "456")):
        with pytest.raises(Undeliverable):
            await bot.port.send(hidden, "hello")
        with pytest.raises(Undeliverable):
            await bot.port.typing(hidden)


async def test_a_person_who_takes_no_messages(bot: Bot, ada: Person) -> None:
    """Blocked, or direct messages switched off."""
    ada.refuses_dms = True
    with pytest.raises(Undeliverable):
        await bot.port.send(place(ada.dm()), "hello")


async def test_nothing_is_sent_without_a_connection(server: FakeDiscord, ada: Person) -> None:
    """Before the start, and it has surely not been done."""
    port = Bot(server).port
    with pytest.raises(Unreachable) as caught:
        await port.send(place(ada.dm()), "hello")
    assert not caught.value.maybe_done


async def test_an_archived_thread(bot: Bot, server: FakeDiscord, ada: Person) -> None:
    """Its messages cannot be edited; a new one takes it out of the archive."""
    thread = await ada.opens_thread("release", channel=server.general)
    message = await bot.port.send(place(thread), "one")
    thread.archived = True
    with pytest.raises(MessageGone):
        await bot.port.edit(place(thread), message, "two")
    await bot.port.send(place(thread), "two")
    assert not thread.archived


async def test_where_no_files_may_be_sent(bot: Bot, server: FakeDiscord) -> None:
    """The file is refused, not the place: words can still be sent."""
    server.general.forbid(server.bot, May.ATTACH_FILES)
    with pytest.raises(ContentRefused, match="may not send files here"):
        await bot.port.send_file(place(server.general), "a.csv", b"1,2")
    await bot.port.send(place(server.general), "then without")


async def test_half_a_character_is_not_sent(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """A stream may be cut in the middle of an emoji; Discord refuses a message with half of one."""
    here, half = place(ada.dm()), "half \ud83d"
    message = sent(server, await bot.port.send(here, half, buttons=[Button(half, "1")]))
    assert (message.content, message.labels) == ("half \ufffd", ["half \ufffd"])
    await bot.port.edit(here, str(message.id), f"{half} more", formatted=True)
    assert message.content == "half \ufffd more"
    file = sent(server, await bot.port.send_file(here, f"{half}.txt", b"x", caption=half))
    assert file.content == "half \ufffd"


async def test_threads_have_a_pace_of_their_own(bot: Bot, ada: Person, server: FakeDiscord) -> None:
    """Discord counts requests by channel, and a thread is one."""
    thread = await ada.opens_thread("release", channel=server.general)
    keys = {bot.port.pace_key(place(channel)) for channel in (thread, server.general, ada.dm())}
    assert keys == {str(thread.id), str(server.general.id), str(ada.dm().id)}
