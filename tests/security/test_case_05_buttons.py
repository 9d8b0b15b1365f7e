"""Buttons that come back stale, replayed, from elsewhere or malformed; and two conversations that ask at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.messages import ToolCall
from gateway.types import Author, Place, Press
from tests.support.chat_service import VisibleMessage
from tests.support.receiver_harness import ANNA, BOB, GROUP, Bot, running_bot
from tests.support.watch import until

RUN_IT = [ToolCall("c1", "danger", "{}")]
OVER = "This request is no longer open."


async def _asked(bot: Bot, place: Place) -> VisibleMessage:
    def questions() -> list[VisibleMessage]:
        return [shown for shown in bot.service.messages if shown.buttons and shown.place == place]

    await until(lambda: bool(questions()))
    return questions()[-1]


async def _press(bot: Bot, who: Author, place: Place, data: str) -> str:
    return await bot.receiver.pressed(Press(place, who, "1", data))


def _ran(bot: Bot) -> bool:
    """Whether a model was told what the tool gave."""
    return any(
        message["role"] == "tool" and message["content"] == "done"
        for request in bot.llm.requests
        for message in request.messages
    )


@pytest.mark.parametrize(
    "elsewhere",
    [
        Place("2"),
        GROUP,
        Place("1", "7"),
        Place("-100", kind="group", group_id="-500"),
    ],
)
async def test_a_button_counts_only_where_it_stands(tmp_path: Path, elsewhere: Place) -> None:
    """The right person with the right data, from another chat or topic: data can be copied and sent by a program."""
    async with running_bot(tmp_path, RUN_IT, "Then not.") as bot:
        await bot.hears("do it")
        once, _, deny = [button.data for button in (await _asked(bot, Place("1"))).buttons]
        assert await _press(bot, ANNA, elsewhere, once) == OVER
        assert await _press(bot, ANNA, Place("1"), deny) == "Denied."
        await bot.asked(2)
        assert not _ran(bot)


async def test_a_press_is_used_up(tmp_path: Path) -> None:
    """The same press again, the other button afterwards, and the data of a question before: nothing more happens."""
    async with running_bot(tmp_path, RUN_IT, RUN_IT, "Then not.") as bot:
        await bot.hears("do it")
        first = await _asked(bot, Place("1"))
        once, conversation, deny = [button.data for button in first.buttons]
        assert await _press(bot, ANNA, Place("1"), once) == "Approved once."
        for data in (once, conversation, deny):
            assert await _press(bot, ANNA, Place("1"), data) == OVER
        await bot.asked(2)
        second = await _asked(bot, Place("1"))
        assert await _press(bot, ANNA, Place("1"), once) == OVER
        assert await _press(bot, ANNA, Place("1"), second.buttons[-1].data) == "Denied."


async def test_the_button_of_a_turn_that_was_stopped(tmp_path: Path) -> None:
    """The question ends with its turn, even if the message still shows buttons."""
    async with running_bot(tmp_path, RUN_IT) as bot:
        await bot.hears("do it")
        once = (await _asked(bot, Place("1"))).buttons[0].data
        await bot.hears("/stop")
        await until(lambda: any("Stopped" in shown.text for shown in bot.service.messages))
        assert await _press(bot, ANNA, Place("1"), once) == OVER
        assert not _ran(bot)


@pytest.mark.parametrize(
    "forged",
    [
        "{once}{padding}",
        "{once}:{padding}",
        "{padding}{once}",
        "approve:{id}{padding}:once",
        "approve:{id}:once ",
        "approve:{id}:ONCE",
        "approve:{id}",
        "approve::once",
        "pair:{id}:once",
        "{once}\n{once}",
        "{once}\0",
    ],
)
async def test_data_that_was_tampered_with(tmp_path: Path, forged: str) -> None:
    """Longer than the 64 bytes that services keep, or off by a character: it is refused and decides nothing."""
    async with running_bot(tmp_path, RUN_IT, "Then not.", admins=[1]) as bot:
        await bot.hears("do it")
        once, _, deny = [button.data for button in (await _asked(bot, Place("1"))).buttons]
        data = forged.format(once=once, id=once.split(":")[1], padding="x" * 64)
        assert await _press(bot, ANNA, Place("1"), data) == OVER
        assert await _press(bot, ANNA, Place("1"), deny) == "Denied."


async def test_no_button_is_longer_than_services_take(tmp_path: Path) -> None:
    """64 bytes with Telegram; a longer one would come back cut, or not be shown at all."""
    async with running_bot(tmp_path, RUN_IT, "Then not.", admins=[2]) as bot:
        await bot.hears("do it")
        await bot.hears("let me in", Author("9" * 19, "Zoë " * 40))
        shown = [*(await _asked(bot, Place("1"))).buttons, *(await _asked(bot, Place("2"))).buttons]
        assert len(shown) == 5
        assert all(0 < len(button.data.encode()) <= 64 for button in shown)


async def test_two_conversations_ask_at_once(tmp_path: Path) -> None:
    """The same person, the same command, two places: each answer counts where it was given and nowhere else."""
    async with running_bot(tmp_path, RUN_IT, RUN_IT, "One.", "Two.") as bot:
        await bot.hears("do it")
        await bot.hears("do it", ANNA, GROUP)
        in_private, in_group = await _asked(bot, Place("1")), await _asked(bot, GROUP)
        assert in_private.buttons[0].data != in_group.buttons[0].data
        assert await _press(bot, ANNA, GROUP, in_private.buttons[0].data) == OVER
        assert await _press(bot, BOB, GROUP, in_group.buttons[0].data) == (
            "Only the person who was asked can decide this."
        )
        assert "in this conversation" in await _press(bot, ANNA, GROUP, in_group.buttons[1].data)
        await bot.asked(3)
        assert _ran(bot)
        assert bot.gateway.approvals.conversation_of(in_private.buttons[0].data.split(":")[1])
        assert await _press(bot, ANNA, Place("1"), in_private.buttons[2].data) == "Denied."
        await bot.asked(4)
        assert "did not allow" in str(bot.llm.requests[-1].messages[-1])


async def test_what_one_conversation_was_granted_another_is_asked_about(tmp_path: Path) -> None:
    """`This conversation` means this one, though the person and the command are the same."""
    async with running_bot(tmp_path, RUN_IT, "One.", RUN_IT, "Two.") as bot:
        await bot.hears("do it", ANNA, GROUP)
        await _press(bot, ANNA, GROUP, (await _asked(bot, GROUP)).buttons[1].data)
        await bot.asked(2)
        await bot.hears("do it")
        asked = await _asked(bot, Place("1"))
        assert len(bot.llm.requests) == 3
        await _press(bot, ANNA, Place("1"), asked.buttons[2].data)
        await bot.asked(4)
