"""Each model fault at each moment: the person gets an answer or an error message, and can continue.

Here each fault meets a whole bot, over a real socket and through the real client. Other tests of these faults, below
`tests/unit`:

| | as one of our errors | retried or continued | in the loop |
|---|---|---|---|
| overloaded, silent | `gateway/models/test_litellm_errors.py` | `agent/test_retry.py`, `test_litellm_resilient.py` | |
| cut | the same | the same | `agent/test_loop.py`: the shown text is stored |
| overflow | the same | | `agent/test_compaction.py`: compacted, then retried |
| malformed call | `gateway/models/test_litellm_answers.py` | | `agent/test_loop.py` |
| a summary that fails | | | `agent/test_context_compressor_failures.py` |
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio
import stamina
from blockbuster import blockbuster_ctx

from agent.events import Compacted, Notice, TurnDone, TurnEvent, TurnFailed
from agent.llm.retry import CONTINUE, RetryingLLM
from agent.messages import Message
from agent.tool import ToolContext, tool
from gateway.chat.delivery.text_message import CURSOR
from gateway.models.litellm_client import LiteLLMClient
from gateway.store.sqlite.store import SqliteStore
from tests.fakes.model_server import Seen
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Call, Failure, Reply
from tests.support.fault_harness import open_harness
from tests.support.long_chat import is_summary_prompt

# Together: litellm is loaded once, and the moments of a fault are lived through at the same time.
pytestmark = pytest.mark.asyncio(loop_scope="module")

Fault = Literal["overloaded", "cut", "silent", "overflow", "malformed call"]
Moment = Literal["first call", "after a tool", "summary"]
FAULTS: list[Fault] = ["overloaded", "cut", "silent", "overflow", "malformed call"]
MOMENTS: list[Moment] = ["first call", "after a tool", "summary"]

SILENCE = 0.6
"""What a silent provider is given. A loopback call takes a hundredth of that."""
WINDOW = 6_000
QUESTION, NEXT_QUESTION = "What is the matter?", "And now?"
ANSWER, NEXT_ANSWER = "Nothing is the matter.", "All is well."
ALWAYS = 10**9


@tool()
async def look(ctx: ToolContext, where: str) -> str:
    """Looks around."""
    return f"There is nothing in the {where}."


class Provider:
    """Answer like a model, except for this many calls at the chosen moment."""

    def __init__(self, server: FakeOpenAI, fault: Fault, moment: Moment, times: int) -> None:
        self.times = times
        self._server = server
        self._fault = fault
        self._moment = moment
        self._has_begun = False
        """From then on it is every call of the turn."""

    def __call__(self, seen: Seen) -> Reply | Failure:
        newest = seen.body["messages"][-1]
        moment: Moment = "first call"
        if is_summary_prompt(seen):
            moment = "summary"
        elif any(message["role"] == "tool" for message in seen.body["messages"][-3:]):
            moment = "after a tool"
        if self.times and (moment == self._moment or self._has_begun):
            self._has_begun = self._moment != "summary"
            self.times -= 1
            return self._trouble()
        if moment == "summary":
            return Reply("## Goal\nTo find out what is the matter.")
        if newest["content"] == NEXT_QUESTION:
            return Reply(NEXT_ANSWER)
        if moment == "first call" and self._moment == "after a tool" and newest["content"] == QUESTION:
            return Reply("I look. ", tool_calls=[Call("look", {"where": "attic"})])
        return Reply(ANSWER.removeprefix("Nothing is")) if newest["content"] == CONTINUE else Reply(ANSWER)

    def _trouble(self) -> Reply | Failure:
        is_streamed = self._moment != "summary"
        match self._fault:
            case "overloaded":
                return Failure(529)
            case "overflow":
                return self._server.overflow_failure()
            case "cut":
                return Reply(ANSWER, trouble="cut", after=2) if is_streamed else Reply(trouble="drop")
            case "silent":
                return Reply(ANSWER, hold=True, after=2) if is_streamed else Reply(hold=True)
            case "malformed call":
                return Reply(tool_calls=[Call("look", '{"where": "att')])


@dataclass(frozen=True, slots=True)
class Outcome:
    first: list[TurnEvent]
    second: list[TurnEvent]
    shown: list[str]
    said: list[tuple[str, str]]
    earlier: list[tuple[str, str]]
    is_idle: bool
    refusals: list[str]


class Day:
    def __init__(self, workspaces: Path) -> None:
        self._workspaces = workspaces
        self._outcomes: dict[Fault, dict[tuple[Moment, bool], asyncio.Task[Outcome]]] = {}

    async def outcome(self, fault: Fault, moment: Moment, *, lasts: bool) -> Outcome:
        if fault not in self._outcomes:
            cells = [(each, lasting) for each in MOMENTS for lasting in (False, True)]
            self._outcomes[fault] = {cell: asyncio.create_task(self._live(fault, *cell)) for cell in cells}
        return await self._outcomes[fault][moment, lasts]

    async def _live(self, fault: Fault, moment: Moment, lasts: bool) -> Outcome:
        folder = await asyncio.to_thread(tempfile.mkdtemp, dir=self._workspaces)
        store = await SqliteStore.open(Path(folder) / "state.db")
        async with FakeOpenAI() as server:
            provider = Provider(server, fault, moment, ALWAYS if lasts else 1)
            server.script(provider)
            client = LiteLLMClient(
                "openai/gpt-4o-mini",
                context_length=WINDOW,
                supports_tools=True,
                api_key=server.api_key,
                base_url=server.base_url,
                timeout=SILENCE if fault == "silent" else 30.0,
            )
            llm = RetryingLLM([client], attempts=2)
            async with open_harness(llm, store=store, tools=[look], workspaces=self._workspaces) as harness:
                earlier = await _fill(store, (await harness.conversation()).live_session_id, moment)
                first = await harness.turn(QUESTION)
                provider.times = 0
                second = await harness.turn(NEXT_QUESTION)
                await harness.close()
                shown = harness.service.texts()
                said, is_idle = await harness.said(), await harness.is_idle()
            await llm.close()
            await store.close()
            return Outcome(first, second, shown, said, earlier, is_idle, server.refusals)


async def _fill(store: SqliteStore, session_id: str, moment: Moment) -> list[tuple[str, str]]:
    """What was said before: nearly too much, if there is to be a summary."""
    if moment != "summary":
        return []
    said = [
        Message(role, f"This is {role} {number}. " + "There is a lot to say. " * 20)
        for number in range(24)
        for role in ("user", "assistant")
    ]
    await store.sessions.append(session_id, said)
    return [(message.role, message.content) for message in said]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def day(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Day]:
    with stamina.set_testing(True, attempts=2, cap=True):
        yield Day(tmp_path_factory.mktemp("workspaces"))


@pytest.fixture(autouse=True)
def nothing_blocks() -> Iterator[None]:
    """As everywhere, but litellm may ask whether `$SSL_CERT_FILE` exists when it opens a connection pool."""
    with blockbuster_ctx(["agent", "gateway"]) as blockbuster:
        may_stat = ("get_ssl_verify", "get_ssl_configuration")
        blockbuster.functions["os.stat"].can_block_in("custom_httpx/http_handler.py", may_stat)
        yield


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_the_model(day: Day, fault: Fault, moment: Moment, lasts: bool) -> None:
    """The first message meets it; the second, when it is over, is answered as if nothing had been."""
    outcome = await day.outcome(fault, moment, lasts=lasts)
    end = outcome.first[-1]
    assert isinstance(end, TurnDone if _is_answered(fault, moment, lasts) else TurnFailed), outcome.first
    if isinstance(end, TurnDone):
        assert any(ANSWER in text for text in outcome.shown)
        assert end.text == ANSWER
    else:
        assert any(text == f"⚠ {end.error}" for text in outcome.shown), outcome.shown
    assert any(isinstance(event, Compacted) for event in outcome.first) == (moment == "summary")
    assert outcome.second[-1] == TurnDone(NEXT_ANSWER)
    assert outcome.shown[-1] == NEXT_ANSWER
    assert not any(CURSOR in text for text in outcome.shown)
    assert outcome.is_idle
    assert outcome.said[: len(outcome.earlier)] == outcome.earlier
    asked = [text for role, text in outcome.said[len(outcome.earlier) :] if role == "user"]
    assert asked == [QUESTION, NEXT_QUESTION]
    notices = {event.text for event in outcome.first if isinstance(event, Notice)}
    seen = "".join(text for text in outcome.shown if text not in notices and text[0] not in "⚠🗜")
    stored = "".join(text for role, text in outcome.said[len(outcome.earlier) :] if role == "assistant")
    assert "".join(seen.split()) == "".join(stored.split())
    assert outcome.refusals == []


def _is_answered(fault: Fault, moment: Moment, lasts: bool) -> bool:
    """A summary is not needed for an answer. A window that is too small for a short conversation stays too small."""
    if moment == "summary":
        return True
    return not lasts and fault != "overflow"
