"""Secrets in what tools return: they end there, and come up neither in answers nor in anything made of them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.memory_flush import MemoryFlush
from agent.context_compressor import ContextCompressor
from agent.events import TextDelta, ToolFinished, ToolStarted, TurnDone, TurnEvent
from agent.llm import ChatRequest
from agent.llm.selection import ModelSelector
from agent.loop import Turn
from agent.messages import Message, ToolCall
from agent.redaction import REDACTED, keeping_secret, redact
from agent.redaction.known import StreamRedactor, known_rules
from agent.store import Address, Conversation
from agent.testing import ScriptedLLM
from agent.tool import ApprovalRequest, Tool, ToolContext, tool
from agent.toolbox import OUTPUTS, Toolbox
from agent.tools.memory import memory
from agent.tools.read_file import read_file
from agent.tools.search_files import search_files
from gateway.chat.delivery.status_message import tool_status_text
from gateway.cli.output import describe_call
from gateway.cli.sessions_format import Record
from gateway.platforms.web.renderer import HtmlRenderer, ToolView
from gateway.platforms.web.templating import templates
from gateway.store.sqlite.store import SqliteStore
from tests.support.agents import make_agent
from tests.support.exported import as_jsonl, as_markdown, record_of
from tests.support.log_lines import logging_as_configured
from tests.support.stores import temporary_store
from tests.support.tool_conversation import context_of

KEY = "sk-ant-api03-" + "Fake0Key1Of2The3Tests4" * 3
TOKEN = "ghp_" + "Fake0Token1Of2The3Tests4" * 2
ARMOUR = ["bm90IGEga2V5LCBvbmx5IGEgdGVzdCBvZiB3aGF0IGlzIGRvbmUgd2l0aCBvbmUK"] * 6
PRIVATE_KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *ARMOUR, "-----END PRIVATE KEY-----"])
LEAK = f"ANTHROPIC_API_KEY={KEY}\nremote: https://ada:{TOKEN}@example.org/x.git\n{PRIVATE_KEY}\nthe end"
SECRETS = (KEY, TOKEN, ARMOUR[0])
CONFIGURED = "correct horse battery"


@tool()
async def leak(ctx: ToolContext) -> str:
    """Show a file that contains a secret."""
    return LEAK


@tool()
async def leak_at_length(ctx: ToolContext) -> str:
    """The same, in a long text."""
    return "line\n" * 2_000 + LEAK + "line\n" * 2_000


@tool()
async def break_down(ctx: ToolContext) -> str:
    """Fails with a secret in its mouth."""
    raise RuntimeError(f"401 for url https://example.org/?api_key={KEY}")


@tool(dangerous=True)
async def danger(ctx: ToolContext, command: str) -> str:
    """Has to be approved."""
    return "done"


def _repeat(request: ChatRequest) -> str:
    """A model that says what it has read last."""
    return f"It says: {request.messages[-1]['content']}"


def _clean(text: str) -> bool:
    return not any(secret in text for secret in SECRETS)


async def _one_turn(
    store: SqliteStore, llm: ScriptedLLM, tools: Sequence[Tool], folder: Path
) -> tuple[Conversation, list[TurnEvent]]:
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    turn = Turn(conversation, Message("user", "What is in there?"), folder)
    return conversation, [event async for event in make_agent(llm, store.sessions, tools).run(turn)]


async def test_from_a_tool_into_everything_else(tmp_path: Path) -> None:
    """Case 17: the model, what is shown while it works, the answer, the store and the export."""
    store, llm = await temporary_store(), ScriptedLLM([[ToolCall("c1", "leak", "{}")], _repeat])
    conversation, events = await _one_turn(store, llm, [leak], tmp_path)
    transcript = await store.sessions.transcript(conversation.id)
    record = record_of(conversation, transcript, await store.sessions.sessions(conversation.id))
    answer = next(event.text for event in events if isinstance(event, TurnDone))
    assert REDACTED in answer and "the end" in answer, "the model has read the rest"
    assert _clean("".join(event.text for event in events if isinstance(event, TextDelta)))
    assert _clean(next(event.result for event in events if isinstance(event, ToolFinished)))
    assert _clean(json.dumps(llm.requests[-1].messages))
    assert _clean(as_jsonl(record)) and _clean(as_markdown(record))


async def test_the_file_that_keeps_a_long_result(tmp_path: Path) -> None:
    """Case 17: what the model can read on in has no more in it than what it was told."""
    ctx = await context_of((await temporary_store()).sessions, tmp_path, person="anna")
    result = await Toolbox([leak_at_length]).run(ToolCall("c1", "leak_at_length", "{}"), ctx)
    assert f"{OUTPUTS}/c1.txt" in result.content
    kept = (tmp_path / OUTPUTS / "c1.txt").read_text()
    assert _clean(kept) and REDACTED in kept


@pytest.mark.parametrize("before", range(0, len(KEY), 7))
async def test_a_cut_through_the_middle_of_a_key(tmp_path: Path, before: int) -> None:
    """Case 17: half of a key does not look like one, so keys are taken out before a result is cut."""

    @tool()
    async def long(ctx: ToolContext) -> str:
        """The key lies where the shown beginning ends."""
        return "x" * (199 - before) + " " + KEY + " " + "y" * 5_000

    ctx = await context_of((await temporary_store()).sessions, tmp_path, person="anna")
    result = await Toolbox([long], result_limit=300).run(ToolCall("c1", "long", "{}"), ctx)
    assert "sk-ant" not in result.content and "Fake0Key" not in result.content


async def test_a_key_file_read_in_pieces(tmp_path: Path) -> None:
    """Case 17: neither its beginning, its middle nor its end, nor by searching, nor in a long line."""
    (tmp_path / "id_test").write_text(f"# {'-' * 20}\n{PRIVATE_KEY}\n")
    (tmp_path / "one_line.json").write_text("x" * 9_980 + f' "{KEY}" ' + "y" * 500)
    ctx = await context_of((await temporary_store()).sessions, tmp_path, person="anna")
    toolbox = Toolbox([read_file, search_files])
    for offset in (1, 3, 5):
        arguments = {"path": "id_test", "offset": offset, "limit": 2, "numbered": True}
        result = await toolbox.run(ToolCall("c", "read_file", json.dumps(arguments)), ctx)
        assert result.ok and _clean(result.content)
        assert f"{offset}  " in result.content, "lines keep their numbers"
    for column in (1, 9_990):
        arguments = {"path": "one_line.json", "column": column}
        result = await toolbox.run(ToolCall("c", "read_file", json.dumps(arguments)), ctx)
        assert result.ok and "sk-ant" not in result.content and "Tests4" not in result.content
    found = await toolbox.run(ToolCall("c", "search_files", '{"pattern": "."}'), ctx)
    assert found.content.count(REDACTED) >= len(ARMOUR) and _clean(found.content)


async def test_searching_for_a_key(tmp_path: Path) -> None:
    """Case 17: a single line of one looks like anything, and so does the middle of a long line."""
    (tmp_path / "id_test").write_text(f"{PRIVATE_KEY}\n")
    (tmp_path / "key.json").write_text(json.dumps({"private_key": PRIVATE_KEY, "id": "x" * 500}))
    (tmp_path / "part_of_a_key").write_text(f"{ARMOUR[0]}\n{ARMOUR[0]}\n")
    (tmp_path / "long").write_text(f"{'word ' * 99}{KEY} {'word ' * 99}")
    ctx = await context_of((await temporary_store()).sessions, tmp_path, person="anna")
    for pattern in ("^bm90", "b25seSBh", "bm90IGEg.{20}", "Of2The3Tests4Fake0"):
        arguments = json.dumps({"pattern": pattern})
        found = await Toolbox([search_files]).run(ToolCall("c", "search_files", arguments), ctx)
        assert found.ok and "id_test" not in found.content and "key.json" not in found.content
        assert _clean(found.content) and "b25seSBh" not in found.content and "Tests4" not in found.content
    hashes = f"{'0a1b2c3d' * 8}\n"
    (tmp_path / "hash").write_text(hashes)
    found = await Toolbox([search_files]).run(ToolCall("c", "search_files", '{"pattern": "^0a1b"}'), ctx)
    assert found.content == f"hash:1: {hashes.strip()}"


def test_long_arguments_hold_nobody_up() -> None:
    """They are shown in part, and looked at in part, on the loop that serves everybody."""
    arguments = json.dumps({"path": "x", "content": "token=a1 " * 500_000})
    began = time.process_time()
    json.loads(arguments)
    tool_status_text([ToolStarted("c1", "write_file", arguments)])
    assert "more characters" in HtmlRenderer(templates()).tool(
        ToolView(ToolCall("c1", "write_file", arguments), "running")
    )
    assert time.process_time() - began < 1


@pytest.mark.parametrize("style", ["human", "json"])
async def test_a_tool_that_breaks_down(
    style: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 17: its story is in the log, without the key."""
    ctx = await context_of((await temporary_store()).sessions, tmp_path, person="anna")
    with logging_as_configured("debug", "json" if style == "json" else "human"):
        result = await Toolbox([break_down]).run(ToolCall("c1", "break_down", "{}"), ctx)
    output = capsys.readouterr().err
    assert "tool.crashed" in output and "api_key=" in output
    assert _clean(output + result.content)


async def test_into_a_summary(tmp_path: Path) -> None:
    """Case 17: neither what the summariser reads nor what it writes, also of what a person wrote."""
    asked: list[str] = []

    def summarise(prompt: str, tokens: int) -> str:
        asked.append(prompt)
        return f"## Goal\nUse {KEY} and {CONFIGURED}."

    talk = [
        {"role": "user", "content": f"My key is {KEY}. " + "word " * 300},
        {"role": "assistant", "content": "Noted. " + "word " * 300},
    ]
    engine = ContextCompressor(2_000, protect_last_n=1, summarize=summarise)
    with keeping_secret([CONFIGURED]):
        compacted = engine.compress([{"role": "system", "content": "Be brief."}, *talk * 4])
    assert asked and REDACTED in asked[0]
    summary = next(message for message in compacted if REDACTED in str(message["content"]))
    assert _clean("".join(asked)) and _clean(str(summary)) and CONFIGURED not in str(summary)


async def test_into_memory(tmp_path: Path) -> None:
    """Case 17: facts are in the prompt of every new session; a secret is not remembered."""
    store = await temporary_store()
    ctx = await context_of(store.sessions, tmp_path, person="anna")
    call = ToolCall("c1", "memory", json.dumps({"action": "add", "text": f"The key is {KEY}"}))
    refused = await Toolbox([memory]).run(call, ctx)
    assert not refused.ok and "secret" in refused.content
    assert await store.sessions.facts("anna") == []


async def test_into_the_last_look_before_a_compaction(tmp_path: Path) -> None:
    """Case 17: what is sent to note lasting facts holds no secret either."""
    store, llm = await temporary_store(), ScriptedLLM(["Noted.", "nothing"])
    conversation = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    agent = make_agent(llm, store.sessions)
    async for _ in agent.run(Turn(conversation, Message("user", f"Mine is {KEY}"), tmp_path)):
        pass
    await MemoryFlush(ModelSelector(llm, store.sessions), memory)(await agent.open(conversation))
    assert "Mine is" in str(llm.requests[-1].messages) and _clean(str(llm.requests[-1].messages))


def test_what_is_shown_of_a_call(tmp_path: Path) -> None:
    """Case 17: the line about a running tool leaves secrets out, in chats, in the terminal and on the page."""
    arguments = json.dumps({"command": f"curl -H 'Authorization: Bearer {KEY}' https://example.org"})
    page = HtmlRenderer(templates()).tool(ToolView(ToolCall("c1", "terminal", arguments), "running"))
    shown = [
        tool_status_text([ToolStarted("c1", "terminal", arguments)]),
        describe_call("terminal", arguments),
        page,
    ]
    for each in shown:
        assert "curl" in each and KEY[:20] not in each


async def test_what_is_approved_is_exact(tmp_path: Path) -> None:
    """An approval is for exactly this command: nothing of it may be hidden from who approves it."""
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> str:
        asked.append(request)
        return ""

    ctx = await context_of((await temporary_store()).sessions, tmp_path, person="anna")
    ctx = ToolContext(**{name: getattr(ctx, name) for name in ctx.__slots__} | {"approve": approve})
    await Toolbox([danger]).run(ToolCall("c1", "danger", json.dumps({"command": f"use {KEY}"})), ctx)
    assert KEY in asked[0].arguments


def test_an_export_leaves_out_what_people_wrote() -> None:
    """Case 17: also in arguments and parts of messages, and where an older version stored it."""
    messages = [
        Message("user", f"Here: {KEY}", parts=({"type": "text", "text": f"Here: {KEY}"},)),
        Message("assistant", "", tool_calls=(ToolCall("c1", "login", json.dumps({"key": KEY})),)),
        Message("tool", LEAK, tool_call_id="c1", name="login"),
    ]
    conversation = Conversation("conv_1", Address("web", "desk"), "owner", "ses_1", 0.0)
    overview = record_of(conversation, messages).overview
    record = Record(overview, [], list(Record.redacted(overview, [], messages).messages))
    assert _clean(as_jsonl(record)) and _clean(as_markdown(record))
    assert [json.loads(line)["role"] for line in as_jsonl(record).splitlines()] == [
        "user",
        "assistant",
        "tool",
    ]
    assert KEY in messages[0].content, "what is stored stays as it is"


# An answer while it is written


def _shown(chunks: Sequence[str]) -> tuple[list[str], str]:
    redactor = StreamRedactor()
    shown = [*map(redactor.feed, chunks), redactor.flush()]
    return list(filter(None, shown)), redactor.redact("".join(chunks))


PIECES = [
    "correct horse ",
    "battery",
    "correct",
    "horse battery staple",
    "c",
    "ordinary words. ",
    "correct horse battery",
]


@settings(deadline=None, max_examples=150)
@given(st.lists(st.sampled_from(PIECES), max_size=8), st.lists(st.integers(1, 12), max_size=40))
async def test_a_secret_cut_across_chunks(pieces: list[str], sizes: list[int]) -> None:
    """Case 17: however an answer arrives, a configured secret is never seen, and the rest arrives whole."""
    text, chunks, position = "".join(pieces), [], 0
    for size in sizes:
        chunks.append(text[position : position + size])
        position += size
    chunks.append(text[position:])
    with keeping_secret([CONFIGURED, "correct horse battery staple"]):
        shown, whole = _shown(chunks)
        assert whole == redact(text, known_rules())
    assert "".join(shown) == whole
    assert CONFIGURED not in whole


async def test_nothing_waits_that_need_not() -> None:
    """A chunk is held back only while it may be the beginning of a secret."""
    with keeping_secret([CONFIGURED]):
        shown, _ = _shown(["All is ", "correct", " here. corr", "ect hors", "e battery!"])
    assert shown == ["All is ", "correct here. ", f"{REDACTED}!"]


async def test_a_reply_that_repeats_a_configured_secret(tmp_path: Path) -> None:
    """Case 17: wherever the model has it from; what is shown is what is stored."""
    store, llm = (
        await temporary_store(),
        ScriptedLLM([["The password is correct ho", "rse bat", "tery, I think."]]),
    )
    with keeping_secret([CONFIGURED]):
        conversation, events = await _one_turn(store, llm, [], tmp_path)
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    stored = (await store.sessions.transcript(conversation.id))[-1].content
    assert shown == stored == f"The password is {REDACTED}, I think."


async def test_an_example_in_an_answer_stays(tmp_path: Path) -> None:
    """A person may ask what a key looks like: in answers, only known secrets are taken out."""
    store, llm = await temporary_store(), ScriptedLLM([f"Like this: {KEY}"])
    _, events = await _one_turn(store, llm, [], tmp_path)
    assert re.search(
        r"Like this: sk-ant", next(event.text for event in events if isinstance(event, TurnDone))
    )
