"""`/search`: what was said, by the same person or in the same group, however long ago."""

from __future__ import annotations

from agent.store import Address
from tests.support.command_harness import CommandHarness, Person


async def test_a_hit_says_when_who_and_what(desk: CommandHarness) -> None:
    """The matched words stand out; asterisks that were written do not."""
    desk.llm.then("Heliotrope *is* purple.")
    await desk.say("What colour?")
    [head, text] = (await desk.say("/search heliotrope")).splitlines()
    assert head.endswith(", Hermes, in this session")
    assert head.startswith("20")
    assert text == "**Heliotrope** \\*is\\* purple."


async def test_words_of_an_earlier_session_can_be_gone_back_to(desk: CommandHarness) -> None:
    """Before a reset and before a compaction: the hit names the end of the line it is on."""
    await desk.talk(*(f"subject{number}" for number in range(12)))
    await desk.say("/compress")
    end_of_line = await desk.live()
    await desk.say("/reset")
    told = await desk.say("/search subject4")
    assert f"`/resume {end_of_line}`" in told
    await desk.say(f"/resume {end_of_line}")
    assert "in this session" in await desk.say("/search subject4")


async def test_words_from_another_chat_name_it(desk: CommandHarness) -> None:
    """The same person wrote on another platform."""
    desk.llm.then("Noted.")
    elsewhere = Person(Address("terminal", "main"))
    await desk.say("Mind the heliotrope.", elsewhere)
    conversation = desk.conversation_id
    assert f"you, on terminal in `{conversation}`" in await desk.say("/search heliotrope")


async def test_what_others_said_is_not_found(desk: CommandHarness) -> None:
    """Neither in their direct chats nor, from a group, in one's own."""
    ada = Person(Address("telegram", "1"), "telegram:1", "telegram:1")
    bob = Person(Address("telegram", "2"), "telegram:2", "telegram:2", is_admin=True)
    group = Person(Address("telegram", "-5"), "telegram:group:-5", "telegram:1")
    desk.llm.then("Noted.")
    await desk.say("The heliotrope is mine.", ada)
    assert "heliotrope** is mine" in await desk.say("/search heliotrope", ada)
    for who in (bob, group):
        assert await desk.say("/search heliotrope", who) == (
            "Nothing found for “heliotrope”. Try fewer or other words."
        )


async def test_without_words(desk: CommandHarness) -> None:
    """A hint, not everything that was ever said."""
    assert (await desk.say("/search")).startswith("Which words?")
