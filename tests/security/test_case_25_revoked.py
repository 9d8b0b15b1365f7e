"""Access is revoked during a turn: the turn ends, in every mode and on every surface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.messages import ToolCall
from agent.store import Address, Conversation
from gateway.access import Gate
from gateway.chat.receiver import ChatReceiver
from gateway.config.schema_platforms import TelegramBotConfig
from gateway.media.attachments import AttachmentReader
from gateway.types import Place, Press
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway
from tests.support.media_files import attachment
from tests.support.receiver_harness import ANNA, BOB, Bot, running_bot
from tests.support.watch import until

RUN_IT = [ToolCall("c1", "danger", "{}")]


@asynccontextmanager
async def _with_anna(folder: Path, *answers: Any, **settings: Any) -> AsyncIterator[Bot]:
    """Anna was let in by a code; Bob is named in the settings."""
    async with running_bot(folder, *answers, allowed_users=[2], **settings) as bot:
        code = await bot.pairing.request(bot.service.platform, ANNA)
        assert code and await bot.pairing.approve(code.code, by="owner")
        yield bot


async def _revoke(bot: Bot) -> None:
    assert await bot.pairing.revoke(bot.service.platform, ANNA.id)


async def _stored(bot: Bot) -> str:
    conversation = await bot.store.sessions.open_conversation(
        Address(bot.service.platform, ANNA.id), person=f"{bot.service.platform}:{ANNA.id}"
    )
    return str([message.content for message in await bot.store.sessions.transcript(conversation.id)])


@pytest.mark.parametrize("busy", ["queue", "steer"])
@pytest.mark.parametrize("waiting", ["a second thing", "/search first"])
async def test_what_waits_is_not_answered(tmp_path: Path, busy: Any, waiting: str) -> None:
    """Neither in a turn of its own nor within the one that runs, and it is not kept either."""
    gate = asyncio.Event()
    first = [gate, ToolCall("c1", "unknown_tool", "{}")]
    async with _with_anna(tmp_path, first, "One.", "Two.", "Bob's.", busy=busy) as bot:
        await bot.hears("the first thing")
        await bot.asked(1)
        await bot.hears(waiting)
        await until(lambda: any("⏳" in shown.text for shown in bot.service.messages))
        await _revoke(bot)
        gate.set()
        await until(lambda: any("One." in shown.text for shown in bot.service.messages))
        before = len(bot.llm.requests)
        await bot.hears("hello", BOB)
        await until(lambda: len(bot.llm.requests) > before)
        assert waiting not in str([request.messages for request in bot.llm.requests])
        assert waiting not in await _stored(bot)
        assert not any("first thing" in shown.text for shown in bot.service.messages)


async def test_the_next_message_is_a_strangers(tmp_path: Path) -> None:
    """From the moment of the revocation on, without a restart."""
    async with _with_anna(tmp_path, "One.", "Bob's.") as bot:
        await bot.hears("before")
        await bot.asked(1)
        await _revoke(bot)
        await bot.hears("after")
        await bot.hears("/search before")
        await bot.hears("hello", BOB)
        assert await bot.asked(2) == ["hello"]

        def told() -> list[str]:
            return [shown.text for shown in bot.service.messages if shown.place == Place(ANNA.id)]

        await until(lambda: any("hermes pairing approve" in text for text in told()))
        assert not any("before" in text for text in told())


async def test_an_open_question_cannot_be_answered_any_more(tmp_path: Path) -> None:
    """The person who was asked may no longer decide; other people never could."""
    async with _with_anna(tmp_path, RUN_IT, "Ah.") as bot:
        await bot.hears("do it")
        await until(lambda: any(shown.buttons for shown in bot.service.messages))
        (asked,) = [shown for shown in bot.service.messages if shown.buttons]
        await _revoke(bot)
        press = Press(Place(ANNA.id), ANNA, asked.id, asked.buttons[0].data)
        assert await bot.receiver.pressed(press) == "You may not decide this."
        assert len(bot.llm.requests) == 1


async def test_what_was_granted_for_the_conversation_is_not_run_any_more(tmp_path: Path) -> None:
    """Even within a turn that began before: a dangerous tool looks again whom it is run for."""
    gate = asyncio.Event()
    async with _with_anna(tmp_path, RUN_IT, [gate, *RUN_IT], "Ah.") as bot:
        await bot.hears("do it twice")
        await until(lambda: any(shown.buttons for shown in bot.service.messages))
        (asked,) = [shown for shown in bot.service.messages if shown.buttons]
        press = Press(Place(ANNA.id), ANNA, asked.id, asked.buttons[1].data)
        assert "in this conversation" in await bot.receiver.pressed(press)
        await until(lambda: len(bot.llm.requests) == 2)
        await _revoke(bot)
        gate.set()
        await until(lambda: len(bot.llm.requests) == 3)
        results = [
            message["content"] for message in bot.llm.requests[-1].messages if message["role"] == "tool"
        ]
        assert results[0] == "done"
        assert "may not approve such a tool" in str(results[1])


def _restarted(before: Bot, folder: Path, *answers: Any) -> Bot:
    """Another process on the same store and the same service; Bob is named in its settings, too."""
    after = Bot(before.store, folder, *answers)
    after.service = before.service
    agent = make_agent(after.llm, after.store.sessions)
    after.gateway = make_gateway(agent, after.store, folder / "later")
    config = TelegramBotConfig.model_validate({"allowed_users": [2]})
    gate = after.gateway.access.add(Gate(after.service.platform, config, after.store.access))

    async def sees_images(conversation: Conversation) -> bool:
        return False

    after.receiver = ChatReceiver(
        after.gateway,
        after.service,
        gate,
        before.pairing,
        AttachmentReader(sees_images),
        config,
        join_seconds=0.05,
    )
    return after


async def test_what_was_left_at_a_stop_is_not_taken_up(tmp_path: Path) -> None:
    """Revoked while Hermes was down: no turn goes on, no message is read, no file fetched, no command carried out."""
    async with _with_anna(tmp_path, ["Half", asyncio.Event()]) as before:
        await before.hears("the first thing")
        await before.asked(1)
        before.service.files["ref"] = b"content"
        file = replace(attachment("a.txt", b"content"), ref="ref")
        await before.hears("a second thing", attachments=(file,))
        await before.hears("/search thing")
        await until(lambda: any("⏳" in shown.text for shown in before.service.messages))
    await _revoke(before)
    assert len(await before.store.inbox.waiting(before.service.platform)) == 3
    shown = len(before.service.messages)
    after = _restarted(before, tmp_path, "For Bob.")
    await after.receiver.open()
    await after.hears("hello", BOB)
    await until(lambda: any("For Bob." in message.text for message in after.service.messages))
    assert await after.asked(1) == ["hello"]
    assert {message.place for message in after.service.messages[shown:]} == {Place(BOB.id)}
    assert not list((tmp_path / "later").rglob("a.txt"))
    assert await after.store.inbox.waiting(after.service.platform) == []
    await after.gateway.close()
    await after.receiver.close()
