"""`/memory`: a person lists and deletes facts."""

from __future__ import annotations

import pytest

from agent.store import Address
from gateway.types import OWNER
from tests.support.command_harness import CommandHarness, Person


async def test_nothing_is_remembered_at_first(harness: CommandHarness) -> None:
    assert await harness.say("/memory") == "Nothing is remembered."


async def test_what_is_remembered_is_listed_and_forgotten(harness: CommandHarness) -> None:
    """A fact that was noted after text of others was read is marked."""
    for text, outside in (("likes tea", False), ("pays to account 7", True), ("lives in Bern", False)):
        await harness.store.sessions.remember(OWNER, text, after_outside=outside)

    lines = (await harness.say("/memory")).splitlines()
    assert [line[:3] for line in lines[:3]] == ["1. ", "2. ", "3. "]
    assert "likes tea" in lines[0] and "text of others" not in lines[0]
    assert "pays to account 7" in lines[1] and "text of others" in lines[1]

    assert await harness.say("/memory forget 2") == "Forgot: “pays to account 7”"
    assert [fact.text for fact in await harness.store.sessions.facts(OWNER)] == ["likes tea", "lives in Bern"]


@pytest.mark.parametrize(
    "rest", ["forget", "forget 4", "forget x", "forget 0", "forget -1", "delete 1", "forget ²"]
)
async def test_what_makes_no_sense_forgets_nothing(harness: CommandHarness, rest: str) -> None:
    """The answer explains the command."""
    await harness.store.sessions.remember(OWNER, "likes tea")
    assert "/memory forget NUMBER" in await harness.say(f"/memory {rest}")
    assert len(await harness.store.sessions.facts(OWNER)) == 1


async def test_facts_of_others_are_not_shown(harness: CommandHarness) -> None:
    await harness.store.sessions.remember(OWNER, "likes tea")
    stranger = Person(Address("telegram", "7"), "telegram:7", "telegram:7")
    assert await harness.say("/memory", stranger) == "Nothing is remembered."
    assert "no number 1" in await harness.say("/memory forget 1", stranger)
    assert len(await harness.store.sessions.facts(OWNER)) == 1
