"""`/model`: each conversation may have a model of its own, and everything that depends on it follows."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from agent.errors import ModelOverloaded
from agent.events import Compacted, TextDelta, TurnDone, UsageReported
from agent.llm import Completion, Usage
from agent.store import Address
from agent.testing import ScriptedLLM
from tests.support.command_harness import Person, furnished, opened

ADMIN = Person(Address("telegram", "1"), "telegram:1", "telegram:1", is_admin=True)
GUEST = Person(Address("telegram", "2"), "telegram:2", "telegram:2")


def _ordinary() -> ContextEngine:
    return ContextCompressor(8_000, protect_last_n=2)


def small(*steps: str | ModelOverloaded) -> ScriptedLLM:
    return ScriptedLLM(steps, model="scripted/small", context_length=1_000, supports_tools=False)


async def test_everybody_sees_the_model_and_the_choices(tmp_path: Path) -> None:
    """How to switch is told only to those who may."""
    async with opened(tmp_path, small()) as desk:
        about, others = (await desk.say("/model", GUEST)).splitlines()
        assert about == "`scripted/model` (window 8,000 tokens) answers in this conversation, the default."
        assert others == "Also set up: `scripted/small`"
        assert "/model default goes back to `scripted/model`" in await desk.say("/model", ADMIN)


async def test_only_admins_switch(tmp_path: Path) -> None:
    """And neither the name nor `default` gets a guest past that."""
    async with opened(tmp_path, small()) as desk:
        for wanted in ("scripted/small", "default", "nonsense"):
            assert await desk.say(f"/model {wanted}", GUEST) == "Only an admin may switch the model."
        assert desk.others["scripted/small"].requests == []


async def test_a_switched_conversation_is_answered_by_the_other_model(tmp_path: Path) -> None:
    """This one only, with the prompt that was pinned, without tools where it has none, and counted as its own."""
    async with opened(tmp_path, other := small("ok", "Small talk.")) as desk:
        desk.llm.then("Big words.", "Other words.")
        await desk.say("Hi.", ADMIN)
        told = await desk.say("/model scripted/small", ADMIN)
        assert told == (
            "`scripted/small` (window 1,000 tokens, no tools) answers in this conversation from now on."
        )
        await desk.send("And you?", ADMIN)
        events = await desk.until(TurnDone)
        assert events[-1] == TurnDone("Small talk.")
        [reported] = [event for event in events if isinstance(event, UsageReported)]
        assert (reported.model, reported.context_length) == ("scripted/small", 1_000)
        request = other.requests[-1]
        assert request.tools == () and desk.llm.requests[0].tools
        assert request.messages[0] == desk.llm.requests[0].messages[0]
        assert "Model: scripted/small, window 1,000 tokens" in await desk.say("/status", ADMIN)
        assert "of 1,000 tokens" in await desk.say("/usage", ADMIN)
        assert await desk.say("Hi.", GUEST) == "Other words."


async def test_the_way_back(tmp_path: Path) -> None:
    """By `default` or by the configured model's own name."""
    async with opened(tmp_path, small("ok", "ok")) as desk:
        desk.others["scripted/model"] = ScriptedLLM()
        for name in ("default", "scripted/model"):
            await desk.say("/model scripted/small", ADMIN)
            assert "`scripted/model` (window 8,000 tokens) answers" in await desk.say(f"/model {name}", ADMIN)
            desk.llm.then("Here again.")
            assert await desk.say("Hi.", ADMIN) == "Here again."
        assert desk.others["scripted/model"].closed, "the one that was built only to learn its name"


async def test_the_choice_survives_a_restart(tmp_path: Path) -> None:
    """It is kept with the conversation."""
    async with opened(tmp_path, small("ok")) as desk:
        await desk.say("/model scripted/small", ADMIN)
    async with opened(tmp_path, small("Still me.")) as desk:
        assert await desk.say("Hi.", ADMIN) == "Still me."


async def test_a_choice_that_is_gone_costs_no_message(tmp_path: Path) -> None:
    """After the settings have changed, the configured model answers, and /model tells so."""
    async with opened(tmp_path, small("ok")) as desk:
        await desk.say("/model scripted/small", ADMIN)
    async with opened(tmp_path) as desk:
        desk.llm.then("I am here.")
        assert await desk.say("Hi.", ADMIN) == "I am here."
        assert "`scripted/model`" in await desk.say("/model", ADMIN)


async def test_a_model_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    """An unknown name as well as one that cannot be asked: the sentence says why, and nothing has changed."""
    async with opened(tmp_path, small(ModelOverloaded())) as desk:
        assert await desk.say("/model scripted/nothing", ADMIN) == (
            "The model was not switched: `scripted/nothing` cannot be used here. Nobody is known to serve it."
        )
        assert str(ModelOverloaded()) in await desk.say("/model scripted/small", ADMIN)
        desk.llm.then("Still me.")
        assert await desk.say("Hi.", ADMIN) == "Still me."


async def test_the_question_whether_it_answers_is_paid_for_and_counted(tmp_path: Path) -> None:
    """But it is no turn: the window's filling is not taken from it."""
    other = ScriptedLLM([Completion("ok", usage=Usage(7, 1))], model="scripted/other", context_length=9_000)
    async with opened(tmp_path, other) as desk:
        await desk.say("/model scripted/other", ADMIN)
        usage = await desk.store.sessions.usage(conversation_id=desk.conversation_id)
        assert (usage.prompt_tokens, usage.completion_tokens) == (7, 1)
        assert (await desk.store.sessions.session(await desk.live())).prompt_tokens is None


async def test_a_stop_while_it_is_asked_changes_nothing(tmp_path: Path) -> None:
    """A model that never answers does not hold the conversation."""
    slow = ScriptedLLM([["Well", asyncio.Event()]], model="scripted/slow")
    async with opened(tmp_path, slow) as desk:
        await desk.send("/model scripted/slow", ADMIN)
        while not slow.requests:  # noqa: ASYNC110 - a command tells nothing until it is done
            await asyncio.sleep(0.001)
        await desk.send("/stop", ADMIN)
        await desk.until(TurnDone)
        desk.llm.then("Still me.")
        assert await desk.say("Hi.", ADMIN) == "Still me."


async def test_a_smaller_window_is_kept_to_before_the_next_answer(tmp_path: Path) -> None:
    """The context is compacted first, by thresholds of the new window, and the person was told so."""
    other = ScriptedLLM(["ok"], model="scripted/small", context_length=2_000)
    async with opened(tmp_path, other) as desk:
        desk.who = ADMIN
        await desk.talk(*(f"tea{number}" for number in range(12)))
        desk.llm.then(Completion("Enough.", usage=Usage(3_000, 10)))
        await desk.say("Is it much?")
        assert "older messages are summarised" in await desk.say("/model scripted/small")
        other.then("It fits.")
        await desk.send("And now?")
        events = await desk.until(TurnDone)
        [compacted] = [event for event in events if isinstance(event, Compacted)]
        assert events[-1] == TurnDone("It fits.")
        assert "To test." in str(other.requests[-1].messages)
        child = await desk.store.sessions.session(compacted.session_id)
        assert (child.reason, child.model) == ("hygiene", "scripted/small")
        assert "compacts at 1,000 tokens" in await desk.say("/status")


async def test_summaries_are_written_by_the_conversations_own_model(tmp_path: Path) -> None:
    """Where no other model is set up for it, no other model gets to read what was said here."""
    default = ScriptedLLM(context_length=8_000)
    other = ScriptedLLM(["ok"], model="scripted/other", context_length=8_000)
    async with furnished(tmp_path, default, lambda name: other, engine=_ordinary) as desk:
        desk.llm, desk.who = other, ADMIN
        await desk.say("/model scripted/other")
        await desk.talk(*(f"tea{number}" for number in range(12)))
        other.then("## Goal\nWritten by the other one.")
        assert "Compressed" in await desk.say("/compress")
        assert "Written by the other one." in str(await desk.history())
        assert default.requests == []


async def test_a_turn_keeps_its_model_to_its_end(tmp_path: Path) -> None:
    """A switch typed while the model speaks waits for the turn."""
    async with opened(tmp_path, small("ok")) as desk:
        gate = asyncio.Event()
        desk.llm.then(["Slowly", gate, "."])
        await desk.send("Speak.", ADMIN)
        await desk.until(TextDelta)
        await desk.send("/model scripted/small", ADMIN)
        gate.set()
        assert (await desk.until(TurnDone))[-1] == TurnDone("Slowly.")
        await desk.until(TurnDone)
        assert "scripted/small" in await desk.say("/model", ADMIN)


async def test_cache_markers_follow_the_model(tmp_path: Path) -> None:
    """Claude's requests are marked, also where it is not the configured model, and nobody else's."""
    claude = ScriptedLLM(["ok", "Hello."], model="anthropic/claude-sonnet-5", context_length=8_000)
    async with opened(tmp_path, claude) as desk:
        desk.llm.then("Hi.", "Hi again.")
        for switch in (f"/model {claude.model}", "/model default"):
            await desk.say("Hello?", ADMIN)
            await desk.say(switch, ADMIN)
        await desk.say("Hello?", ADMIN)
        assert "cache_control" in str(claude.requests[-1].messages)
        assert "cache_control" not in str(desk.llm.requests)
