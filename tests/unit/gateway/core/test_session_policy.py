"""Automatic session resets."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Literal

import pytest

from agent.events import Notice, TurnDone
from agent.messages import Message
from agent.store import Address
from agent.testing import ScriptedLLM
from gateway.config.schema import SessionsConfig
from gateway.core.session_policy import is_due
from gateway.types import OWNER, InboundMessage
from tests.support.agents import make_agent
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store


def at(text: str) -> float:
    return datetime.fromisoformat(text).astimezone().timestamp()


@pytest.mark.parametrize(
    ("last", "now", "due"),
    [
        ("2026-03-01T23:50", "2026-03-02T00:10", False),
        ("2026-03-01T23:50", "2026-03-02T03:59", False),
        ("2026-03-01T23:50", "2026-03-02T04:00", True),
        ("2026-03-02T04:00", "2026-03-02T23:00", False),
        ("2026-02-20T10:00", "2026-03-02T03:00", True),
    ],
)
def test_a_day_begins_at_its_hour(last: str, now: str, due: bool) -> None:
    """Not at midnight, when people are still talking."""
    assert is_due(SessionsConfig(reset="daily", daily_hour=4), at(last), at(now)) is due


@pytest.mark.parametrize(("minutes", "due"), [(29, False), (30, True), (10_000, True)])
def test_a_pause_is_counted_from_the_last_message(minutes: int, due: bool) -> None:
    """The one before the new one."""
    assert is_due(SessionsConfig(reset="idle", idle_minutes=30), 0.0, minutes * 60.0) is due


@pytest.mark.parametrize("reset", ["idle", "daily"])
def test_a_clock_that_was_set_back_ends_nothing(reset: Literal["idle", "daily"]) -> None:
    """A last message from the future counts as just written."""
    now = at("2026-03-02T12:00")
    assert not is_due(SessionsConfig(reset=reset, idle_minutes=30), now + 24 * 3600, now)


@pytest.mark.parametrize(("reset", "anew"), [("idle", True), ("daily", True), ("none", False)])
async def test_an_old_conversation(tmp_path: Path, reset: str, anew: bool) -> None:
    """With a policy a new session begins and says so; without one nothing of the kind ever happens."""
    store = await temporary_store()
    llm = ScriptedLLM(["Fine."])
    gateway = make_gateway(
        make_agent(llm, store.sessions), store, tmp_path, config={"sessions": {"reset": reset}}
    )
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person=OWNER)
    old = Message("user", "long ago", created_at=time.time() - 10 * 86_400)
    await store.sessions.append(
        conversation.live_session_id, [old, Message("assistant", "yes", created_at=old.created_at)]
    )

    await gateway.receive(InboundMessage(conversation.address, OWNER, "hello again"))
    events = []
    with gateway.hub.watch(conversation.id, after=0) as watcher:
        async for envelope in watcher:
            events.append(envelope.event)
            if isinstance(envelope.event, TurnDone):
                break

    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any("a new session begins" in text for text in notices) is anew
    told = [message["content"] for message in llm.requests[0].messages if message["role"] == "user"]
    assert told == (["hello again"] if anew else ["long ago", "hello again"])
    live = await store.sessions.session((await store.sessions.conversation(conversation.id)).live_session_id)
    assert (live.reason == "reset") is anew
    assert (await store.sessions.transcript(conversation.id))[0].content == "long ago"
