"""`/search` finds messages of the same person or group."""

from __future__ import annotations

from agent.store import Address
from tests.support.command_harness import CommandHarness, Person


async def test_a_hit_says_when_who_and_what(harness: CommandHarness) -> None:
    """Matched words are bold; asterisks in the text are escaped."""
    harness.llm.then("Heliotrope *is* purple.")
    await harness.say("What colour?")
    [head, text] = (await harness.say("/search heliotrope")).splitlines()
    assert head.endswith(", Hermes, in this session")
    assert head.startswith("20")
    assert text == "**Heliotrope** \\*is\\* purple."


async def test_words_of_an_earlier_session_can_be_gone_back_to(harness: CommandHarness) -> None:
    """A hit before a reset or a compaction names the session to resume."""
    await harness.talk(*(f"subject{number}" for number in range(12)))
    await harness.say("/compress")
    end_of_line = await harness.live()
    await harness.say("/reset")
    told = await harness.say("/search subject4")
    assert f"`/resume {end_of_line}`" in told
    await harness.say(f"/resume {end_of_line}")
    assert "in this session" in await harness.say("/search subject4")


async def test_words_from_another_chat_name_it(harness: CommandHarness) -> None:
    harness.llm.then("Noted.")
    elsewhere = Person(Address("terminal", "main"))
    await harness.say("Mind the heliotrope.", elsewhere)
    conversation = harness.conversation_id
    assert f"you, on terminal in `{conversation}`" in await harness.say("/search heliotrope")


async def test_what_others_said_is_not_found(harness: CommandHarness) -> None:
    """Messages of others are not found, and from a group those of direct chats are not found."""
    ada = Person(Address("telegram", "1"), "telegram:1", "telegram:1")
    bob = Person(Address("telegram", "2"), "telegram:2", "telegram:2", is_admin=True)
    group = Person(Address("telegram", "-5"), "telegram:group:-5", "telegram:1")
    harness.llm.then("Noted.")
    await harness.say("The heliotrope is mine.", ada)
    assert "heliotrope** is mine" in await harness.say("/search heliotrope", ada)
    for who in (bob, group):
        assert await harness.say("/search heliotrope", who) == (
            "Nothing found for “heliotrope”. Try fewer or other words."
        )


async def test_without_words(harness: CommandHarness) -> None:
    assert (await harness.say("/search")).startswith("Which words?")
