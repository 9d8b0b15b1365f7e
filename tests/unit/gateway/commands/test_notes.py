"""Notes of an engine follow their request through commands."""

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
async def harness(tmp_path: Path) -> AsyncIterator[CommandHarness]:
    def nobody(name: str) -> LLMClient:
        raise ModelNotAvailable

    llm = ScriptedLLM(context_length=WINDOW)
    async with furnished(tmp_path, llm, nobody, engine=Hinting) as harness:
        yield CommandHarness(harness.gateway, harness.store, llm, {})


async def kinds(harness: CommandHarness) -> str:
    """Return a letter for each message of the context."""
    return "".join(message.kind[0] for message in await harness.history())


async def test_undo_takes_a_note_out_with_its_request(harness: CommandHarness) -> None:
    """The answer quotes the person's message, not the note."""
    await harness.talk("tea", "milk")
    assert await kinds(harness) == "snssns"
    assert (await harness.say("/undo")).startswith("Taken out: “Tell me of milk.")
    assert await kinds(harness) == "sns"
    assert (await harness.say("/undo")).startswith("Taken out: “Tell me of tea.")
    assert await kinds(harness) == ""
    assert (await harness.say("/undo")).startswith("There is nothing to undo.")


async def test_undo_of_a_message_that_got_a_note_and_no_answer(harness: CommandHarness) -> None:
    """The model failed, so the note is the last message."""
    await harness.talk("tea")
    harness.llm.then(ModelNotAvailable())
    await harness.say("Tell me of milk.")
    assert await kinds(harness) == "snssn"
    assert (await harness.say("/undo")).startswith("Taken out: “Tell me of milk.")
    assert await kinds(harness) == "sns"


async def test_retry_asks_for_the_request_again(harness: CommandHarness) -> None:
    """The new turn may get another note."""
    await harness.talk("tea")
    harness.llm.then("Another answer.")
    assert "Once more: “Tell me of tea." in await harness.say("/retry")
    assert await kinds(harness) == "sns"
    assert (await harness.history())[0].content.startswith("Tell me of tea.")


async def test_notes_are_neither_shown_nor_counted(harness: CommandHarness) -> None:
    """Notes appear in no transcript, search, title or count."""
    await harness.talk("tea", "milk")
    assert all(
        "xylophone" not in each.content
        for each in await harness.store.sessions.transcript(harness.conversation_id)
    )
    assert await harness.store.sessions.search("xylophone") == []
    assert ", 4 messages," in await harness.say("/status")
    assert (await harness.say("/compress --preview")).startswith("4 messages, ")
    listed = await harness.say("/sessions")
    assert "4 messages: “Tell me of tea." in listed and "xylophone" not in listed


async def test_a_branch_has_the_notes_of_what_it_branched_off_from(harness: CommandHarness) -> None:
    """Each note is there once, so the provider's cached prefix stays valid."""
    await harness.talk("tea")
    before = await harness.history()
    left = await harness.live()
    await harness.say("/branch")
    assert await harness.history() == before
    await harness.talk("milk")
    assert await kinds(harness) == "snssns"
    assert "with 2 messages" in await harness.say(f"/resume {left}")
    assert await harness.history() == before


async def test_undo_compress_brings_notes_back_and_takes_the_newer_ones_along(
    harness: CommandHarness,
) -> None:
    """Each note follows its request."""
    await harness.talk(*"abcdefgh")
    before = await harness.history()
    assert (await harness.say("/compress")).startswith("Compressed: ")
    assert len(await harness.history()) < len(before)
    await harness.talk("i")
    since = (await harness.history())[-3:]
    assert "messages" in await harness.say("/undo-compress")
    assert await harness.history() == [*before, *since]
    assert await kinds(harness) == "sns" * 9


async def test_undo_after_a_compaction_looks_past_the_note(harness: CommandHarness) -> None:
    await harness.talk(*"abcdefgh")
    await harness.say("/compress")
    assert (await harness.say("/undo")).startswith("Taken out: “Tell me of h.")
