"""What the bot shows in a chat: text, formatting, replies, buttons, files, typing."""

from __future__ import annotations

import pytest

from gateway.chat.errors import ContentRefused
from gateway.text.unicode import utf16_length
from gateway.types import Button, Place
from tests.fakes.telegram.server import Fault, Message
from tests.support.telegram_harness import TelegramHarness


def _shown(harness: TelegramHarness) -> Message:
    return harness.ada.chat.from_bot[-1]


@pytest.fixture(autouse=True)
async def acquainted(harness: TelegramHarness) -> None:
    """A bot cannot write to a person who never wrote to it."""
    await harness.says("hello")


async def test_a_plain_text(harness: TelegramHarness) -> None:
    """As it is, asterisks and all, without a preview of its links; its id comes back."""
    sent = await harness.port.send(harness.direct, "**2 * 2** https://example.org")
    assert (_shown(harness).text, _shown(harness).entities) == ("**2 * 2** https://example.org", [])
    assert sent == str(_shown(harness).id)
    (call,) = harness.server.calls_of("sendMessage")
    assert call.params["link_preview_options"] == {"is_disabled": True}


async def test_formatted_text(harness: TelegramHarness) -> None:
    """Markdown becomes entities."""
    await harness.port.send(harness.direct, "this is **bold**", formatted=True)
    assert _shown(harness).text == "this is bold"
    assert [(one["type"], one["offset"], one["length"]) for one in _shown(harness).entities] == [
        ("bold", 8, 4)
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        "Bad Request: can't parse entities: entity beginning at UTF-16 offset 0 overlaps another one",
        "Bad Request: entity URL 'x' is invalid: Wrong HTTP URL",
    ],
)
async def test_formatting_that_is_refused_is_shown_plain(harness: TelegramHarness, refusal: str) -> None:
    """At once, and once only; for a new message and for an edit."""
    harness.server.fail_next("sendMessage", Fault.error(400, refusal))
    sent = await harness.port.send(harness.direct, "**bold**", formatted=True)
    assert (_shown(harness).text, _shown(harness).entities) == ("**bold**", [])
    harness.server.fail_next("editMessageText", Fault.error(400, refusal))
    await harness.port.edit(harness.direct, sent, "**bolder**", formatted=True)
    assert (_shown(harness).text, _shown(harness).entities) == ("**bolder**", [])


async def test_what_is_refused_plain_too_is_an_error(harness: TelegramHarness) -> None:
    """It does not try for ever."""
    with pytest.raises(ContentRefused, match="too long"):
        await harness.port.send(harness.direct, "x" * 4097, formatted=True)
    assert len(harness.server.calls_of("sendMessage")) == 1


@pytest.mark.parametrize("formatted", [False, True])
async def test_half_an_emoji(harness: TelegramHarness, formatted: bool) -> None:
    """Nobody could send it; the rest of the text is sent."""
    await harness.port.send(harness.direct, "so far \ud83d", formatted=formatted)
    assert _shown(harness).text == "so far \ufffd"


@pytest.mark.parametrize("formatted", [False, True])
async def test_a_name_notifies_nobody(harness: TelegramHarness, formatted: bool) -> None:
    """Telegram finds names where no link stands yet; the text stays as it is and leads where it would have led."""
    await harness.port.send(
        harness.direct, "😀 ask @grace_h, or me@ada.org, x.org/@ada_l", formatted=formatted
    )
    assert _shown(harness).text == "😀 ask @grace_h, or me@ada.org, x.org/@ada_l"
    (link,) = _shown(harness).entities
    assert (link["type"], link["offset"], link["length"]) == ("text_link", 7, 8)
    assert link["url"].rstrip("/") == "https://t.me/grace_h"


async def test_names_in_code_and_in_links_are_left_alone(harness: TelegramHarness) -> None:
    """Telegram finds none there; in bold it does."""
    await harness.port.send(
        harness.direct, "`@property` [@grace_h](https://example.org/) **@ada_l**", formatted=True
    )
    kinds = [(one["type"], one["offset"]) for one in _shown(harness).entities]
    assert sorted(kinds) == [("bold", 19), ("code", 0), ("text_link", 10), ("text_link", 19)]


async def test_topics_of_a_group_share_its_pace(harness: TelegramHarness) -> None:
    """Telegram counts by chat."""
    one, other = Place("-100", "7", "group", "-100"), Place("-100", "", "group", "-100")
    assert harness.port.pace_key(one) == harness.port.pace_key(other) != harness.port.pace_key(harness.direct)


async def test_the_limit_is_in_utf16_units(harness: TelegramHarness) -> None:
    """2048 emoji fill a message."""
    assert harness.port.measure is utf16_length
    await harness.port.send(harness.direct, "😀" * (harness.port.limit // 2))
    assert len(_shown(harness).text) == 2048


async def test_a_reply(harness: TelegramHarness) -> None:
    """As a reply; without the reply if the question is deleted."""
    asked = await harness.ada.says("a question")
    await harness.port.send(harness.direct, "an answer", reply_to=str(asked.id))
    assert _shown(harness).reply_to is asked
    await harness.ada.deletes(asked)
    await harness.port.send(harness.direct, "another answer", reply_to=str(asked.id))
    assert (_shown(harness).text, _shown(harness).reply_to) == ("another answer", None)


async def test_a_topic(harness: TelegramHarness) -> None:
    """Text, typing and files go where the question was."""
    team = harness.server.supergroup("Team", harness.ada, forum=True)
    place = (await harness.says("hi", chat=team, thread=team.topic("Billing"))).place
    await harness.port.send(place, "in the topic")
    await harness.port.send_file(place, "a.txt", b"text")
    await harness.port.typing(place)
    assert [message.thread for message in team.from_bot] == [int(place.thread_id)] * 2
    assert [(action.action, action.thread) for action in team.actions] == [("typing", int(place.thread_id))]


async def test_silence(harness: TelegramHarness) -> None:
    """A message that rings no bell, only when asked for."""
    await harness.port.send(harness.direct, "psst", silent=True)
    assert _shown(harness).silent
    await harness.port.send(harness.direct, "hey")
    assert not _shown(harness).silent


async def test_an_edit(harness: TelegramHarness) -> None:
    """New text, new buttons; without buttons the old ones go."""
    sent = await harness.port.send(harness.direct, "first", buttons=[Button("Yes", "y")])
    await harness.port.edit(harness.direct, sent, "**second**", formatted=True, buttons=[Button("No", "n")])
    assert (_shown(harness).text, _shown(harness).buttons) == ("second", ["No"])
    await harness.port.edit(harness.direct, sent, "third")
    assert (_shown(harness).text, _shown(harness).buttons) == ("third", [])


async def test_an_edit_that_changes_nothing(harness: TelegramHarness) -> None:
    """Telegram calls it an error; it is none."""
    sent = await harness.port.send(harness.direct, "same")
    await harness.port.edit(harness.direct, sent, "same")
    assert "not modified" in harness.server.refusals[-1]


async def test_a_deletion(harness: TelegramHarness) -> None:
    """Deleting a message twice succeeds."""
    sent = await harness.port.send(harness.direct, "status")
    await harness.port.delete(harness.direct, sent)
    await harness.port.delete(harness.direct, sent)
    assert harness.ada.chat.from_bot == []


@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        (("Once", "Always", "Deny"), [["Once", "Always", "Deny"]]),
        (("Once", "This conversation", "Deny"), [["Once"], ["This conversation"], ["Deny"]]),
        (("1", "2", "3", "4"), [["1"], ["2"], ["3"], ["4"]]),
    ],
)
async def test_buttons(harness: TelegramHarness, labels: tuple[str, ...], rows: list[list[str]]) -> None:
    """In one row if few and short, else one below the other."""
    await harness.port.send(harness.direct, "May I?", buttons=[Button(label, label) for label in labels])
    assert [[button["text"] for button in row] for row in _shown(harness).keyboard] == rows


async def test_a_press_reaches_the_desk_and_is_answered(harness: TelegramHarness) -> None:
    """Who, where, which message and what; the receiver's sentence is shown."""
    sent = await harness.port.send(harness.direct, "May I?", buttons=[Button("Yes", "approve:1")])
    query = await harness.ada.presses(_shown(harness), "Yes")
    assert (await query.answered())["text"] == "Done."
    (press,) = harness.receiver.presses
    assert (press.data, press.message_id, press.place) == ("approve:1", sent, harness.direct)
    assert press.author.id == str(harness.ada.id)


async def test_a_press_in_a_topic_by_somebody_else(harness: TelegramHarness) -> None:
    """The one who pressed is told of, not the one who was asked."""
    team = harness.server.supergroup("Team", harness.ada, forum=True)
    place = (await harness.says("hi", chat=team, thread=team.topic("Billing"))).place
    await harness.port.send(place, "May I?", buttons=[Button("Yes", "approve:1")])
    bob = harness.server.person(first_name="Bob")
    await (await bob.presses(team.from_bot[-1], "Yes")).answered()
    (press,) = harness.receiver.presses
    assert (press.author.id, press.place) == (str(bob.id), place)


async def test_a_long_answer_to_a_press_is_cut(harness: TelegramHarness) -> None:
    """Telegram shows 200 units."""
    harness.receiver.answer = "😀" * 150
    await harness.port.send(harness.direct, "May I?", buttons=[Button("Yes", "y")])
    answer = await (await harness.ada.presses(_shown(harness), "Yes")).answered()
    assert answer["text"] == "😀" * 99 + "…"


async def test_a_press_is_answered_even_if_the_desk_fails(harness: TelegramHarness) -> None:
    """No button spins for ever, and the next press works."""
    await harness.port.send(harness.direct, "May I?", buttons=[Button("Yes", "explode"), Button("No", "n")])
    answer = await (await harness.ada.presses(_shown(harness), "Yes")).answered()
    assert answer["text"] == "That did not work."
    assert (await (await harness.ada.presses(_shown(harness), "No")).answered())["text"] == "Done."


async def test_a_press_that_is_too_old_to_be_answered(harness: TelegramHarness) -> None:
    """It reaches the receiver; that the answer is refused disturbs nothing."""
    await harness.port.send(harness.direct, "May I?", buttons=[Button("Yes", "y")])
    harness.server.hold_updates()
    late = await harness.ada.presses(_shown(harness), "Yes")
    late.expire()
    harness.server.release_updates()
    await harness.server.called("answerCallbackQuery")
    assert (await (await harness.ada.presses(_shown(harness), "Yes")).answered())["text"] == "Done."


async def test_typing(harness: TelegramHarness) -> None:
    """Shown in the chat."""
    await harness.port.typing(harness.direct)
    assert [action.action for action in harness.ada.chat.actions] == ["typing"]


async def test_a_file(harness: TelegramHarness) -> None:
    """With its name and caption; its id comes back."""
    sent = await harness.port.send_file(harness.direct, "notes.md", b"# Notes", caption="as you asked")
    shown = _shown(harness)
    assert shown.attachment is not None
    assert (shown.attachment.file.name, shown.attachment.file.data) == ("notes.md", b"# Notes")
    assert (shown.text, str(shown.id)) == ("as you asked", sent)


async def test_a_caption_that_is_too_long_goes_first(harness: TelegramHarness) -> None:
    """As a message of its own: nothing of it is lost."""
    await harness.port.send_file(harness.direct, "a.txt", b"a", caption="c" * 1025)
    text, file = harness.ada.chat.from_bot
    assert (text.text, file.text) == ("c" * 1025, "")


async def test_a_file_that_is_too_large_is_not_sent(harness: TelegramHarness) -> None:
    """50 MB are known beforehand; an empty one is refused by Telegram."""
    with pytest.raises(ContentRefused, match="50 MB"):
        await harness.port.send_file(harness.direct, "a.bin", bytes(harness.port.file_limit + 1))
    assert not harness.server.calls_of("sendDocument")
    with pytest.raises(ContentRefused, match="non-empty"):
        await harness.port.send_file(harness.direct, "a.bin", b"")


async def test_the_pace_of_edits(harness: TelegramHarness) -> None:
    """A group allows 20 a minute, a direct chat about one a second."""
    group = Place("-1", kind="group", group_id="-1")
    assert harness.port.edit_seconds(harness.direct) == 1.0
    assert 60 / harness.port.edit_seconds(group) < 20


async def test_the_direct_chat_with_somebody(harness: TelegramHarness) -> None:
    """To be found by the person's number."""
    place = await harness.port.direct(str(harness.ada.id))
    await harness.port.send(place, "just for you")
    assert _shown(harness).text == "just for you"
