"""What was given up on: seen, tried again, dismissed, each once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agent.store import Address
from gateway.chat.errors import Undeliverable
from gateway.config.schema_platforms import TelegramBotConfig
from gateway.store.reports import ParkedDetail
from gateway.types import OWNER, InboundMessage
from tests.dashboard.bots import ANNA, Bot, bot, breaking_down, until
from tests.dashboard.world import READER, SCRIPT, Watched, bearer, watched

RETRY, DISMISS = "/api/dashboard/parked/retry", "/api/dashboard/parked/dismiss"


async def parked(house: Watched, count: int = 1) -> list[ParkedDetail]:
    """Waits until so many are."""
    await until(lambda: _has(house, count))
    return await house.store.reports.parked(limit=10)


async def _has(house: Watched, count: int) -> bool:
    return len(await house.store.reports.parked(limit=10)) == count


async def a_message_on_the_page(house: Watched, text: str = "What is 1/0?") -> ParkedDetail:
    house.script.will(*breaking_down(3))
    await house.gateway.receive(InboundMessage(Address("web", "desk"), OWNER, text))
    (given_up,) = await parked(house)
    return given_up


async def test_a_message_of_the_page_is_answered_after_all(house: Watched) -> None:
    """At once, and under the same id; a second press finds nothing."""
    given_up = await a_message_on_the_page(house)
    assert given_up.text == "What is 1/0?"
    body = {"kind": "message", "id": given_up.id}
    assert await house.act(RETRY, body) == "It is being answered now."
    await parked(house, 0)
    await until(lambda: _is_answered(house))
    assert "no longer parked" in await house.act(RETRY, body)
    (conversation,) = await house.store.sessions.conversations()
    said = [
        (each.role, each.content)
        for each in await house.store.sessions.transcript(conversation.conversation.id)
    ]
    assert said == [("user", "What is 1/0?"), ("assistant", "Yes.")]


async def _is_answered(house: Watched) -> bool:
    (overview,) = await house.store.sessions.conversations()
    return overview.messages == 2 and house.gateway.active_count == 0


async def test_a_message_that_breaks_down_again(house: Watched) -> None:
    """Is parked again, and can be tried once more."""
    given_up = await a_message_on_the_page(house)
    house.script.will(*breaking_down(3))
    for _ in range(2):
        await house.act(RETRY, {"kind": "message", "id": given_up.id})
        await until(lambda: _rests(house))
    assert await parked(house, 0) == []


async def _rests(house: Watched) -> bool:
    return house.gateway.active_count == 0


async def test_a_conversation_that_has_gone_on(house: Watched) -> None:
    """An answer to what was said long ago would come in the wrong place."""
    given_up = await a_message_on_the_page(house)
    await house.gateway.receive(InboundMessage(Address("web", "desk"), OWNER, "Never mind."))
    await until(lambda: _rests(house))
    said = await house.act(RETRY, {"kind": "message", "id": given_up.id})
    assert "has moved on" in said
    assert len(await parked(house)) == 1


async def test_a_chat_message_is_answered_after_all(house: Watched) -> None:
    """Though it was seen in this process before."""
    async with bot(house) as here:
        house.script.will(*breaking_down(3))
        await here.hears("hello")
        (given_up,) = await parked(house)
        assert (given_up.platform, given_up.chat_id, given_up.text) == ("memory", ANNA.id, "hello")
        assert await house.act(RETRY, {"kind": "message", "id": given_up.id}) == "It is being answered now."
        await here.shows("Yes.")
        await parked(house, 0)


async def test_a_chat_message_of_somebody_who_was_sent_away(house: Watched) -> None:
    """Is not answered, and the owner hears why."""
    async with bot(house) as here:
        house.script.will(*breaking_down(3))
        await here.hears("hello")
        (given_up,) = await parked(house)
        here.reception.apply(TelegramBotConfig(allowed_users=[2]), join_seconds=0.01)
        said = await house.act(RETRY, {"kind": "message", "id": given_up.id})
        assert "may no longer talk to this bot" in said
        await parked(house, 0)


async def test_a_reply_is_delivered_after_all(house: Watched) -> None:
    """Once, when the person can be reached again."""
    async with bot(house) as here:
        await an_undelivered_reply(house, here)
        here.service.heal()
        for given_up in await parked(house):
            assert given_up.kind == "reply"
            body = {"kind": "reply", "id": given_up.id}
            assert await house.act(RETRY, body) == "It is being sent again."
            assert "no longer parked" in await house.act(RETRY, body)
        await here.shows("Yes.")
        await parked(house, 0)
        assert here.service.texts() == ["Yes."]


async def an_undelivered_reply(house: Watched, here: Bot) -> None:
    for verb in ("send", "typing"):
        here.service.fail(verb, Undeliverable(), permanent=True)
    await here.hears("hello")
    await parked(house)


async def test_a_bot_that_is_away(tmp_path: Path) -> None:
    """What is tried again waits for it."""
    async with watched(tmp_path) as house:
        async with bot(house) as here:
            await an_undelivered_reply(house, here)
            (given_up,) = await parked(house)
        house.gateway.bots.clear()
        said = await house.act(RETRY, {"kind": "reply", "id": given_up.id})
        assert said == "It waits until memory is connected again."
    async with watched(tmp_path) as house, bot(house) as here:
        await here.shows("Yes.")


async def test_dismissed(house: Watched) -> None:
    """Both kinds; what they said is gone with them."""
    message = await a_message_on_the_page(house)
    body = {"kind": "message", "id": message.id}
    assert await house.act(DISMISS, body) == "Dismissed."
    assert "no longer parked" in await house.act(DISMISS, body)
    assert "no longer parked" in await house.act(RETRY, body)
    async with bot(house) as here:
        await an_undelivered_reply(house, here)
        (reply,) = await parked(house)
        assert await house.act(DISMISS, {"kind": "reply", "id": reply.id}) == "Dismissed."
        assert await parked(house, 0) == []
        here.service.heal()
        await house.store.outbox.discard_unfinished("memory")
        assert await house.store.outbox.undelivered("memory") == []


async def test_a_forged_press(house: Watched) -> None:
    """Is refused in a sentence."""
    for body in (
        {},
        [],
        {"kind": "message"},
        {"kind": "cat", "id": "x"},
        {"kind": "message", "id": 7},
        {"kind": "message", "id": "x" * 400},
        {"kind": "message", "id": "\ud800"},
    ):
        status, answer = await house.post(RETRY, body)
        assert status == 400 and answer["error"].endswith("."), body
    status, _ = await house.post("/api/dashboard/parked/explode", {"kind": "message", "id": "x"})
    assert status == 404


async def test_what_people_wrote_is_for_the_owner(tmp_path: Path) -> None:
    """Somebody who may only look sees that there is something, and why; and nobody's words become a page."""
    async with watched(tmp_path, guarded=True) as house:
        await a_message_on_the_page(house, SCRIPT)
        page = await house.page("/dashboard/parked")
        assert "&lt;script&gt;" in page and SCRIPT not in page and "Retry" in page
        for path in ("/dashboard/parked", "/dashboard"):
            status, read = await house.get(path, headers=bearer(READER))
            assert status == 200 and "Hermes broke down over it" in read
            assert "&lt;script&gt;" not in read and "data-post" not in read
        status, _ = await house.post(RETRY, {"kind": "message", "id": "x"}, headers=bearer(READER))
        assert status == 403


async def test_rows_of_another_version(house: Watched) -> None:
    """What nobody can read is still listed, and says so when it is tried."""
    await house.store.database.write(_write_nonsense, fence=None)
    page = await house.page("/dashboard/parked")
    assert "telegram" in page
    assert "Nothing of it is left" in await house.act(RETRY, {"kind": "reply", "id": "out_1"})
    assert "cannot be read" in await house.act(RETRY, {"kind": "message", "id": "msg_1"})
    assert await house.act(DISMISS, {"kind": "reply", "id": "out_1"}) == "Dismissed."


def _write_nonsense(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO inbox (id, platform, payload, state, received_at) VALUES ('msg_1', 'web', '[1]', 'parked', 1.0)"
    )
    connection.execute(
        """
        INSERT INTO outbox (id, conversation_id, turn_id, platform, place, kind, content, state, created_at)
        VALUES ('out_1', 'c', 't', 'telegram', '[]', 'file', 'nonsense', 'parked', 2.0)
        """
    )


async def test_the_list_is_bounded(house: Watched) -> None:
    """A text of any length shows its beginning."""
    given_up = await a_message_on_the_page(house, "long " * 10_000)
    assert len(given_up.text) == 500
    assert len(await house.page("/dashboard/parked")) < 10_000
