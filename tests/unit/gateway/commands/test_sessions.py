"""`/sessions`, `/resume` and `/branch`."""

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


async def test_the_lines_are_listed_newest_first(harness: CommandHarness) -> None:
    """A compaction continues a branch; a reset begins another."""
    await harness.talk(*(f"tea{number}" for number in range(12)))
    await harness.say("/compress")
    count = len(await harness.history())
    await harness.say("/new")
    await harness.talk("milk")
    first, second, _, hint = (await harness.say("/sessions")).splitlines()
    date = r"\d{4}-\d\d-\d\d \d\d:\d\d"
    assert re.fullmatch(rf"1\. {date}, 2 messages: “Tell me of milk\. word .*…” ← you are here", first)
    assert re.fullmatch(rf"2\. {date}, {count} messages: “Tell me of tea0\. .*…”", second)
    assert hint == "/resume NUMBER continues one of them."


async def test_a_number_of_the_list_is_resumed(harness: CommandHarness) -> None:
    """The model sees only the messages of that session, and no message is lost."""
    await harness.talk("tea")
    old = await harness.live()
    await harness.say("/reset")
    await harness.talk("milk")
    left = await harness.live()
    told = await harness.say("/resume 2")
    assert "with 2 messages" in told and f"`/resume {left}` returns" in told
    assert await harness.live() == old
    await harness.talk("honey")
    assert await harness.subjects() == ["tea", "honey"]
    assert "Tell me of milk" not in str(harness.llm.requests[-1].messages)
    await harness.say(f"/resume {left}")
    assert await harness.subjects() == ["milk"]


async def test_the_list_follows_the_live_session(harness: CommandHarness) -> None:
    """Only the mark moves; the numbers stay."""
    await harness.talk("tea")
    await harness.say("/reset")
    await harness.talk("milk")
    before = (await harness.say("/sessions")).replace(" ← you are here", "")
    await harness.say("/resume 2")
    after = await harness.say("/resume")
    assert after.splitlines()[1].endswith("← you are here")
    assert after.replace(" ← you are here", "") == before


async def test_an_empty_session_is_not_listed(harness: CommandHarness) -> None:
    await harness.talk("tea")
    await harness.say("/reset")
    await harness.say("/reset")
    lines = (await harness.say("/sessions")).splitlines()
    assert lines[0].endswith("0 messages: nothing said yet ← you are here")
    assert lines[1].startswith("2. ") and "tea" in lines[1]
    assert lines[2:] == ["", "/resume NUMBER continues one of them."]


async def test_only_the_newest_are_listed_and_the_live_one(harness: CommandHarness) -> None:
    await harness.talk("tea0")
    oldest = await harness.live()
    for number in range(1, 12):
        await harness.say("/reset")
        await harness.talk(f"tea{number}")
    await harness.say(f"/resume {oldest}")
    lines = (await harness.say("/sessions")).splitlines()
    assert [line.split(".")[0] for line in lines[:-2]] == [str(number) for number in range(1, 12)]
    assert "tea2." in lines[9] and "tea0" in lines[10] and lines[10].endswith("← you are here")


@pytest.mark.parametrize("wanted", ["0", "3", "²", "ses_nope", "Robert'); DROP TABLE sessions;--", "-1"])
async def test_what_does_not_exist_is_not_resumed(harness: CommandHarness, wanted: str) -> None:
    """The conversation stays in its session."""
    await harness.talk("tea")
    live = await harness.live()
    assert await harness.say(f"/resume {wanted}") == UNKNOWN
    assert await harness.live() == live


async def test_a_foreign_session_is_as_unknown_as_a_forged_one(harness: CommandHarness) -> None:
    """The answer is the same, also for another chat of the same person."""
    ada = Person(Address("telegram", "1"), "telegram:1", "telegram:1")
    bob = Person(Address("telegram", "2"), "telegram:2", "telegram:2", is_admin=True)
    harness.llm.then("Noted.", "Noted.")
    await harness.say("A secret.", ada)
    secret = await harness.live()
    await harness.say("Hello.", bob)
    live = await harness.live()
    assert await harness.say(f"/resume {secret}", bob) == UNKNOWN
    assert await harness.say(f"/resume {secret[:12]}u", bob) == UNKNOWN
    assert await harness.live() == live


async def test_an_id_can_be_shortened(harness: CommandHarness) -> None:
    await harness.talk("tea")
    old = await harness.live()
    await harness.say("/reset")
    assert await harness.say("/resume ses_") == "More than one session matches; write more of the name or id."
    assert "Back in the session" in await harness.say(f"/resume {old[:-4]}")
    assert await harness.say(f"/resume {old}") == "You are in that session already."


async def test_a_branch_goes_its_own_way(harness: CommandHarness) -> None:
    """New messages of one side are not in the other, and the branching point can be resumed."""
    await harness.talk("tea")
    trunk, before = await harness.live(), await harness.history()
    told = await harness.say("/branch the milk  question")
    assert told.startswith("You are in a branch now, “the milk question”, with all that was said so far.")
    assert f"`/resume {trunk}`" in told
    assert await harness.history() == before
    session = await harness.store.sessions.session(await harness.live())
    assert (session.parent_id, session.reason) == (trunk, "branch")
    await harness.talk("milk")
    await harness.say(f"/resume {trunk}")
    await harness.talk("honey")
    assert await harness.subjects() == ["tea", "honey"]
    listed = (await harness.say("/sessions")).splitlines()
    assert "4 messages: the milk question" in listed[0] and listed[1].endswith("← you are here")
    await harness.say("/resume THE MILK question")
    assert await harness.subjects() == ["tea", "milk"]


async def test_the_name_of_a_branch_survives_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as harness:
        await harness.talk("tea")
        await harness.say("/branch milk")
    async with opened(tmp_path) as harness:
        assert "2 messages: milk ← you are here" in await harness.say("/sessions")


async def test_nothing_to_branch_off_from(harness: CommandHarness) -> None:
    assert (await harness.say("/branch")).startswith("There is nothing to branch off from")


async def test_the_engine_is_another_one_after_a_resume(harness: CommandHarness) -> None:
    """A compaction then works on the resumed session."""
    await harness.talk(*(f"tea{number}" for number in range(12)))
    await harness.say("/compress")
    old = await harness.live()
    await harness.say("/reset")
    await harness.talk(*(f"milk{number}" for number in range(12)))
    assert "Compressed" in await harness.say("/compress")
    await harness.say(f"/resume {old}")
    await harness.talk(*(f"more{number}" for number in range(12)))
    assert "Compressed" in await harness.say("/compress")
    assert "milk" not in "".join(message.content for message in await harness.history())


async def test_commands_wait_for_the_running_turn(harness: CommandHarness) -> None:
    """A branch typed during a turn contains the whole answer."""
    gate = asyncio.Event()
    harness.llm.then(["Slowly", gate, "."])
    await harness.send("Speak.")
    await harness.until(TextDelta)
    await harness.send("/branch")
    gate.set()
    await harness.until(TurnDone)
    await harness.until(TurnDone)
    assert (await harness.store.sessions.session(await harness.live())).reason == "branch"
    assert [message.content for message in await harness.history()] == ["Speak.", "Slowly."]


async def test_a_resumed_session_does_not_end_by_itself_at_once(tmp_path: Path) -> None:
    """Its messages are old, but it was just resumed."""
    async with opened(tmp_path, sessions=SessionsConfig(reset="idle", idle_minutes=30)) as harness:
        conversation = await harness.store.sessions.open_conversation(
            harness.who.address, person=harness.who.person
        )
        old = [
            Message("user", "Tell me of tea.", created_at=0.0),
            Message("assistant", "Tea.", created_at=0.0),
        ]
        await harness.store.sessions.append(conversation.live_session_id, old)
        harness.llm.then("Good morning.", "Still tea.", "Tea, once more.")
        assert "a new session begins" in await harness.say("Hello.")
        await harness.say("/resume 2")
        assert await harness.say("And now?") == "Still tea."
        assert (await harness.say("/retry")).endswith("\nTea, once more.")
        await harness.say("/undo")
        assert await harness.subjects() == ["tea"]
