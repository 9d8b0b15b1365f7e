"""`/model`: the model of one conversation."""

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


async def test_everyone_sees_the_model_and_the_choices(tmp_path: Path) -> None:
    """Only admins read how to switch."""
    async with opened(tmp_path, small()) as harness:
        about, others = (await harness.say("/model", GUEST)).splitlines()
        assert about == "`scripted/model` (window 8,000 tokens) answers in this conversation, the default."
        assert others == "Also set up: `scripted/small`"
        assert "/model default goes back to `scripted/model`" in await harness.say("/model", ADMIN)


async def test_only_admins_switch(tmp_path: Path) -> None:
    async with opened(tmp_path, small()) as harness:
        for wanted in ("scripted/small", "default", "nonsense"):
            assert await harness.say(f"/model {wanted}", GUEST) == "Only an admin may switch the model."
        assert harness.others["scripted/small"].requests == []


async def test_a_switched_conversation_is_answered_by_the_other_model(tmp_path: Path) -> None:
    """The pinned prompt stays, tools are left out if the model has none, and usage counts for the new model."""
    async with opened(tmp_path, other := small("ok", "Small talk.")) as harness:
        harness.llm.then("Big words.", "Other words.")
        await harness.say("Hi.", ADMIN)
        told = await harness.say("/model scripted/small", ADMIN)
        assert told == (
            "`scripted/small` (window 1,000 tokens, no tools) answers in this conversation from now on."
        )
        await harness.send("And you?", ADMIN)
        events = await harness.until(TurnDone)
        assert events[-1] == TurnDone("Small talk.")
        [reported] = [event for event in events if isinstance(event, UsageReported)]
        assert (reported.model, reported.context_length) == ("scripted/small", 1_000)
        request = other.requests[-1]
        assert request.tools == () and harness.llm.requests[0].tools
        assert request.messages[0] == harness.llm.requests[0].messages[0]
        assert "Model: scripted/small, window 1,000 tokens" in await harness.say("/status", ADMIN)
        assert "of 1,000 tokens" in await harness.say("/usage", ADMIN)
        assert await harness.say("Hi.", GUEST) == "Other words."


async def test_back_to_the_default(tmp_path: Path) -> None:
    """`default` and the name of the configured model both work."""
    async with opened(tmp_path, small("ok", "ok")) as harness:
        harness.others["scripted/model"] = ScriptedLLM()
        for name in ("default", "scripted/model"):
            await harness.say("/model scripted/small", ADMIN)
            assert "`scripted/model` (window 8,000 tokens) answers" in await harness.say(
                f"/model {name}", ADMIN
            )
            harness.llm.then("Here again.")
            assert await harness.say("Hi.", ADMIN) == "Here again."
        assert harness.others["scripted/model"].closed, "the one that was built only to learn its name"


async def test_the_choice_survives_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path, small("ok")) as harness:
        await harness.say("/model scripted/small", ADMIN)
    async with opened(tmp_path, small("Still me.")) as harness:
        assert await harness.say("Hi.", ADMIN) == "Still me."


async def test_a_choice_that_is_gone_costs_no_message(tmp_path: Path) -> None:
    """The configured model answers, and /model says so."""
    async with opened(tmp_path, small("ok")) as harness:
        await harness.say("/model scripted/small", ADMIN)
    async with opened(tmp_path) as harness:
        harness.llm.then("I am here.")
        assert await harness.say("Hi.", ADMIN) == "I am here."
        assert "`scripted/model`" in await harness.say("/model", ADMIN)


async def test_a_model_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    """The answer names the reason, and nothing changes."""
    async with opened(tmp_path, small(ModelOverloaded())) as harness:
        assert await harness.say("/model scripted/nothing", ADMIN) == (
            "The model was not switched: `scripted/nothing` cannot be used here. Nobody is known to serve it."
        )
        assert str(ModelOverloaded()) in await harness.say("/model scripted/small", ADMIN)
        harness.llm.then("Still me.")
        assert await harness.say("Hi.", ADMIN) == "Still me."


async def test_the_question_whether_it_answers_is_paid_for_and_counted(tmp_path: Path) -> None:
    """The test call does not count as a turn."""
    other = ScriptedLLM([Completion("ok", usage=Usage(7, 1))], model="scripted/other", context_length=9_000)
    async with opened(tmp_path, other) as harness:
        await harness.say("/model scripted/other", ADMIN)
        usage = await harness.store.sessions.usage(conversation_id=harness.conversation_id)
        assert (usage.prompt_tokens, usage.completion_tokens) == (7, 1)
        assert (await harness.store.sessions.session(await harness.live())).prompt_tokens is None


async def test_a_stop_while_it_is_asked_changes_nothing(tmp_path: Path) -> None:
    slow = ScriptedLLM([["Well", asyncio.Event()]], model="scripted/slow")
    async with opened(tmp_path, slow) as harness:
        await harness.send("/model scripted/slow", ADMIN)
        while not slow.requests:  # noqa: ASYNC110 - a command tells nothing until it is done
            await asyncio.sleep(0.001)
        await harness.send("/stop", ADMIN)
        await harness.until(TurnDone)
        harness.llm.then("Still me.")
        assert await harness.say("Hi.", ADMIN) == "Still me."


async def test_a_smaller_window_is_kept_to_before_the_next_answer(tmp_path: Path) -> None:
    """The context is compacted first, with the thresholds of the new window, and the answer says so."""
    other = ScriptedLLM(["ok"], model="scripted/small", context_length=2_000)
    async with opened(tmp_path, other) as harness:
        harness.who = ADMIN
        await harness.talk(*(f"tea{number}" for number in range(12)))
        harness.llm.then(Completion("Enough.", usage=Usage(3_000, 10)))
        await harness.say("Is it much?")
        assert "older messages are summarised" in await harness.say("/model scripted/small")
        other.then("It fits.")
        await harness.send("And now?")
        events = await harness.until(TurnDone)
        [compacted] = [event for event in events if isinstance(event, Compacted)]
        assert events[-1] == TurnDone("It fits.")
        assert "To test." in str(other.requests[-1].messages)
        child = await harness.store.sessions.session(compacted.session_id)
        assert (child.reason, child.model) == ("hygiene", "scripted/small")
        assert "compacts at 1,000 tokens" in await harness.say("/status")


async def test_summaries_are_written_by_the_conversations_own_model(tmp_path: Path) -> None:
    default = ScriptedLLM(context_length=8_000)
    other = ScriptedLLM(["ok"], model="scripted/other", context_length=8_000)
    async with furnished(tmp_path, default, lambda name: other, engine=_ordinary) as harness:
        harness.llm, harness.who = other, ADMIN
        await harness.say("/model scripted/other")
        await harness.talk(*(f"tea{number}" for number in range(12)))
        other.then("## Goal\nWritten by the other one.")
        assert "Compressed" in await harness.say("/compress")
        assert "Written by the other one." in str(await harness.history())
        assert default.requests == []


async def test_a_turn_keeps_its_model_to_its_end(tmp_path: Path) -> None:
    """A switch during a turn takes effect after it."""
    async with opened(tmp_path, small("ok")) as harness:
        gate = asyncio.Event()
        harness.llm.then(["Slowly", gate, "."])
        await harness.send("Speak.", ADMIN)
        await harness.until(TextDelta)
        await harness.send("/model scripted/small", ADMIN)
        gate.set()
        assert (await harness.until(TurnDone))[-1] == TurnDone("Slowly.")
        await harness.until(TurnDone)
        assert "scripted/small" in await harness.say("/model", ADMIN)


async def test_cache_markers_follow_the_model(tmp_path: Path) -> None:
    """Only requests to Claude are marked, also if it is not the configured model."""
    claude = ScriptedLLM(["ok", "Hello."], model="anthropic/claude-sonnet-5", context_length=8_000)
    async with opened(tmp_path, claude) as harness:
        harness.llm.then("Hi.", "Hi again.")
        for switch in (f"/model {claude.model}", "/model default"):
            await harness.say("Hello?", ADMIN)
            await harness.say(switch, ADMIN)
        await harness.say("Hello?", ADMIN)
        assert "cache_control" in str(claude.requests[-1].messages)
        assert "cache_control" not in str(harness.llm.requests)
