"""Newcomers are let in, turned away and sent away again with a button."""

from __future__ import annotations

from gateway.access import Pairing
from gateway.types import Author
from tests.support.dashboard_bots import STRANGER, running_bot
from tests.support.dashboard_harness import SCRIPT, DashboardHarness
from tests.support.watch import until

ZOE = {"platform": "memory", "user_id": "7"}


async def test_a_newcomer_is_let_in_and_told(dashboard: DashboardHarness) -> None:
    """And is answered from then on, until that is revoked."""
    async with running_bot(dashboard, pairing=True) as bot:
        await bot.hears("hello?", STRANGER)
        await bot.shows("I do not know you yet")
        assert "Zoe" in await dashboard.page("/dashboard/people")
        said = await dashboard.act("/api/dashboard/people/approve", ZOE)
        assert said == "Zoe (id 7) can talk to memory now."
        await bot.shows("You may talk to me now.")
        await bot.hears("And now?", STRANGER)
        await bot.shows("Yes.")
        page = await dashboard.page("/dashboard/people")
        assert "There are no requests" in page and "dashboard" in page
        assert (await dashboard.act("/api/dashboard/people/revoke", ZOE)).startswith("Revoked")
        assert not await dashboard.store.access.is_approved("memory", "7")
        assert "not approved any more" in await dashboard.act("/api/dashboard/people/revoke", ZOE)


async def test_a_newcomer_is_turned_away(dashboard: DashboardHarness) -> None:
    """Their code is worthless then; neither button works a second time."""
    pairing = Pairing(dashboard.store.access)
    code = await pairing.request("memory", STRANGER)
    assert code is not None
    assert await dashboard.act("/api/dashboard/people/deny", ZOE) == "Denied."
    assert not await pairing.is_open("memory", code.code)
    for verb in ("deny", "approve"):
        assert await dashboard.act(f"/api/dashboard/people/{verb}", ZOE) == "This request is no longer open."


async def test_somebody_else_is_not_let_in(dashboard: DashboardHarness) -> None:
    """On another platform, or under another number."""
    await Pairing(dashboard.store.access).request("memory", STRANGER)
    for other in ({**ZOE, "platform": "telegram"}, {**ZOE, "user_id": "8"}):
        assert "no longer open" in await dashboard.act("/api/dashboard/people/approve", other)
    assert await dashboard.store.access.approved() == []


async def test_where_the_bot_is_not_connected(dashboard: DashboardHarness) -> None:
    """The newcomer is let in all the same, and the owner hears that they do not know."""
    await Pairing(dashboard.store.access).request("memory", STRANGER)
    assert "could not notify them" in await dashboard.act("/api/dashboard/people/approve", ZOE)
    await until(lambda: dashboard.store.access.is_approved("memory", "7"))


async def test_a_name_is_only_a_name(dashboard: DashboardHarness) -> None:
    """Names are shown as text."""
    pairing = Pairing(dashboard.store.access)
    await pairing.request("memory", Author("7", SCRIPT))
    await pairing.request("memory", Author("8", ""))
    page = await dashboard.page("/dashboard/people")
    assert SCRIPT[:20] not in page and "&lt;script&gt;" in page and "Unnamed account" in page
    await dashboard.act("/api/dashboard/people/approve", ZOE)
    assert "&lt;script&gt;" in await dashboard.page("/dashboard/people")


async def test_forged_presses(dashboard: DashboardHarness) -> None:
    """Are refused in a sentence."""
    for body in ({}, {"platform": "memory"}, {"platform": 1, "user_id": []}, "x"):
        status, answer = await dashboard.post("/api/dashboard/people/approve", body)
        assert status == 400 and answer["error"]
