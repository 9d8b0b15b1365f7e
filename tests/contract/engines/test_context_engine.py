"""Contract of context engines. Every engine must pass it.

It covers every engine in `plugins/context_engine/`, also from other wheels. To test an engine from another place, add
a factory to `FACTORIES`: it takes a context length and returns a fresh instance.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from gateway.plugins.engines import available_engines, engine_factory
from gateway.plugins.loader import Plugins
from tests.support.histories import Chat, assistant, chat, check_sendable, group, system, user

EngineFactory = Callable[[int], ContextEngine]


class KeepNewest(ContextEngine):
    """The least a stranger has to write: no optional method, no argument that the documents do not name."""

    def __init__(self, context_length: int) -> None:
        self.context_length = context_length
        self.threshold_tokens = context_length // 2

    @property
    def name(self) -> str:
        return "keep-newest"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)
        self.last_completion_tokens = usage.get("completion_tokens", 0)
        self.last_total_tokens = usage.get("total_tokens", 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return (self.last_prompt_tokens if prompt_tokens is None else prompt_tokens) >= self.threshold_tokens

    def compress(
        self, messages: list[Chat], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[Chat]:
        newest = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=0)
        self.compression_count += 1
        return [message for message in messages[:newest] if message["role"] == "system"] + messages[newest:]


def compressor(context_length: int) -> ContextEngine:
    return ContextCompressor(context_length, summarize=lambda prompt, max_tokens: "## Goal\nGo on.")


def from_plugins() -> list[EngineFactory]:
    """Return the engines in the project, not those of a state directory."""
    nowhere = Path("no-state-directory")

    def factory(name: str) -> EngineFactory:
        def make(context_length: int) -> ContextEngine:
            given = {"home": nowhere, "plugins": Plugins(), "context_length": context_length}
            return engine_factory(name, compressor=partial(compressor, context_length), **given)()

        make.__name__ = name
        return make

    found = available_engines(nowhere, Plugins(), active="compressor")
    return [factory(info.name) for info in found if info.origin != "built-in"]


FACTORIES: list[EngineFactory] = [compressor, KeepNewest, *from_plugins()]


@pytest.fixture(params=FACTORIES, ids=lambda factory: factory.__name__)
def make_engine(request: pytest.FixtureRequest) -> EngineFactory:
    factory: EngineFactory = request.param
    return factory


@pytest.fixture
def engine(make_engine: EngineFactory) -> ContextEngine:
    return make_engine(200_000)


def long_history() -> list[Chat]:
    history = chat(30, words=200)
    for number in range(10):
        history += group("read_file", f'{{"path": "notes/{number}.md"}}', "line of text " * 200, f"c{number}")
    return [*history, assistant("I have read them."), user("What do they say?")]


def test_it_is_an_engine_with_a_name(engine: ContextEngine) -> None:
    """The name selects it in the configuration."""
    assert isinstance(engine, ContextEngine)
    assert isinstance(engine.name, str) and engine.name


def test_the_six_attributes_are_numbers(engine: ContextEngine) -> None:
    """The host reads them for display without asking."""
    for attribute in (
        *("last_prompt_tokens", "last_completion_tokens", "last_total_tokens"),
        *("threshold_tokens", "context_length", "compression_count"),
    ):
        assert isinstance(getattr(engine, attribute), int), attribute
    assert engine.context_length == 200_000
    assert 0 < engine.threshold_tokens <= 200_000
    assert engine.compression_count == 0


def test_usage_is_taken_over(engine: ContextEngine) -> None:
    """After every model call the engine knows what the provider counted."""
    engine.update_from_response({"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150})
    counted = (engine.last_prompt_tokens, engine.last_completion_tokens, engine.last_total_tokens)
    assert counted == (120, 30, 150)


def test_it_fires_at_the_threshold_and_not_before(engine: ContextEngine) -> None:
    """With a number it is told, and with the last one it was told."""
    assert not engine.should_compress(engine.threshold_tokens - 1)
    assert engine.should_compress(engine.threshold_tokens)
    assert not engine.should_compress()
    engine.update_from_response(
        {"prompt_tokens": engine.threshold_tokens, "completion_tokens": 1, "total_tokens": 2}
    )
    assert engine.should_compress()


@pytest.mark.parametrize(
    "messages",
    [[], [user("hello")], [system()], [system(), user("hello")], long_history()],
    ids=["empty", "one", "system", "two", "long"],
)
def test_compress_returns_a_list_that_can_be_sent(engine: ContextEngine, messages: list[Chat]) -> None:
    """From nothing at all to a long history with tool calls."""
    result = engine.compress(messages)
    assert isinstance(result, list)
    assert all(isinstance(message, dict) and "role" in message for message in result)
    if messages:
        check_sendable(result)


def test_compress_makes_a_long_history_smaller(make_engine: EngineFactory) -> None:
    """And counts that it did."""
    engine = make_engine(8_000)
    assert len(json.dumps(engine.compress(long_history()))) < len(json.dumps(long_history()))
    assert engine.compression_count == 1


def test_compress_takes_the_documented_arguments(make_engine: EngineFactory) -> None:
    """By name, as the host gives them."""
    result = make_engine(8_000).compress(long_history(), current_tokens=7_000, focus_topic="the notes")
    check_sendable(result)


def test_compress_keeps_the_newest_request(make_engine: EngineFactory) -> None:
    """Word for word."""
    assert user("What do they say?") in make_engine(4_000).compress(long_history())


def test_compress_leaves_its_input_alone(make_engine: EngineFactory) -> None:
    """Neither the list nor a message in it may change."""
    messages = long_history()
    before = copy.deepcopy(messages)
    make_engine(4_000).compress(messages)
    assert messages == before


def test_ids_of_the_host_stay_on_kept_messages(make_engine: EngineFactory) -> None:
    """An engine that does not know `message_id` keeps it by keeping the dicts."""
    messages = [{**message, "message_id": f"m{index}"} for index, message in enumerate(long_history())]
    by_id = {message["message_id"]: message for message in messages}
    kept = [message for message in make_engine(4_000).compress(messages) if "message_id" in message]
    assert kept
    assert all(by_id[message["message_id"]]["role"] == message["role"] for message in kept)


def test_the_whole_life_of_a_session(engine: ContextEngine) -> None:
    """Start, usage, split, end: all optional methods are there and ask for nothing."""
    engine.on_session_start("s1", platform="web", model="any", hermes_home="/nowhere")
    engine.update_from_response({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10})
    engine.on_session_start("s2", parent_session_id="s1", boundary_reason="compression", conversation_id="c1")
    engine.on_session_end("s2", [user("bye")])


def test_reset_clears_the_counters(engine: ContextEngine) -> None:
    """`/new` begins at zero."""
    engine.update_from_response({"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10})
    engine.on_session_reset()
    assert (engine.last_prompt_tokens, engine.last_completion_tokens, engine.last_total_tokens) == (0, 0, 0)


def test_another_model_keeps_the_ratio(engine: ContextEngine) -> None:
    """Half of one window becomes half of the other."""
    ratio = engine.threshold_tokens / engine.context_length
    engine.update_model("other/model", 32_000)
    assert engine.context_length == 32_000
    assert engine.threshold_tokens == pytest.approx(32_000 * ratio)


def test_tools_are_well_formed(engine: ContextEngine) -> None:
    """Each has a name, a description and parameters."""
    for tool in engine.get_tool_schemas():
        assert tool["name"] and tool["description"] and tool["parameters"]["type"] == "object"


def test_an_unknown_tool_is_answered_with_an_error(engine: ContextEngine) -> None:
    """In JSON, because the answer goes to the model."""
    assert "error" in json.loads(engine.handle_tool_call("no_such_tool", {}, messages=[]))


def test_the_look_before_a_call_answers(engine: ContextEngine) -> None:
    """A short conversation never needs it."""
    assert engine.should_compress_preflight([user("hello")]) is False


def test_the_status_has_the_standard_fields(engine: ContextEngine) -> None:
    """`/status` shows them for every engine."""
    engine.update_from_response({"prompt_tokens": 50_000, "completion_tokens": 0, "total_tokens": 50_000})
    status = engine.get_status()
    assert status["last_prompt_tokens"] == 50_000
    assert status["threshold_tokens"] == engine.threshold_tokens
    assert status["context_length"] == 200_000
    assert status["compression_count"] == 0
    assert status["usage_percent"] == pytest.approx(25.0)


def test_two_conversations_share_nothing(make_engine: EngineFactory) -> None:
    """One instance each, used in turns."""
    one, other = make_engine(4_000), make_engine(4_000)
    secret = [{**message, "content": f"walrus {message['content']}"} for message in chat(30)]
    one.compress(secret)
    assert "walrus" not in json.dumps(other.compress(chat(30)))
    one.update_from_response({"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18})
    assert other.last_prompt_tokens == 0


def test_the_defaults_are_the_documented_ones() -> None:
    """A subclass that adds nothing gets half of the window as its threshold when it learns of one."""
    engine = KeepNewest(0)
    engine.update_model("any", 10_000, base_url="", api_key="", provider="")
    assert engine.threshold_tokens == 5_000
    assert engine.get_tool_schemas() == []


def test_the_contract_cannot_be_half_fulfilled() -> None:
    """All four members must be there."""

    class Half(ContextEngine):
        name = "half"

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
