"""Every row of the error table, on both routes, streamed and not, provoked by a real server."""

from __future__ import annotations

import asyncio
import gc
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

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
from agent.llm import ChatRequest, TextChunk
from gateway.models.errors import translate
from tests.fakes.model_server import ModelServer
from tests.fakes.script import Call, Reply
from tests.support.model_routes import KEY, Route, ask, collect

TROUBLES: dict[str, tuple[Callable[[ModelServer], None], type[ModelError]]] = {
    "500": (lambda server: server.fail(500), ModelOverloaded),
    "503": (lambda server: server.fail(503), ModelOverloaded),
    "529": (lambda server: server.fail(529), ModelOverloaded),
    "429": (lambda server: server.fail(429), RateLimited),
    "401": (lambda server: server.fail(401), AuthenticationFailed),
    "403": (lambda server: server.fail(403), AuthenticationFailed),
    "402": (lambda server: server.fail(402), QuotaExhausted),
    "404": (lambda server: server.fail(404), ModelNotAvailable),
    "400": (lambda server: server.fail(400), BadRequest),
    "413": (lambda server: server.fail(413), ContextOverflow),
    "422": (lambda server: server.fail(422), BadRequest),
    "overflow": (lambda server: server.overflow(), ContextOverflow),
    "quota": (
        lambda server: server.fail(
            429, "You exceeded your current quota, please check your plan and billing details."
        ),
        QuotaExhausted,
    ),
    "quota that refills": (
        lambda server: server.fail(429, "You exceeded your current quota. Please retry in 34.5s."),
        RateLimited,
    ),
    "no credit": (
        lambda server: server.fail(400, "Your credit balance is too low to access the API."),
        QuotaExhausted,
    ),
    "dropped": (lambda server: server.drop(), NetworkFailed),
}


async def failure_of(route: Route, request: ChatRequest, *, streamed: bool) -> ModelError:
    with pytest.raises(ModelError) as caught:
        if streamed:
            await collect(route.client.stream(request))
        else:
            await route.client.complete(request)
    return caught.value


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("trouble", TROUBLES)
async def test_each_failure_has_its_error(route: Route, trouble: str, streamed: bool) -> None:
    """The foreign error becomes ours, keeps its cause, and is asked for only once."""
    provoke, expected = TROUBLES[trouble]
    provoke(route.server)
    error = await failure_of(route, ask(), streamed=streamed)
    assert type(error) is expected
    assert error.__cause__ is not None
    assert route.client.model in str(error)
    assert len(route.server.requests) == 1


async def test_the_providers_sentence_is_kept_and_nothing_else(route: Route) -> None:
    """A person reads the provider's own words, not litellm's wrapping."""
    route.server.fail(400, 'It\'s the "wrong" day.')
    error = await failure_of(route, ask(), streamed=True)
    assert error.detail == f'{route.client.model} said: It\'s the "wrong" day.'


async def test_a_window_that_is_really_too_small(route: Route) -> None:
    """A prompt the server counts as too long is an overflow, without any script."""
    route.server.context_length = 20
    assert type(await failure_of(route, ask("word " * 50), streamed=True)) is ContextOverflow


async def test_an_unknown_model(route: Route) -> None:
    """A model the provider does not have is not available, rather than a bad request."""
    route.server.models = ("another-model",)
    assert type(await failure_of(route, ask(), streamed=False)) is ModelNotAvailable


async def test_a_model_id_without_a_provider(route: Route) -> None:
    """An id litellm cannot place never reaches the network."""
    client = route.another_client(model="brownie")
    with pytest.raises(ModelNotAvailable) as raised:
        await client.complete(ask())
    assert str(raised.value).endswith("No provider is known for `brownie`.")
    assert not route.server.requests
    await client.close()


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_retry_after_in_seconds(route: Route, streamed: bool) -> None:
    """The header says how long to wait."""
    route.server.fail(429, retry_after=7.5)
    error = await failure_of(route, ask(), streamed=streamed)
    assert isinstance(error, RateLimited) and error.retry_after == 7.5


async def test_retry_after_as_a_date(route: Route) -> None:
    """HTTP also allows a date; one in the past means now."""
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    route.server.fail(429, retry_after=in_a_minute)
    error = await failure_of(route, ask(), streamed=True)
    assert isinstance(error, RateLimited) and error.retry_after is not None and 50 < error.retry_after <= 60


async def test_retry_after_in_words(route: Route) -> None:
    """Some providers only say it in the sentence; others do not say it at all."""
    route.server.fail(429, "Resource exhausted. Please retry in 34.5s.")
    route.server.fail(429)
    spoken = await failure_of(route, ask(), streamed=True)
    silent = await failure_of(route, ask(), streamed=True)
    assert isinstance(spoken, RateLimited) and spoken.retry_after == 34.5
    assert isinstance(silent, RateLimited) and silent.retry_after is None


async def test_nobody_listens(route: Route) -> None:
    """A server that is not there is a network failure."""
    client = route.another_client()
    await route.server.__aexit__()
    with pytest.raises(NetworkFailed):
        await client.complete(ask())
    with pytest.raises(NetworkFailed):
        await collect(client.stream(ask()))
    await client.close()


@pytest.mark.parametrize("after", [None, 1], ids=["no headers", "after a word"])
async def test_a_provider_that_falls_silent(route: Route, after: int | None) -> None:
    """Silence longer than the timeout is a failure of the network; text that had come makes it a cut."""
    client = route.another_client(timeout=0.2)
    route.server.hang("Once upon a time", after=after)
    with pytest.raises(StreamCut if after else NetworkFailed):
        await collect(client.stream(ask()))
    await client.close()


@pytest.mark.parametrize("after", [1, 2, None], ids=["a word", "two words", "all words"])
async def test_a_clean_end_without_a_reason_is_a_cut(route: Route, after: int | None) -> None:
    """litellm reports it as a normal stop; it is not one."""
    route.server.cut("Once upon a time", after=after)
    error = await failure_of(route, ask(), streamed=True)
    assert isinstance(error, StreamCut)
    assert error.partial_text == {1: "Once", 2: "Once upon", None: "Once upon a time"}[after]


async def test_a_dropped_stream_is_a_cut(route: Route) -> None:
    """The text that had arrived is kept."""
    route.server.drop("Once upon a time", after=2, hold=True)
    seen = ""
    with pytest.raises(StreamCut) as caught:
        async for event in route.client.stream(ask()):
            assert isinstance(event, TextChunk)
            seen += event.text
            if seen == "Once upon":
                route.server.release()
    assert caught.value.partial_text == seen == "Once upon"


async def test_a_cut_inside_a_tool_call(route: Route) -> None:
    """Half a tool call is dropped: the stream counts as cut, without text."""
    route.server.cut(tool_calls=[Call("weather", {"city": "Oslo"})], after=1)
    error = await failure_of(route, ask(tools=True), streamed=True)
    assert isinstance(error, StreamCut)
    assert error.partial_text == ""


async def test_an_error_event_in_the_middle_of_a_stream(route: Route) -> None:
    """Overloaded after the first words: cut; before them: overloaded."""
    route.server.fail_midway(529, "Once upon a time", after=2)
    route.server.fail_midway(529, "Once upon a time", after=0)
    begun = await failure_of(route, ask(), streamed=True)
    assert isinstance(begun, StreamCut) and begun.partial_text == "Once upon"
    assert type(await failure_of(route, ask(), streamed=True)) is ModelOverloaded


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("key", [KEY, "plain-key-without-a-shape"])
async def test_no_key_in_any_text(route: Route, key: str, streamed: bool) -> None:
    """Neither the error nor the traceback of its causes repeats a key that a provider echoes."""
    route.server.api_key = key
    route.server.fail(401, f"The key {key} is not valid; Authorization: Bearer {key}")
    client = route.another_client(api_key=key)
    error = await failure_of(Route(route.server, client), ask(), streamed=streamed)
    assert "is not valid" in str(error)
    assert key not in "".join(traceback.format_exception(error))
    await client.close()


@pytest.mark.parametrize("after", [None, 2], ids=["before headers", "mid-stream"])
async def test_cancelling_closes_the_request(route: Route, after: int | None) -> None:
    """A turn that is stopped does not leave a request running that costs money."""
    route.server.hang("Once upon a time", after=after)
    turn = asyncio.create_task(collect(route.client.stream(ask())))
    await route.server.waiting()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    await route.server.disconnected()


async def test_cancelling_a_whole_answer_closes_the_request(route: Route) -> None:
    """The same without streaming."""
    route.server.hang("Once upon a time")
    call = asyncio.create_task(route.client.complete(ask()))
    await route.server.waiting()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await route.server.disconnected()


async def test_cancelling_at_any_moment(route: Route) -> None:
    """Wherever a call is, it ends and its request is closed, without a warning."""
    route.server.script(lambda _: Reply("Once upon a time", hold=True, after=2))
    for ticks in range(0, 120, 3):
        turn = asyncio.create_task(collect(route.client.stream(ask())))
        for _ in range(ticks):
            await asyncio.sleep(0)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
    await route.server.watch.wait(lambda: route.server.disconnects == len(route.server.requests) > 0)
    gc.collect()  # an open response or a dropped coroutine would warn now, and warnings are errors


async def test_closing_the_iterator_closes_the_request(route: Route) -> None:
    """A reader that has had enough ends the request."""
    route.server.hang("Once upon a time", after=2)
    events = route.client.stream(ask())
    async for _ in events:
        break
    await route.server.waiting()
    await events.aclose()  # type: ignore[attr-defined]
    await route.server.disconnected()


@pytest.mark.parametrize(
    "text",
    [
        """litellm.APIError: b'{"error": {"message": "It can\\'t be"}}'""",
        'OpenAIException - {"message": "two\nlines"}',
        'OpenAIException - {"message": "a \\q"}',
        'litellm.APIError: b\'{"message": "it can\\\'t", "of": "' + "x" * 20_000 + "\"}'",
    ],
)
def test_an_error_that_only_looks_like_json(text: str) -> None:
    """Every provider error becomes one of our errors."""
    assert isinstance(translate(ValueError(text), model="m"), ModelError)
