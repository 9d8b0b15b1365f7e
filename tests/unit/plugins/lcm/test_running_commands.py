"""What a person does to a conversation, and what the engine then has of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fakes.openai.server import FakeOpenAI
from tests.support import lcm_running_store as stored
from tests.support.hermes_process import HermesProcess, environment, hermes
from tests.support.lcm_running_model import (
    WINDOW,
    LogKeepingModel,
    breaks,
    hints,
    noted,
    page,
    please_call,
    records,
    tool_result,
    user_texts,
    with_lcm,
)
from tests.support.long_chat import Chat, chat
from tests.support.warm import HERMES, run

pytestmark = pytest.mark.asyncio(loop_scope="module")

FACT = "The surveyor Nkemelu measured the well at eleven fathoms."
QUESTION = "How deep is the well that Nkemelu measured?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI(context_length=WINDOW) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def process(
    server: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[HermesProcess]:
    async with hermes(tmp_path_factory.mktemp("lcm"), with_lcm(server)) as process:
        yield process


@pytest.fixture
def model(server: FakeOpenAI) -> Iterator[LogKeepingModel]:
    model = LogKeepingModel(server)
    model.forget()
    yield model
    assert model.refusals == []


async def writes_pages(person: Chat, *numbers: int) -> None:
    for number in numbers:
        done = (await person.say(page(number)))[-1]
        assert done["type"] == "TurnDone" and done["text"].startswith(noted(number)), done


async def long_ago(person: Chat) -> None:
    """The fact has left the window, and nothing is being prepared."""
    await person.say(FACT)
    await writes_pages(person, 0, 1, 2)
    assert (await person.told_at_once("/compress")).startswith("Compressed:")


async def test_a_topic_for_the_summary(process: HermesProcess, model: LogKeepingModel) -> None:
    """It stands in what the summariser is asked, and the person is told."""
    async with chat(process.url, "topic") as person:
        await person.say(FACT)
        await writes_pages(person, 0, 1, 2)
        told = await person.told_at_once("/compress billing")
        assert told.startswith("Compressed:") and told.endswith("Focus: billing.")
        focused = [prompt for prompt in model.summary_prompts if "this topic above all" in prompt]
        assert focused and all("billing" in prompt for prompt in focused)


async def test_a_hint_stays_where_it_is(process: HermesProcess, model: LogKeepingModel) -> None:
    """At the end of its request, in the same place of all that follow, and nowhere that a person looks."""
    async with chat(process.url, "hint") as person:
        await long_ago(person)
        events = await person.say(QUESTION)
        [hint] = hints(model.conversation[-1])
        assert model.conversation[-1].body["messages"][-1]["content"] == hint
        assert "m1 · user · " in hint and "eleven fathoms" in hint and "<outside-" in hint
        await person.say("Thank you.")
        await person.say(QUESTION)
        assert hints(model.conversation[-1]) == [hint], "what was named once is not named again"
        assert breaks(model.conversation) == stored.compactions(process.home, person.conversation_id) == 1

        shown = [json.dumps(events), json.dumps(await person.transcript())]
        shown.append(await person.told_at_once("/search fathoms"))
        shown.append(await person.told_at_once("/sessions"))
    for arguments in (("show",), ("export",), ("export", "--format", "jsonl")):
        command = [
            *HERMES,
            "--config",
            str(process.config_path),
            "sessions",
            *arguments,
            person.conversation_id,
        ]
        done = run(command, env=environment(process.home))
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout)
    assert not any("LCM HINT" in text or "Nobody wrote this" in text for text in shown)
    assert all("fathoms" in text for text in shown[1:3] + shown[4:])


async def test_without_hints(server: FakeOpenAI, model: LogKeepingModel, tmp_path: Path) -> None:
    """`recall_hints: false`."""
    running = hermes(tmp_path / "home", with_lcm(server, recall_hints=False))
    async with running as process, chat(process.url, "hint") as person:
        await long_ago(person)
        await person.say(QUESTION)
    assert records(model.conversation[-1]) and not hints(model.conversation[-1])


async def test_after_a_reset(process: HermesProcess, model: LogKeepingModel) -> None:
    """The model knows nothing of before, nothing reminds it, and what it searches is marked as lying elsewhere."""
    async with chat(process.url, "reset") as person:
        await long_ago(person)
        assert "new session" in await person.told_at_once("/reset")
        await person.say(QUESTION)
        assert user_texts(model.conversation[-1]) == [QUESTION]
        assert not records(model.conversation[-1]) and not hints(model.conversation[-1])
        assert "fathoms" not in str(model.conversation[-1].body)
        await person.say(please_call("lcm_grep", {"query": "fathoms well"}))
        found = tool_result(model.conversation[-1])
        assert "eleven fathoms" in found and "before a reset" in found
        await writes_pages(person, 3, 4, 5)
        assert (await person.told_at_once("/compress")).startswith("Compressed:")
        await person.say(QUESTION)
        assert not any("fathoms" in hint for hint in hints(model.conversation[-1]))
    assert await stored.agree(process.home, person.conversation_id)


async def test_back_and_forth(process: HermesProcess, model: LogKeepingModel) -> None:
    """Undo, branch and undone compaction around compactions: each message is stored once and asked about once."""
    async with chat(process.url, "back and forth") as person:
        await long_ago(person)
        compacted = await _session(person)
        await writes_pages(person, 3)
        assert "Taken out: “Page 3" in await person.told_at_once("/undo")
        await writes_pages(person, 4)
        assert noted(3) not in str(model.conversation[-1].body)
        assert "in a branch now" in await person.told_at_once("/branch idea")
        await writes_pages(person, 5)
        await person.told_at_once(f"/resume {compacted}")
        assert "Undone:" in await person.told_at_once("/undo-compress")
        await person.say("Now all of it again.")
        again = model.conversation[-1]
        assert not records(again)
        assert user_texts(again) == [FACT, *map(page, range(4)), "Now all of it again."]
        await person.told_at_once("/resume idea")
        assert (await person.told_at_once("/compress")).startswith("Compressed:")
        await writes_pages(person, 6)
        assert "All is well" in await person.told_at_once("/lcm doctor")
        told = await person.told_at_once("/lcm")
        assert "4 elsewhere" in told, told
    assert await stored.agree(process.home, person.conversation_id)


async def test_other_conversations_of_the_same_person(process: HermesProcess, model: LogKeepingModel) -> None:
    """Found with `everywhere`, read by the id that was given for it."""
    async with chat(process.url, "first of two") as person:
        await person.say("The password of the pantry is butterscotch.")
    key, _ = stored.keys_of(process.home, person.conversation_id)
    async with chat(process.url, "second of two") as person:
        await person.say(please_call("lcm_grep", {"query": "password pantry"}))
        assert "butterscotch" not in tool_result(model.conversation[-1])
        await person.say(please_call("lcm_grep", {"query": "password pantry", "everywhere": True}))
        found = tool_result(model.conversation[-1])
        assert f"c{key}.m1 " in found and "The password of the pantry is butterscotch." in found
        await person.say(please_call("lcm_expand", {"id": f"c{key}.m1"}))
        assert "butterscotch" in tool_result(model.conversation[-1])


async def test_others_may_look_at_the_file_meanwhile(process: HermesProcess, model: LogKeepingModel) -> None:
    """Another process opens it and closes it again, as `hermes doctor` does: what is said then is kept, too."""
    async with chat(process.url, "looked at") as person:
        for number in range(3):
            await person.say(f"Somebody looks, {number}.")
            assert "Messages:" in await person.told_at_once("/lcm")
            assert await stored.agree(process.home, person.conversation_id)


async def test_when_all_is_said(process: HermesProcess) -> None:
    """Hermes is stopped: of all conversations above, both databases hold the same."""
    assert await process.stop() == 0
    conversations = stored.conversations(process.home)
    assert len(conversations) > 4
    for conversation in conversations:
        assert await stored.agree(process.home, conversation, at_the_end=True)


async def _session(person: Chat) -> str:
    status = await person.told_at_once("/status")
    return status.partition("Session: ")[2].partition(",")[0]
