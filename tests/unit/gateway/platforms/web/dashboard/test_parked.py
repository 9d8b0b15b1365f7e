"""What was given up on: seen, tried again, dismissed, each once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agent.store import Address
from gateway.chat.errors import Undeliverable
from gateway.config.schema_platforms import TelegramBotConfig
from gateway.store.reports import ParkedDetail
from gateway.types import OWNER, InboundMessage
from tests.support.dashboard_bots import ANNA, Bot, breaking_down, running_bot
from tests.support.dashboard_harness import READER, SCRIPT, DashboardHarness, bearer, running_dashboard
from tests.support.watch import until

RETRY, DISMISS = "/api/dashboard/parked/retry", "/api/dashboard/parked/dismiss"


async def parked(dashboard: DashboardHarness, count: int = 1) -> list[ParkedDetail]:
    """Waits until so many are."""
    await until(lambda: _has(dashboard, count))
    return await dashboard.store.reports.parked(limit=10)


async def _has(dashboard: DashboardHarness, count: int) -> bool:
    return len(await dashboard.store.reports.parked(limit=10)) == count


async def a_message_on_the_page(dashboard: DashboardHarness, text: str = "What is 1/0?") -> ParkedDetail:
    dashboard.script.will(*breaking_down(3))
    await dashboard.gateway.receive(InboundMessage(Address("web", "desk"), OWNER, text))
    (given_up,) = await parked(dashboard)
    return given_up


async def test_a_message_of_the_page_is_answered_after_all(dashboard: DashboardHarness) -> None:
    """At once, and under the same id; a second press finds nothing."""
    given_up = await a_message_on_the_page(dashboard)
    assert given_up.text == "What is 1/0?"
    body = {"kind": "message", "id": given_up.id}
    assert await dashboard.act(RETRY, body) == "It is being answered now."
    await parked(dashboard, 0)
    await until(lambda: _is_answered(dashboard))
    assert "no longer parked" in await dashboard.act(RETRY, body)
    (conversation,) = await dashboard.store.sessions.conversations()
    said = [
        (each.role, each.content)
        for each in await dashboard.store.sessions.transcript(conversation.conversation.id)
    ]
    assert said == [("user", "What is 1/0?"), ("assistant", "Yes.")]


async def _is_answered(dashboard: DashboardHarness) -> bool:
    (overview,) = await dashboard.store.sessions.conversations()
    return overview.messages == 2 and dashboard.gateway.active_count == 0


async def test_a_message_that_breaks_down_again(dashboard: DashboardHarness) -> None:
    """Is parked again, and can be tried once more."""
    given_up = await a_message_on_the_page(dashboard)
    dashboard.script.will(*breaking_down(3))
    for _ in range(2):
        await dashboard.act(RETRY, {"kind": "message", "id": given_up.id})
        await until(lambda: _rests(dashboard))
    assert await parked(dashboard, 0) == []


async def _rests(dashboard: DashboardHarness) -> bool:
    return dashboard.gateway.active_count == 0


async def test_a_conversation_that_has_gone_on(dashboard: DashboardHarness) -> None:
    """An answer to what was said long ago would come in the wrong place."""
    given_up = await a_message_on_the_page(dashboard)
    await dashboard.gateway.receive(InboundMessage(Address("web", "desk"), OWNER, "Never mind."))
    await until(lambda: _rests(dashboard))
    said = await dashboard.act(RETRY, {"kind": "message", "id": given_up.id})
    assert "has moved on" in said
    assert len(await parked(dashboard)) == 1


async def test_a_chat_message_is_answered_after_all(dashboard: DashboardHarness) -> None:
    """Though it was seen in this process before."""
    async with running_bot(dashboard) as bot:
        dashboard.script.will(*breaking_down(3))
        await bot.hears("hello")
        (given_up,) = await parked(dashboard)
        assert (given_up.platform, given_up.chat_id, given_up.text) == ("memory", ANNA.id, "hello")
        assert (
            await dashboard.act(RETRY, {"kind": "message", "id": given_up.id}) == "It is being answered now."
        )
        await bot.shows("Yes.")
        await parked(dashboard, 0)


async def test_a_chat_message_of_somebody_who_was_sent_away(dashboard: DashboardHarness) -> None:
    """Is not answered, and the owner hears why."""
    async with running_bot(dashboard) as bot:
        dashboard.script.will(*breaking_down(3))
        await bot.hears("hello")
        (given_up,) = await parked(dashboard)
        bot.receiver.apply(TelegramBotConfig(allowed_users=[2]), join_seconds=0.01)
        said = await dashboard.act(RETRY, {"kind": "message", "id": given_up.id})
        assert "may no longer talk to this bot" in said
        await parked(dashboard, 0)


async def test_a_reply_is_delivered_after_all(dashboard: DashboardHarness) -> None:
    """Once, when the person can be reached again."""
    async with running_bot(dashboard) as bot:
        await an_undelivered_reply(dashboard, bot)
        bot.service.heal()
        for given_up in await parked(dashboard):
            assert given_up.kind == "reply"
            body = {"kind": "reply", "id": given_up.id}
            assert await dashboard.act(RETRY, body) == "It is being sent again."
            assert "no longer parked" in await dashboard.act(RETRY, body)
        await bot.shows("Yes.")
        await parked(dashboard, 0)
        assert bot.service.texts() == ["Yes."]


async def an_undelivered_reply(dashboard: DashboardHarness, bot: Bot) -> None:
    for verb in ("send", "typing"):
        bot.service.fail(verb, Undeliverable(), permanent=True)
    await bot.hears("hello")
    await parked(dashboard)


async def test_a_bot_that_is_away(tmp_path: Path) -> None:
    """What is tried again waits for it."""
    async with running_dashboard(tmp_path) as dashboard:
        async with running_bot(dashboard) as bot:
            await an_undelivered_reply(dashboard, bot)
            (given_up,) = await parked(dashboard)
        dashboard.gateway.bots.clear()
        said = await dashboard.act(RETRY, {"kind": "reply", "id": given_up.id})
        assert said == "It waits until memory is connected again."
    async with running_dashboard(tmp_path) as dashboard, running_bot(dashboard) as bot:
        await bot.shows("Yes.")


async def test_dismissed(dashboard: DashboardHarness) -> None:
    """Both kinds; what they said is gone with them."""
    message = await a_message_on_the_page(dashboard)
    body = {"kind": "message", "id": message.id}
    assert await dashboard.act(DISMISS, body) == "Dismissed."
    assert "no longer parked" in await dashboard.act(DISMISS, body)
    assert "no longer parked" in await dashboard.act(RETRY, body)
    async with running_bot(dashboard) as bot:
        await an_undelivered_reply(dashboard, bot)
        (reply,) = await parked(dashboard)
        assert await dashboard.act(DISMISS, {"kind": "reply", "id": reply.id}) == "Dismissed."
        assert await parked(dashboard, 0) == []
        bot.service.heal()
        await dashboard.store.outbox.discard_unfinished("memory")
        assert await dashboard.store.outbox.undelivered("memory") == []


async def test_a_forged_press(dashboard: DashboardHarness) -> None:
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
        status, answer = await dashboard.post(RETRY, body)
        assert status == 400 and answer["error"].endswith("."), body
    status, _ = await dashboard.post("/api/dashboard/parked/explode", {"kind": "message", "id": "x"})
    assert status == 404


async def test_what_people_wrote_is_for_the_owner(tmp_path: Path) -> None:
    """Somebody who may only look sees that there is something, and why; and nobody's words become a page."""
    async with running_dashboard(tmp_path, guarded=True) as dashboard:
        await a_message_on_the_page(dashboard, SCRIPT)
        page = await dashboard.page("/dashboard/parked")
        assert "&lt;script&gt;" in page and SCRIPT not in page and "Retry" in page
        for path in ("/dashboard/parked", "/dashboard"):
            status, read = await dashboard.get(path, headers=bearer(READER))
            assert status == 200 and "Hermes broke down over it" in read
            assert "&lt;script&gt;" not in read and "data-post" not in read
        status, _ = await dashboard.post(RETRY, {"kind": "message", "id": "x"}, headers=bearer(READER))
        assert status == 403


async def test_rows_of_another_version(dashboard: DashboardHarness) -> None:
    """What nobody can read is still listed, and says so when it is tried."""
    await dashboard.store.database.write(_write_nonsense, fence=None)
    page = await dashboard.page("/dashboard/parked")
    assert "telegram" in page
    assert "Nothing of it is left" in await dashboard.act(RETRY, {"kind": "reply", "id": "out_1"})
    assert "cannot be read" in await dashboard.act(RETRY, {"kind": "message", "id": "msg_1"})
    assert await dashboard.act(DISMISS, {"kind": "reply", "id": "out_1"}) == "Dismissed."


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


async def test_the_list_is_bounded(dashboard: DashboardHarness) -> None:
    """A text of any length shows its beginning."""
    given_up = await a_message_on_the_page(dashboard, "long " * 10_000)
    assert len(given_up.text) == 500
    assert len(await dashboard.page("/dashboard/parked")) < 10_000
