"""What the bot shows in a chat: text, formatting, replies, buttons, files, typing."""

from __future__ import annotations

import pytest

from gateway.chat.errors import ContentRefused
from gateway.text.unicode import utf16_length
from gateway.types import Button, Place
from tests.telegram.bench import Bench
from tests.worlds.telegram import Fault, Message


def _shown(bench: Bench) -> Message:
    return bench.ada.chat.from_bot[-1]


@pytest.fixture(autouse=True)
async def acquainted(bench: Bench) -> None:
    """A bot cannot write to somebody who never wrote to it."""
    await bench.says("hello")


async def test_a_plain_text(bench: Bench) -> None:
    """As it is, asterisks and all, without a preview of its links; its id comes back."""
    sent = await bench.port.send(bench.direct, "**2 * 2** https://example.org")
    assert (_shown(bench).text, _shown(bench).entities) == ("**2 * 2** https://example.org", [])
    assert sent == str(_shown(bench).id)
    (call,) = bench.world.calls_of("sendMessage")
    assert call.params["link_preview_options"] == {"is_disabled": True}


async def test_formatted_text(bench: Bench) -> None:
    """Markdown becomes entities."""
    await bench.port.send(bench.direct, "this is **bold**", formatted=True)
    assert _shown(bench).text == "this is bold"
    assert [(one["type"], one["offset"], one["length"]) for one in _shown(bench).entities] == [("bold", 8, 4)]


@pytest.mark.parametrize(
    "refusal",
    [
        "Bad Request: can't parse entities: entity beginning at UTF-16 offset 0 overlaps another one",
        "Bad Request: entity URL 'x' is invalid: Wrong HTTP URL",
    ],
)
async def test_formatting_that_is_refused_is_shown_plain(bench: Bench, refusal: str) -> None:
    """At once, and once only; for a new message and for an edit."""
    bench.world.fail_next("sendMessage", Fault.error(400, refusal))
    sent = await bench.port.send(bench.direct, "**bold**", formatted=True)
    assert (_shown(bench).text, _shown(bench).entities) == ("**bold**", [])
    bench.world.fail_next("editMessageText", Fault.error(400, refusal))
    await bench.port.edit(bench.direct, sent, "**bolder**", formatted=True)
    assert (_shown(bench).text, _shown(bench).entities) == ("**bolder**", [])


async def test_what_is_refused_plain_too_is_an_error(bench: Bench) -> None:
    """It does not try for ever."""
    with pytest.raises(ContentRefused, match="too long"):
        await bench.port.send(bench.direct, "x" * 4097, formatted=True)
    assert len(bench.world.calls_of("sendMessage")) == 1


@pytest.mark.parametrize("formatted", [False, True])
async def test_half_an_emoji(bench: Bench, formatted: bool) -> None:
    """Nobody could send it; the rest of the text is sent."""
    await bench.port.send(bench.direct, "so far \ud83d", formatted=formatted)
    assert _shown(bench).text == "so far \ufffd"


@pytest.mark.parametrize("formatted", [False, True])
async def test_a_name_notifies_nobody(bench: Bench, formatted: bool) -> None:
    """Telegram finds names where no link stands yet; the text stays as it is and leads where it would have led."""
    await bench.port.send(bench.direct, "😀 ask @grace_h, or me@ada.org, x.org/@ada_l", formatted=formatted)
    assert _shown(bench).text == "😀 ask @grace_h, or me@ada.org, x.org/@ada_l"
    (link,) = _shown(bench).entities
    assert (link["type"], link["offset"], link["length"]) == ("text_link", 7, 8)
    assert link["url"].rstrip("/") == "https://t.me/grace_h"


async def test_names_in_code_and_in_links_are_left_alone(bench: Bench) -> None:
    """Telegram finds none there; in bold it does."""
    await bench.port.send(
        bench.direct, "`@property` [@grace_h](https://example.org/) **@ada_l**", formatted=True
    )
    kinds = [(one["type"], one["offset"]) for one in _shown(bench).entities]
    assert sorted(kinds) == [("bold", 19), ("code", 0), ("text_link", 10), ("text_link", 19)]


async def test_topics_of_a_group_share_its_pace(bench: Bench) -> None:
    """Telegram counts by chat."""
    one, other = Place("-100", "7", "group", "-100"), Place("-100", "", "group", "-100")
    assert bench.port.pace_key(one) == bench.port.pace_key(other) != bench.port.pace_key(bench.direct)


async def test_the_limit_is_in_utf16_units(bench: Bench) -> None:
    """2048 emoji fill a message."""
    assert bench.port.measure is utf16_length
    await bench.port.send(bench.direct, "😀" * (bench.port.limit // 2))
    assert len(_shown(bench).text) == 2048


async def test_a_reply(bench: Bench) -> None:
    """Below what it answers; and sent all the same when that is gone."""
    asked = await bench.ada.says("a question")
    await bench.port.send(bench.direct, "an answer", reply_to=str(asked.id))
    assert _shown(bench).reply_to is asked
    await bench.ada.deletes(asked)
    await bench.port.send(bench.direct, "another answer", reply_to=str(asked.id))
    assert (_shown(bench).text, _shown(bench).reply_to) == ("another answer", None)


async def test_a_topic(bench: Bench) -> None:
    """Text, typing and files go where the question was."""
    team = bench.world.supergroup("Team", bench.ada, forum=True)
    place = (await bench.says("hi", chat=team, thread=team.topic("Billing"))).place
    await bench.port.send(place, "in the topic")
    await bench.port.send_file(place, "a.txt", b"text")
    await bench.port.typing(place)
    assert [message.thread for message in team.from_bot] == [int(place.thread_id)] * 2
    assert [(action.action, action.thread) for action in team.actions] == [("typing", int(place.thread_id))]


async def test_silence(bench: Bench) -> None:
    """A message that rings no bell, only when asked for."""
    await bench.port.send(bench.direct, "psst", silent=True)
    assert _shown(bench).silent
    await bench.port.send(bench.direct, "hey")
    assert not _shown(bench).silent


async def test_an_edit(bench: Bench) -> None:
    """New text, new buttons; without buttons the old ones go."""
    sent = await bench.port.send(bench.direct, "first", buttons=[Button("Yes", "y")])
    await bench.port.edit(bench.direct, sent, "**second**", formatted=True, buttons=[Button("No", "n")])
    assert (_shown(bench).text, _shown(bench).buttons) == ("second", ["No"])
    await bench.port.edit(bench.direct, sent, "third")
    assert (_shown(bench).text, _shown(bench).buttons) == ("third", [])


async def test_an_edit_that_changes_nothing(bench: Bench) -> None:
    """Telegram calls it an error; it is none."""
    sent = await bench.port.send(bench.direct, "same")
    await bench.port.edit(bench.direct, sent, "same")
    assert "not modified" in bench.world.refusals[-1]


async def test_a_deletion(bench: Bench) -> None:
    """Gone is gone, and deleting it twice is no failure."""
    sent = await bench.port.send(bench.direct, "status")
    await bench.port.delete(bench.direct, sent)
    await bench.port.delete(bench.direct, sent)
    assert bench.ada.chat.from_bot == []


@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        (("Once", "Always", "Deny"), [["Once", "Always", "Deny"]]),
        (("Once", "This conversation", "Deny"), [["Once"], ["This conversation"], ["Deny"]]),
        (("1", "2", "3", "4"), [["1"], ["2"], ["3"], ["4"]]),
    ],
)
async def test_buttons(bench: Bench, labels: tuple[str, ...], rows: list[list[str]]) -> None:
    """In one row if few and short, else one below the other."""
    await bench.port.send(bench.direct, "May I?", buttons=[Button(label, label) for label in labels])
    assert [[button["text"] for button in row] for row in _shown(bench).keyboard] == rows


async def test_a_press_reaches_the_desk_and_is_answered(bench: Bench) -> None:
    """Who, where, which message and what; the desk's sentence is shown."""
    sent = await bench.port.send(bench.direct, "May I?", buttons=[Button("Yes", "approve:1")])
    query = await bench.ada.presses(_shown(bench), "Yes")
    assert (await query.answered())["text"] == "Done."
    (press,) = bench.desk.presses
    assert (press.data, press.message_id, press.place) == ("approve:1", sent, bench.direct)
    assert press.author.id == str(bench.ada.id)


async def test_a_press_in_a_topic_by_somebody_else(bench: Bench) -> None:
    """The one who pressed is told of, not the one who was asked."""
    team = bench.world.supergroup("Team", bench.ada, forum=True)
    place = (await bench.says("hi", chat=team, thread=team.topic("Billing"))).place
    await bench.port.send(place, "May I?", buttons=[Button("Yes", "approve:1")])
    bob = bench.world.person(first_name="Bob")
    await (await bob.presses(team.from_bot[-1], "Yes")).answered()
    (press,) = bench.desk.presses
    assert (press.author.id, press.place) == (str(bob.id), place)


async def test_a_long_answer_to_a_press_is_cut(bench: Bench) -> None:
    """Telegram shows 200 units."""
    bench.desk.answer = "😀" * 150
    await bench.port.send(bench.direct, "May I?", buttons=[Button("Yes", "y")])
    answer = await (await bench.ada.presses(_shown(bench), "Yes")).answered()
    assert answer["text"] == "😀" * 99 + "…"


async def test_a_press_is_answered_even_if_the_desk_fails(bench: Bench) -> None:
    """No button spins for ever, and the next press works."""
    await bench.port.send(bench.direct, "May I?", buttons=[Button("Yes", "explode"), Button("No", "n")])
    answer = await (await bench.ada.presses(_shown(bench), "Yes")).answered()
    assert answer["text"] == "That did not work."
    assert (await (await bench.ada.presses(_shown(bench), "No")).answered())["text"] == "Done."


async def test_a_press_that_is_too_old_to_be_answered(bench: Bench) -> None:
    """It reaches the desk; that the answer is refused disturbs nothing."""
    await bench.port.send(bench.direct, "May I?", buttons=[Button("Yes", "y")])
    bench.world.hold_updates()
    late = await bench.ada.presses(_shown(bench), "Yes")
    late.expire()
    bench.world.release_updates()
    await bench.world.called("answerCallbackQuery")
    assert (await (await bench.ada.presses(_shown(bench), "Yes")).answered())["text"] == "Done."


async def test_typing(bench: Bench) -> None:
    """Shown in the chat."""
    await bench.port.typing(bench.direct)
    assert [action.action for action in bench.ada.chat.actions] == ["typing"]


async def test_a_file(bench: Bench) -> None:
    """With its name and caption; its id comes back."""
    sent = await bench.port.send_file(bench.direct, "notes.md", b"# Notes", caption="as you asked")
    shown = _shown(bench)
    assert shown.attachment is not None
    assert (shown.attachment.file.name, shown.attachment.file.data) == ("notes.md", b"# Notes")
    assert (shown.text, str(shown.id)) == ("as you asked", sent)


async def test_a_caption_that_is_too_long_goes_first(bench: Bench) -> None:
    """As a message of its own: nothing of it is lost."""
    await bench.port.send_file(bench.direct, "a.txt", b"a", caption="c" * 1025)
    text, file = bench.ada.chat.from_bot
    assert (text.text, file.text) == ("c" * 1025, "")


async def test_a_file_that_is_too_large_is_not_sent(bench: Bench) -> None:
    """50 MB are known beforehand; an empty one is refused by Telegram."""
    with pytest.raises(ContentRefused, match="50 MB"):
        await bench.port.send_file(bench.direct, "a.bin", bytes(bench.port.file_limit + 1))
    assert not bench.world.calls_of("sendDocument")
    with pytest.raises(ContentRefused, match="non-empty"):
        await bench.port.send_file(bench.direct, "a.bin", b"")


async def test_the_pace_of_edits(bench: Bench) -> None:
    """A group allows 20 a minute, a direct chat about one a second."""
    group = Place("-1", kind="group", group_id="-1")
    assert bench.port.edit_seconds(bench.direct) == 1.0
    assert 60 / bench.port.edit_seconds(group) < 20


async def test_the_direct_chat_with_somebody(bench: Bench) -> None:
    """To be found by the person's number."""
    place = await bench.port.direct(str(bench.ada.id))
    await bench.port.send(place, "just for you")
    assert _shown(bench).text == "just for you"
