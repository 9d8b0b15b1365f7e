"""A chain of models: what it retries, when it falls back, and that nothing is ever shown twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import stamina
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    ModelError,
    ModelNotAvailable,
    ModelOverloaded,
    NetworkFailed,
    QuotaExhausted,
    RateLimited,
    StreamCut,
)
from agent.llm import ChatRequest, Completion, LLMEvent, Retrying, TextChunk
from agent.llm.retry import CONTINUE, RetryingLLM
from agent.messages import ToolCall
from agent.prompt_caching import apply_anthropic_cache_control
from agent.testing import ScriptedLLM, Step

HELLO = ChatRequest([{"role": "user", "content": "Tell me a story"}], tools=({"type": "function"},))
STORY = "Once upon a time there was a small bear who could not sleep."


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """Retries follow at once; the times are tested where they matter."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


def chain(*scripts: list[Step], attempts: int = 4) -> tuple[RetryingLLM, list[ScriptedLLM]]:
    """Models `scripted/0`, `scripted/1`, ... in a chain."""
    models = [
        ScriptedLLM(script, model=f"scripted/{number}", context_length=1000 + number)
        for number, script in enumerate(scripts)
    ]
    return RetryingLLM(models, attempts=attempts), models


@contextmanager
def recorded(waits: list[float]) -> Iterator[None]:
    """Real waits, written down."""
    with stamina.set_testing(False):
        stamina.instrumentation.set_on_retry_hooks([lambda details: waits.append(details.wait_for)])
        try:
            yield
        finally:
            stamina.instrumentation.set_on_retry_hooks([])


async def play(llm: RetryingLLM, request: ChatRequest = HELLO) -> tuple[str, Completion, list[Retrying]]:
    """What the person saw, the completion, and the notices in between."""
    events: list[LLMEvent] = [event async for event in llm.stream(request)]
    completion = events.pop()
    assert isinstance(completion, Completion)
    seen = "".join(event.text for event in events if isinstance(event, TextChunk))
    return seen, completion, [event for event in events if isinstance(event, Retrying)]


async def test_an_answer_passes_through() -> None:
    """Without trouble the chain is invisible: the same request, the same pieces, the same completion."""
    call = ToolCall("call_1", "look", "{}")
    llm, (model,) = chain([["Let me", " look.", call]])
    seen, completion, notices = await play(llm)
    assert (seen, completion.text, completion.tool_calls, notices) == (
        "Let me look.",
        "Let me look.",
        (call,),
        [],
    )
    assert model.requests == [HELLO]


@pytest.mark.parametrize("error", [ModelOverloaded, NetworkFailed, RateLimited, StreamCut])
@pytest.mark.parametrize("streamed", [True, False])
async def test_passing_trouble_is_tried_again(error: type[ModelError], streamed: bool) -> None:
    """The same model gets another chance, and the person is told why they wait."""
    llm, (model,) = chain([error("once"), error("twice"), "Here I am."])
    if streamed:
        seen, completion, notices = await play(llm)
        assert [notice.model for notice in notices] == ["scripted/0", "scripted/0"]
        assert "twice" in notices[1].reason
        assert seen == completion.text
    else:
        completion = await llm.complete(HELLO)
    assert completion.text == "Here I am."
    assert model.requests == [HELLO] * 3


async def test_then_the_next_model_is_asked() -> None:
    """After its attempts are used up; the completion says which model answered, and what it holds."""
    llm, (first, second) = chain([ModelOverloaded()] * 3, ["Second here."], attempts=3)
    assert (llm.model, llm.context_length) == ("scripted/0", 1000)
    seen, completion, notices = await play(llm)
    assert (seen, completion.model, completion.context_length) == ("Second here.", "scripted/1", 1001)
    assert (llm.model, llm.context_length) == ("scripted/0", 1000), (
        "that is asked first again, also by others"
    )
    assert [notice.model for notice in notices] == ["scripted/0", "scripted/0", "scripted/1"]
    assert (len(first.requests), len(second.requests)) == (3, 1)


async def test_the_first_model_is_asked_first_again() -> None:
    """A fallback serves one request only."""
    llm, _ = chain([AuthenticationFailed(), "First again."], ["Second here."])
    await llm.complete(HELLO)
    assert (await llm.complete(HELLO)).text == "First again."
    assert llm.model == "scripted/0"


@pytest.mark.parametrize("error", [AuthenticationFailed, QuotaExhausted, ModelNotAvailable])
async def test_a_model_that_cannot_help_is_left_at_once(error: type[ModelError]) -> None:
    """No key, no credit, no such model: trying again would change nothing."""
    llm, (first, _) = chain([error()], ["Second here."])
    assert (await llm.complete(HELLO)).text == "Second here."
    assert len(first.requests) == 1


@pytest.mark.parametrize("error", [BadRequest, ContextOverflow])
async def test_a_request_that_is_wrong_is_wrong_everywhere(error: type[ModelError]) -> None:
    """The error is raised at once, because only a changed request can help."""
    llm, (_, second) = chain([error()], ["Second here."])
    with pytest.raises(error):
        await llm.complete(HELLO)
    assert not second.requests


async def test_when_nobody_answers_the_last_error_is_raised() -> None:
    """With every model tried."""
    llm, (first, second) = chain([ModelOverloaded()] * 2, [QuotaExhausted()], attempts=2)
    with pytest.raises(QuotaExhausted):
        await play(llm)
    assert (len(first.requests), len(second.requests)) == (2, 1)


async def test_a_model_without_tools_is_offered_none() -> None:
    """The fallback may be a simpler model."""
    simple = ScriptedLLM(["I will try."], supports_tools=False)
    llm = RetryingLLM([ScriptedLLM([QuotaExhausted()]), simple])
    await llm.complete(HELLO)
    assert simple.requests[0].tools == ()
    assert llm.supports_tools, "the first model may be back with the next request"


async def test_a_fallback_that_knows_no_cache_markers_gets_none() -> None:
    """A strict server refuses what it does not know."""
    other = ScriptedLLM(["I will try."], model="openai/other")
    llm = RetryingLLM([ScriptedLLM([QuotaExhausted()], model="anthropic/claude-sonnet-4-5"), other])
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}
    marked = apply_anthropic_cache_control([system, user])
    await llm.complete(ChatRequest(marked))
    assert "cache_control" not in str(other.requests[0].messages)


async def test_a_short_rest_is_kept() -> None:
    """`retry_after` is waited for, with a little jitter, instead of the usual backoff."""
    waits: list[float] = []
    with recorded(waits):
        llm = RetryingLLM([ScriptedLLM([RateLimited(retry_after=0.02), "Back."])], first_wait=0.01)
        await llm.complete(HELLO)
    assert len(waits) == 1 and 0.02 <= waits[0] <= 0.03


async def test_backoff_grows_and_is_bounded() -> None:
    """Without a hint the waits double, jittered, up to the longest."""
    waits: list[float] = []
    with recorded(waits):
        model = ScriptedLLM([ModelOverloaded()] * 5 + ["Back."])
        await RetryingLLM([model], attempts=6, first_wait=0.001, longest_wait=0.005).complete(HELLO)
    assert len(waits) == 5
    assert all(0.001 * 2**n <= wait <= 0.001 * 2**n + 0.001 for n, wait in enumerate(waits[:2]))
    assert waits[3:] == pytest.approx([0.005, 0.005])


async def test_a_long_rest_is_not_waited_for() -> None:
    """A model that asks for hours is passed over; alone, it fails with its hint."""
    llm, _ = chain([RateLimited(retry_after=13938)] * 2, ["Second here."])
    assert (await llm.complete(HELLO)).text == "Second here."
    alone, (model,) = chain([RateLimited(retry_after=139)])
    with pytest.raises(RateLimited) as caught:
        await alone.complete(HELLO)
    assert caught.value.retry_after == 139
    assert len(model.requests) == 1


async def test_no_rest_at_all() -> None:
    """`retry_after: 0` means now, not never."""
    llm, _ = chain([RateLimited(retry_after=0), "Back."])
    assert (await llm.complete(HELLO)).text == "Back."


async def test_a_cut_answer_is_continued() -> None:
    """The model gets its own words back and goes on; the person sees one text."""
    llm, (model,) = chain([["Once upon a", StreamCut()], [" time there", " was a bear."]])
    seen, completion, notices = await play(llm)
    assert seen == completion.text == "Once upon a time there was a bear."
    assert len(notices) == 1
    assert model.requests[1].messages == [
        *HELLO.messages,
        {"role": "assistant", "content": "Once upon a"},
        {"role": "user", "content": CONTINUE},
    ]
    assert model.requests[1].tools == HELLO.tools


async def test_a_continuation_that_repeats_the_last_words() -> None:
    """What it says again is not shown again, however it is cut into pieces."""
    llm, _ = chain([["Once upon a time there", StreamCut()], ["upon a", " time th", "ere was a bear."]])
    seen, completion, _ = await play(llm)
    assert seen == completion.text == "Once upon a time there was a bear."


async def test_a_continuation_that_starts_all_over() -> None:
    """Small models do that."""
    llm, _ = chain([["Once", StreamCut()], ["Once upon", " a time."]])
    seen, completion, _ = await play(llm)
    assert seen == completion.text == "Once upon a time."


async def test_indentation_is_no_repetition() -> None:
    """Code that goes on with the same spaces and brackets as before keeps them."""
    llm, _ = chain([["if a {\n        }\n", StreamCut()], ["        }\n    }\n"]])
    seen, _, _ = await play(llm)
    assert seen == "if a {\n        }\n        }\n    }\n"


async def test_another_model_goes_on() -> None:
    """The fallback continues the text of the first model."""
    llm, (_, second) = chain([["Once upon a", StreamCut()], QuotaExhausted()], [" time."])
    seen, completion, _ = await play(llm)
    assert seen == completion.text == "Once upon a time."
    assert second.requests[0].messages[-2]["content"] == "Once upon a"


async def test_a_text_that_cannot_be_finished_is_not_lost() -> None:
    """The error holds what the person has seen."""
    llm, _ = chain([["Once upon", StreamCut()], [" a time", StreamCut()]], attempts=2)
    with pytest.raises(StreamCut) as caught:
        await play(llm)
    assert caught.value.partial_text == "Once upon a time"
    refused, _ = chain([["Once upon", StreamCut()], BadRequest("No.")])
    with pytest.raises(StreamCut) as caught:
        await play(refused)
    assert caught.value.partial_text == "Once upon"
    assert isinstance(caught.value.__cause__, BadRequest)


async def test_a_cut_inside_a_tool_call_is_simply_retried() -> None:
    """Without text there is nothing to continue, and half a tool call is dropped."""
    call = ToolCall("call_1", "look", "{}")
    llm, (model,) = chain([[call, StreamCut()], [call]])
    _, completion, _ = await play(llm)
    assert completion.tool_calls == (call,)
    assert model.requests == [HELLO, HELLO]


async def test_a_cut_answer_may_go_on_with_a_tool_call() -> None:
    """The text before it is part of the completion."""
    call = ToolCall("call_1", "look", "{}")
    llm, _ = chain([["Let me look.", StreamCut()], [call]])
    seen, completion, _ = await play(llm)
    assert (seen, completion.text, completion.tool_calls) == ("Let me look.", "Let me look.", (call,))


async def test_closing_the_chain_closes_the_request() -> None:
    """A reader that leaves does not leave a model talking."""
    gate = asyncio.Event()
    left = asyncio.Event()

    class Talker(ScriptedLLM):
        async def stream(self, request: ChatRequest):  # type: ignore[no-untyped-def,override]
            try:
                async for event in super().stream(request):
                    yield event
            finally:
                left.set()

    events = RetryingLLM([Talker([["Once", gate, " upon"]])]).stream(HELLO)
    assert await anext(events) == TextChunk("Once")
    await events.aclose()  # type: ignore[attr-defined]
    assert left.is_set()


async def test_cancelling_is_not_retried() -> None:
    """A stopped turn stops, also in the middle of an attempt."""
    llm, (model,) = chain([["Once", asyncio.Event()], "Never."])
    events = llm.stream(HELLO)
    assert await anext(events) == TextChunk("Once")
    next_piece = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    next_piece.cancel()
    with pytest.raises(asyncio.CancelledError):
        await next_piece
    assert len(model.requests) == 1


async def test_closing_closes_every_model() -> None:
    """Also those that were never asked."""
    llm, models = chain([], [])
    await llm.close()
    assert all(model.closed for model in models)


def teller(lengths: list[int], repeated: int, size: int) -> list[Step]:
    """Tells the story, is cut after each of `lengths`, and then begins `repeated` characters back."""

    def go_on(length: int | None) -> Step:
        def tell(request: ChatRequest) -> Step:
            continued = request.messages[-1]["content"] == CONTINUE
            shown = request.messages[-2]["content"] if continued else ""
            begin = max(0, len(shown) - repeated)
            part = STORY[begin:] if length is None else STORY[begin : begin + length]
            pieces = [part[at : at + size] for at in range(0, len(part), size)]
            return pieces if length is None else [*pieces, StreamCut()]

        return tell

    return [go_on(length) for length in [*lengths, None]]


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, len(STORY)), max_size=3),
    repeated=st.just(0) | st.integers(20, 40),
    size=st.integers(1, 9),
)
async def test_the_story_is_told_once(lengths: list[int], repeated: int, size: int) -> None:
    """Wherever it is cut, and however much each continuation repeats, the person reads the story as it is."""
    llm, _ = chain(teller(lengths, repeated, size))
    seen, completion, _ = await play(llm)
    assert seen == completion.text == STORY


@settings(deadline=None)
@given(parts=st.lists(st.lists(st.text(alphabet="ab \n熊", max_size=8), max_size=5), min_size=1, max_size=4))
async def test_what_is_seen_is_what_is_stored(parts: list[list[str]]) -> None:
    """The shown text equals the completion's, for any text and any cut."""
    llm, _ = chain([[*part, StreamCut()] for part in parts[:-1]] + [parts[-1]])
    seen, completion, _ = await play(llm)
    assert seen == completion.text
