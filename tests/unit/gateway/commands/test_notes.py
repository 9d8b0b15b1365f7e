"""Notes of an engine, as commands meet them: they go where their request goes, and are nobody's words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.context_compressor import ContextCompressor
from agent.errors import ModelNotAvailable
from agent.llm import LLMClient
from agent.messages import ChatDict
from agent.testing import ScriptedLLM
from tests.support.command_harness import WINDOW, CommandHarness, furnished


class Hinting(ContextCompressor):
    """The built-in engine, with a hint for every message."""

    def __init__(self) -> None:
        super().__init__(WINDOW, protect_last_n=2, summarize=lambda prompt, limit: "## Goal\nTo test.")

    def hint(self, messages: list[ChatDict]) -> str | None:
        return "[Remember the xylophone.]"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[CommandHarness]:
    def nobody(name: str) -> LLMClient:
        raise ModelNotAvailable

    llm = ScriptedLLM(context_length=WINDOW)
    async with furnished(tmp_path, llm, nobody, engine=Hinting) as at:
        yield CommandHarness(at.gateway, at.store, llm, {})


async def kinds(desk: CommandHarness) -> str:
    """A letter for each message of the context."""
    return "".join(message.kind[0] for message in await desk.history())


async def test_undo_takes_a_note_out_with_its_request(desk: CommandHarness) -> None:
    """And looks past it: what was taken out is named by the person's words."""
    await desk.talk("tea", "milk")
    assert await kinds(desk) == "snssns"
    assert (await desk.say("/undo")).startswith("Taken out: “Tell me of milk.")
    assert await kinds(desk) == "sns"
    assert (await desk.say("/undo")).startswith("Taken out: “Tell me of tea.")
    assert await kinds(desk) == ""
    assert (await desk.say("/undo")).startswith("There is nothing to undo.")


async def test_undo_of_a_message_that_got_a_note_and_no_answer(desk: CommandHarness) -> None:
    """The model failed; the note is the last message there is."""
    await desk.talk("tea")
    desk.llm.then(ModelNotAvailable())
    await desk.say("Tell me of milk.")
    assert await kinds(desk) == "snssn"
    assert (await desk.say("/undo")).startswith("Taken out: “Tell me of milk.")
    assert await kinds(desk) == "sns"


async def test_retry_asks_for_the_request_again(desk: CommandHarness) -> None:
    """Not for the note behind it; the new turn may have a note of its own."""
    await desk.talk("tea")
    desk.llm.then("Another answer.")
    assert "Once more: “Tell me of tea." in await desk.say("/retry")
    assert await kinds(desk) == "sns"
    assert (await desk.history())[0].content.startswith("Tell me of tea.")


async def test_nobody_is_shown_a_note_or_has_it_counted(desk: CommandHarness) -> None:
    """Not in a transcript, a search, a title or a number."""
    await desk.talk("tea", "milk")
    assert all(
        "xylophone" not in each.content for each in await desk.store.sessions.transcript(desk.conversation_id)
    )
    assert await desk.store.sessions.search("xylophone") == []
    assert ", 4 messages," in await desk.say("/status")
    assert (await desk.say("/compress --preview")).startswith("4 messages, ")
    listed = await desk.say("/sessions")
    assert "4 messages: “Tell me of tea." in listed and "xylophone" not in listed


async def test_a_branch_has_the_notes_of_what_it_branched_off_from(desk: CommandHarness) -> None:
    """Once each, so that what the provider has cached is still the beginning."""
    await desk.talk("tea")
    before = await desk.history()
    left = await desk.live()
    await desk.say("/branch")
    assert await desk.history() == before
    await desk.talk("milk")
    assert await kinds(desk) == "snssns"
    assert "with 2 messages" in await desk.say(f"/resume {left}")
    assert await desk.history() == before


async def test_undo_compress_brings_notes_back_and_takes_the_newer_ones_along(desk: CommandHarness) -> None:
    """Each stands behind its own request again."""
    await desk.talk(*"abcdefgh")
    before = await desk.history()
    assert (await desk.say("/compress")).startswith("Compressed: ")
    assert len(await desk.history()) < len(before)
    await desk.talk("i")
    since = (await desk.history())[-3:]
    assert "messages" in await desk.say("/undo-compress")
    assert await desk.history() == [*before, *since]
    assert await kinds(desk) == "sns" * 9


async def test_undo_after_a_compaction_looks_past_the_note(desk: CommandHarness) -> None:
    """The newest exchange is kept whole by the engine, and can still be taken out."""
    await desk.talk(*"abcdefgh")
    await desk.say("/compress")
    assert (await desk.say("/undo")).startswith("Taken out: “Tell me of h.")
