"""`/sessions`, `/resume`, `/branch`: the lines of a conversation and the way between them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from agent.events import TextDelta, TurnDone
from agent.messages import Message
from agent.store import Address
from gateway.config.schema import SessionsConfig
from tests.support.command_harness import CommandHarness, Person, opened

UNKNOWN = "There is no such session in this conversation; /sessions lists them."


async def test_the_lines_are_listed_newest_first(desk: CommandHarness) -> None:
    """A compaction carries a line on; a reset begins another."""
    await desk.talk(*(f"tea{number}" for number in range(12)))
    await desk.say("/compress")
    count = len(await desk.history())
    await desk.say("/new")
    await desk.talk("milk")
    first, second, _, hint = (await desk.say("/sessions")).splitlines()
    date = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    assert re.fullmatch(rf"1\. {date}, 2 messages: “Tell me of milk\. word .*…” ← you are here", first)
    assert re.fullmatch(rf"2\. {date}, {count} messages: “Tell me of tea0\. .*…”", second)
    assert hint == "/resume NUMBER continues one of them."


async def test_a_number_of_the_list_is_resumed(desk: CommandHarness) -> None:
    """The model sees that session's messages again and none of the other's; nothing is lost on either side."""
    await desk.talk("tea")
    old = await desk.live()
    await desk.say("/reset")
    await desk.talk("milk")
    left = await desk.live()
    told = await desk.say("/resume 2")
    assert "with 2 messages" in told and f"`/resume {left}` returns" in told
    assert await desk.live() == old
    await desk.talk("honey")
    assert await desk.subjects() == ["tea", "honey"]
    assert "Tell me of milk" not in str(desk.llm.requests[-1].messages)
    await desk.say(f"/resume {left}")
    assert await desk.subjects() == ["milk"]


async def test_the_list_follows_the_live_session(desk: CommandHarness) -> None:
    """Numbers stay as they are when one goes back; only the mark moves."""
    await desk.talk("tea")
    await desk.say("/reset")
    await desk.talk("milk")
    before = (await desk.say("/sessions")).replace(" ← you are here", "")
    await desk.say("/resume 2")
    after = await desk.say("/resume")
    assert after.splitlines()[1].endswith("← you are here")
    assert after.replace(" ← you are here", "") == before


async def test_an_empty_session_is_not_listed(desk: CommandHarness) -> None:
    """Nobody wants to go back to nothing."""
    await desk.talk("tea")
    await desk.say("/reset")
    await desk.say("/reset")
    lines = (await desk.say("/sessions")).splitlines()
    assert lines[0].endswith("0 messages: nothing said yet ← you are here")
    assert lines[1].startswith("2. ") and "tea" in lines[1]
    assert lines[2:] == ["", "/resume NUMBER continues one of them."]


async def test_only_the_newest_are_listed_and_the_live_one(desk: CommandHarness) -> None:
    """However many there are."""
    await desk.talk("tea0")
    oldest = await desk.live()
    for number in range(1, 12):
        await desk.say("/reset")
        await desk.talk(f"tea{number}")
    await desk.say(f"/resume {oldest}")
    lines = (await desk.say("/sessions")).splitlines()
    assert [line.split(".")[0] for line in lines[:-2]] == [str(number) for number in range(1, 12)]
    assert "tea2." in lines[9] and "tea0" in lines[10] and lines[10].endswith("← you are here")


@pytest.mark.parametrize("wanted", ["0", "3", "²", "ses_nope", "Robert'); DROP TABLE sessions;--", "-1"])
async def test_what_does_not_exist_is_not_resumed(desk: CommandHarness, wanted: str) -> None:
    """One sentence for all of it, and the conversation stays where it is."""
    await desk.talk("tea")
    live = await desk.live()
    assert await desk.say(f"/resume {wanted}") == UNKNOWN
    assert await desk.live() == live


async def test_a_foreign_session_is_as_unknown_as_a_forged_one(desk: CommandHarness) -> None:
    """Somebody else's id, even of the same person's other chat, opens nothing and tells nothing."""
    ada = Person(Address("telegram", "1"), "telegram:1", "telegram:1")
    bob = Person(Address("telegram", "2"), "telegram:2", "telegram:2", is_admin=True)
    desk.llm.then("Noted.", "Noted.")
    await desk.say("A secret.", ada)
    secret = await desk.live()
    await desk.say("Hello.", bob)
    live = await desk.live()
    assert await desk.say(f"/resume {secret}", bob) == UNKNOWN
    assert await desk.say(f"/resume {secret[:12]}u", bob) == UNKNOWN
    assert await desk.live() == live


async def test_an_id_can_be_shortened(desk: CommandHarness) -> None:
    """As far as it is clear which one is meant."""
    await desk.talk("tea")
    old = await desk.live()
    await desk.say("/reset")
    assert await desk.say("/resume ses_") == "More than one session matches; write more of the name or id."
    assert "Back in the session" in await desk.say(f"/resume {old[:-4]}")
    assert await desk.say(f"/resume {old}") == "You are in that session already."


async def test_a_branch_goes_its_own_way(desk: CommandHarness) -> None:
    """The same context by reference; what is said on one side stays there, and the point left can be resumed."""
    await desk.talk("tea")
    trunk, before = await desk.live(), await desk.history()
    told = await desk.say("/branch the milk  question")
    assert told.startswith("You are in a branch now, “the milk question”, with all that was said so far.")
    assert f"`/resume {trunk}`" in told
    assert await desk.history() == before
    session = await desk.store.sessions.session(await desk.live())
    assert (session.parent_id, session.reason) == (trunk, "branch")
    await desk.talk("milk")
    await desk.say(f"/resume {trunk}")
    await desk.talk("honey")
    assert await desk.subjects() == ["tea", "honey"]
    listed = (await desk.say("/sessions")).splitlines()
    assert "4 messages: the milk question" in listed[0] and listed[1].endswith("← you are here")
    await desk.say("/resume THE MILK question")
    assert await desk.subjects() == ["tea", "milk"]


async def test_the_name_of_a_branch_survives_a_restart(tmp_path: Path) -> None:
    """It is kept with the conversation."""
    async with opened(tmp_path) as desk:
        await desk.talk("tea")
        await desk.say("/branch milk")
    async with opened(tmp_path) as desk:
        assert "2 messages: milk ← you are here" in await desk.say("/sessions")


async def test_nothing_to_branch_off_from(desk: CommandHarness) -> None:
    """An empty session has no other side."""
    assert (await desk.say("/branch")).startswith("There is nothing to branch off from")


async def test_the_engine_is_another_one_after_a_resume(desk: CommandHarness) -> None:
    """What it learnt on the other line would mislead it; a compaction works on what is live now."""
    await desk.talk(*(f"tea{number}" for number in range(12)))
    await desk.say("/compress")
    old = await desk.live()
    await desk.say("/reset")
    await desk.talk(*(f"milk{number}" for number in range(12)))
    assert "Compressed" in await desk.say("/compress")
    await desk.say(f"/resume {old}")
    await desk.talk(*(f"more{number}" for number in range(12)))
    assert "Compressed" in await desk.say("/compress")
    assert "milk" not in "".join(message.content for message in await desk.history())


async def test_commands_wait_for_the_running_turn(desk: CommandHarness) -> None:
    """A branch typed while the model speaks holds the whole answer."""
    gate = asyncio.Event()
    desk.llm.then(["Slowly", gate, "."])
    await desk.send("Speak.")
    await desk.until(TextDelta)
    await desk.send("/branch")
    gate.set()
    await desk.until(TurnDone)
    await desk.until(TurnDone)
    assert (await desk.store.sessions.session(await desk.live())).reason == "branch"
    assert [message.content for message in await desk.history()] == ["Speak.", "Slowly."]


async def test_a_resumed_session_does_not_end_by_itself_at_once(tmp_path: Path) -> None:
    """Its messages are old, but somebody has just gone back to it."""
    async with opened(tmp_path, sessions=SessionsConfig(reset="idle", idle_minutes=30)) as desk:
        conversation = await desk.store.sessions.open_conversation(desk.who.address, person=desk.who.person)
        old = [
            Message("user", "Tell me of tea.", created_at=0.0),
            Message("assistant", "Tea.", created_at=0.0),
        ]
        await desk.store.sessions.append(conversation.live_session_id, old)
        desk.llm.then("Good morning.", "Still tea.", "Tea, once more.")
        assert "a new session begins" in await desk.say("Hello.")
        await desk.say("/resume 2")
        assert await desk.say("And now?") == "Still tea."
        assert (await desk.say("/retry")).endswith("\nTea, once more.")
        await desk.say("/undo")
        assert await desk.subjects() == ["tea"]
