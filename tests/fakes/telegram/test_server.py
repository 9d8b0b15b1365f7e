"""What people see and do in the loopback Telegram, with the real SDK as the bot."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from telegram import (
    Bot,
    BotCommand,
    BotCommandScopeAllGroupChats,
    ReplyParameters,
)
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Forbidden,
    NetworkError,
)

from tests.fakes.telegram.sdk import connected, entity, keyboard, newcomer, picture
from tests.fakes.telegram.server import FakeTelegram, Person

NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup "
    "are exactly the same as a current content and reply markup of the message"
)


@pytest.fixture(autouse=True)
def durations_are_timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK warns about its own older habit, even inside RetryAfter."""
    monkeypatch.setenv("PTB_TIMEDELTA", "true")


@pytest.fixture
async def server() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def bot(server: FakeTelegram) -> AsyncIterator[Bot]:
    async with connected(server) as bot:
        yield bot


@pytest.fixture
def ada(server: FakeTelegram) -> Person:
    return newcomer(server)


async def test_an_edit_must_change_something(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """Text, entities and buttons as they were: refused, also when only space was added at the end."""
    sent = await bot.send_message(ada.id, "Hello", reply_markup=keyboard("Go", callback_data="go"))

    for text in ("Hello", "Hello \n"):
        with pytest.raises(BadRequest, match="not modified"):
            await bot.edit_message_text(
                text, ada.id, sent.message_id, reply_markup=keyboard("Go", callback_data="go")
            )
        assert server.calls[-1].error == NOT_MODIFIED
    await bot.edit_message_text("Hello", ada.id, sent.message_id)
    with pytest.raises(BadRequest, match="not modified"):
        await bot.edit_message_reply_markup(ada.id, sent.message_id)
    await bot.edit_message_text("Hello", ada.id, sent.message_id, entities=[entity("bold", 0, 5)])

    message = ada.chat.from_bot[0]
    assert (message.edited, message.buttons, message.versions) == (True, [], ["Hello"] * 3)


async def test_the_chat_shows_what_a_person_sees(bot: Bot, ada: Person) -> None:
    """Edited in place, deleted gone, everything remembered in the history."""
    first = await bot.send_message(ada.id, "one", reply_parameters=ReplyParameters(1))
    second = await bot.send_message(ada.id, "two")
    await bot.edit_message_text("one and a half", ada.id, first.message_id)
    await bot.delete_message(ada.id, second.message_id)
    await bot.send_chat_action(ada.id, "typing")
    await bot.set_message_reaction(ada.id, 1, "👀")

    assert ada.chat.texts == ["one and a half"]
    assert ada.chat.from_bot[0].reply_to is ada.chat.messages[0]
    assert [(seen.what, seen.text) for seen in ada.chat.history[1:]] == [
        ("sent", "one"), ("sent", "two"), ("edited", "one and a half"), ("deleted", "two"),
    ]  # fmt: skip
    assert [action.action for action in ada.chat.actions] == ["typing"]
    assert ada.chat.messages[0].reactions == {bot.id: ["👀"]}
    with pytest.raises(BadRequest, match="Message to edit not found"):
        await bot.edit_message_text("three", ada.id, second.message_id)
    sent = await bot.send_message(
        ada.id, "x", reply_parameters=ReplyParameters(second.message_id, allow_sending_without_reply=True)
    )
    assert sent.reply_to_message is None


async def test_a_photo_has_a_caption_and_no_text(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """Its caption is edited as a caption only."""
    sent = await bot.send_photo(ada.id, picture(), caption="teal")
    with pytest.raises(BadRequest, match="There is no text in the message to edit"):
        await bot.edit_message_text("green", ada.id, sent.message_id)
    await bot.edit_message_caption(ada.id, sent.message_id, caption="green")

    assert ada.chat.texts == ["green"]
    assert (sent.photo[-1].width, sent.photo[-1].height) == (32, 16)


async def test_a_button_is_pressed_and_answered_once(bot: Bot, ada: Person) -> None:
    """The query carries the data and the message; a second answer and a late one are refused."""
    sent = await bot.send_message(ada.id, "Sure?", reply_markup=keyboard("Yes", callback_data="yes:1"))
    pressed = await ada.presses(ada.chat.from_bot[0], "Yes")
    late = await ada.presses(ada.chat.from_bot[0], "Yes")
    late.expire()
    query = (await bot.get_updates())[0].callback_query
    assert query and query.message and query.data == "yes:1"
    assert (query.id, query.from_user.id, query.message.message_id) == (pressed.id, ada.id, sent.message_id)

    await query.answer("Thanks")
    assert (await pressed.answered())["text"] == "Thanks"
    for query_id in (pressed.id, late.id):
        with pytest.raises(BadRequest, match="Query is too old"):
            await bot.answer_callback_query(query_id)


async def test_commands_by_scope_and_language(bot: Bot, ada: Person) -> None:
    """Each scope and language has a list of its own."""
    english, german = [BotCommand("help", "Help")], [BotCommand("help", "Hilfe")]
    await bot.set_my_commands(english)
    await bot.set_my_commands(german, language_code="de")
    await bot.set_my_commands([("stop", "Stop")], scope=BotCommandScopeAllGroupChats())
    await bot.delete_my_commands(scope=BotCommandScopeAllGroupChats())

    assert list(await bot.get_my_commands()) == english
    assert list(await bot.get_my_commands(language_code="de")) == german
    assert list(await bot.get_my_commands(scope=BotCommandScopeAllGroupChats())) == []


async def test_files_go_both_ways(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """A document and a photo are downloaded by their ids; what a bot sends is there whole."""
    await ada.sends_document(b"a,b\n1,2\n", "table.csv", "the table")
    await ada.sends_photo(picture())
    await ada.sends_voice(b"OggS")
    document, photo, voice = [u.message for u in await bot.get_updates() if u.message]
    assert document.document and document.caption == "the table"
    assert (document.document.file_name, document.document.mime_type) == ("table.csv", "text/csv")
    table = await (await document.document.get_file()).download_as_bytearray()
    image = await (await photo.photo[-1].get_file()).download_as_bytearray()
    assert (bytes(table), bytes(image)) == (b"a,b\n1,2\n", picture())
    assert voice.voice and voice.voice.duration == timedelta(seconds=3)

    sent = await bot.send_document(ada.id, io.BytesIO(b"report"), filename="report.txt", caption="Here")
    assert sent.document
    await bot.send_document(ada.id, sent.document.file_id)
    files = [message.attachment.file for message in ada.chat.from_bot if message.attachment]
    assert [(file.name, file.data) for file in files] == [("report.txt", b"report")] * 2


async def test_files_too_large(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """20 MB down and 50 MB up."""
    await ada.sends_document(b"", "film.mkv", size=20 * 2**20 + 1)
    message = (await bot.get_updates())[0].message
    assert message and message.document
    with pytest.raises(BadRequest, match="File is too big"):
        await message.document.get_file()
    with pytest.raises(NetworkError, match="Request Entity Too Large"):
        await bot.send_document(ada.id, bytes(50 * 2**20 + 1), write_timeout=30, read_timeout=30)


async def test_an_album_and_a_paste_are_several_messages(bot: Bot, ada: Person) -> None:
    """Photos share a group id with one caption; a long text arrives in pieces that join to the whole."""
    long = "word " * 2000
    await ada.sends_album([picture(), picture()], "both")
    await ada.pastes(long)
    messages = [u.message for u in await bot.get_updates() if u.message]

    assert [message.caption for message in messages[:2]] == ["both", None]
    assert messages[0].media_group_id == messages[1].media_group_id != None  # noqa: E711
    pieces = [message.text or "" for message in messages[2:]]
    assert len(pieces) == 3 and " ".join(pieces) == long.strip()


async def test_replies_quotes_edits_and_mentions(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """What a person's client adds to a message reaches the bot."""
    bob = server.person(first_name="Bob")
    await bot.send_message(ada.id, "The sky is blue.")
    asked = await ada.says(
        "Bob, why?", reply_to=ada.chat.from_bot[0], quote="blue", mentions={"Bob": bob.user}
    )
    await ada.edits(asked, "Why?")
    new, edited = await bot.get_updates()

    assert new.message and new.message.reply_to_message and new.message.quote
    assert (new.message.reply_to_message.text, new.message.quote.text) == ("The sky is blue.", "blue")
    assert new.message.quote.position == 11
    assert new.message.entities[0].user and new.message.entities[0].user.id == bob.id
    assert edited.edited_message and edited.edited_message.message_id == asked.id
    assert edited.edited_message.edit_date


async def test_topics_are_places_of_their_own(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """A forum's messages name their topic; the General topic has no number that could be sent to."""
    forum = server.supergroup("Team", ada, forum=True)
    billing = forum.topic("Billing")
    await ada.says("Hi", chat=forum, thread=billing)
    await ada.says("Hi all", chat=forum)
    inside, general = [u.message for u in await bot.get_updates() if u.message]

    assert (inside.message_thread_id, inside.is_topic_message) == (billing.id, True)
    assert inside.reply_to_message and inside.reply_to_message.forum_topic_created
    assert (general.message_thread_id, general.is_topic_message) == (None, None)
    sent = await bot.send_message(forum.id, "Hello", message_thread_id=billing.id)
    reply = await inside.reply_text("Hello you", do_quote=True)
    assert sent.message_thread_id == reply.message_thread_id == billing.id
    for wrong in (1, 999):
        with pytest.raises(BadRequest, match="Message thread not found"):
            await bot.send_message(forum.id, "x", message_thread_id=wrong)
    await bot.send_chat_action(forum.id, "typing", message_thread_id=1)
    forum.closed_topics.add(billing.id)
    with pytest.raises(BadRequest, match="Topic_closed"):
        await bot.send_message(forum.id, "x", message_thread_id=billing.id)


async def test_a_reply_in_a_supergroup_names_a_thread_that_is_no_topic(
    server: FakeTelegram, bot: Bot, ada: Person
) -> None:
    """message_thread_id alone does not mean a topic."""
    team = server.supergroup("Team", ada)
    first = await ada.says("Hi", chat=team)
    await ada.says("Anybody?", chat=team, reply_to=first)
    message = (await bot.get_updates())[-1].message

    assert message and (message.message_thread_id, message.is_topic_message) == (first.id, None)


async def test_privacy_mode_hides_what_is_not_for_the_bot() -> None:
    """In a group: commands, mentions and replies to the bot; an administrator reads everything."""
    async with FakeTelegram(reads_everything=False) as server, connected(server) as bot:
        ada = server.person()
        team = server.supergroup("Team", ada)
        spoken = (await bot.send_message(team.id, "I am here")).message_id
        own = team.find(spoken)
        await ada.says("chatter", chat=team)
        await ada.says("/help", chat=team)
        await ada.says("/help@other_bot", chat=team)
        await ada.says("hey @Hermes_Bot", chat=team)
        await ada.says("you", chat=team, reply_to=own)
        server.add_to_group(team, server.bot, "administrator")
        await ada.says("all of it", chat=team)

        heard = [u.message.text for u in await bot.get_updates() if u.message]
    assert heard == ["/help", "hey @Hermes_Bot", "you", "all of it"]


async def test_places_a_bot_cannot_go(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """Blocked, never met, kicked, left and moved away are different sentences."""
    stranger = server.person(first_name="Eve")
    kicked, left, moved = [server.group(title, ada) for title in ("A", "B", "C")]
    server.kick(kicked, server.bot)
    await bot.leave_chat(left.id)
    new = server.upgraded(moved)
    await ada.blocks()

    for chat_id, sentence in {
        ada.id: "bot was blocked by the user",
        stranger.id: "bot can't initiate conversation with a user",
        kicked.id: "bot was kicked from the group chat",
        left.id: "bot is not a member of the group chat",
    }.items():
        with pytest.raises(Forbidden, match=sentence):
            await bot.send_message(chat_id, "x")
    with pytest.raises(ChatMigrated) as gone:
        await bot.send_message(moved.id, "x")
    assert gone.value.new_chat_id == new.id
    await bot.send_message(new.id, "here")
    await ada.unblocks()
    await bot.send_message(ada.id, "welcome back")
    standings = [u.my_chat_member for u in await bot.get_updates() if u.my_chat_member]
    assert [change.new_chat_member.status for change in standings[-2:]] == ["kicked", "member"]


async def test_members_and_chats_can_be_asked_for(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """The founder, a member, the bot, and a person outside the group."""
    bob, eve = server.person(first_name="Bob"), server.person(first_name="Eve")
    team = server.supergroup("Team", ada, bob, forum=True)
    server.add_to_group(team, server.bot, "administrator")

    standings = [(await bot.get_chat_member(team.id, who)).status for who in (ada.id, bob.id, bot.id, eve.id)]
    assert standings == ["creator", "member", "administrator", "left"]
    chat = await bot.get_chat(team.id)
    assert (chat.type, chat.title, chat.is_forum) == ("supergroup", "Team", True)


async def test_a_bot_deletes_others_messages_only_where_it_may(
    server: FakeTelegram, bot: Bot, ada: Person
) -> None:
    """In a group only as administrator, and nothing older than two days."""
    team = server.group("Team", ada)
    message, old = await ada.says("Hi", chat=team), await ada.says("Old", chat=team)
    old.date -= 49 * 3600
    with pytest.raises(BadRequest, match="Message can't be deleted"):
        await bot.delete_message(team.id, message.id)
    server.add_to_group(team, server.bot, "administrator")
    await bot.delete_message(team.id, message.id)
    with pytest.raises(BadRequest, match="Message can't be deleted for everyone"):
        await bot.delete_message(team.id, old.id)

    assert [message.text for message in team.messages] == ["Old"]


async def test_two_bots_have_their_own_chats_and_updates(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """The same person, two private chats; in a group both hear people and neither hears the other."""
    second = server.add_bot("42:second", "second_bot")
    async with connected(server, second.token) as other:
        await ada.says("for the second", chat=ada.chat_with(second))
        team = server.group("Team", ada, bots=[server.bot, second])
        await ada.says("for both", chat=team)
        await other.send_message(team.id, "I heard you")
        heard = [[u.message.text for u in await one.get_updates() if u.message] for one in (bot, other)]

    assert heard == [["for both"], ["for the second", "for both"]]
    assert ada.chat.messages[-1].text == "Hi"


async def test_waiting_for_the_answer(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """A waiter wakes when the message comes or changes, and says what was there when nothing came."""
    asked = await ada.says("How much?")
    answer = asyncio.ensure_future(ada.chat.answer_after(asked))
    done = asyncio.ensure_future(ada.chat.message(lambda message: "done" in message.text))
    sent = await bot.send_message(ada.id, "counting")
    assert (await answer).text == "counting"
    await bot.edit_message_text("42, done", ada.id, sent.message_id)
    shown = await done
    gone = asyncio.ensure_future(ada.chat.gone(shown))
    await bot.delete_message(ada.id, sent.message_id)
    await gone

    with pytest.raises(AssertionError, match="How much"):
        await ada.chat.message(lambda message: True, timeout=0.01)
