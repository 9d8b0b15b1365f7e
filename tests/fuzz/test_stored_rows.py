"""Rows of another version or a damaged file: the bot starts and answers people in every case.

Invalid places and invalid messages: readable rows are used, the rest is parked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agent.events import FileSent
from agent.ids import id_from, new_id
from agent.testing import ScriptedLLM
from gateway.core.inbox_codec import encode
from gateway.store.ports import file_content
from gateway.types import OWNER, ChatMessage, Quote
from tests.support.agents import make_agent
from tests.support.fault_harness import ADA, HERE, open_harness
from tests.support.fuzz_values import anything, spoilt, texts, tries
from tests.support.gateways import make_gateway
from tests.support.stores import temporary_store
from tests.support.watch import until

PLATFORM = "memory"
PAYLOAD: dict[str, Any] = encode(ChatMessage("7", HERE, ADA, "hello", quote=Quote("Ben", "what?"))) | {
    "attachments": [{"name": "a.txt", "mime": "text/plain", "kind": "document", "size": 3, "ref": "r"}]
}
WEB_PAYLOAD: dict[str, Any] = {
    "address": {"platform": "web", "chat_id": "desk", "thread_id": "", "user_id": ""},
    "person": OWNER,
    "text": "hello",
}
SOMEWHERE = asdict(HERE)

numbers = st.one_of(st.integers(-3, 30), st.sampled_from([2**63 - 1, -(2**63)]))
as_text = texts.map(lambda text: text.encode("utf-8", "replace").decode())


def as_json(value: Any) -> str:
    return json.dumps(value).encode("utf-8", "replace").decode()


places = st.one_of(spoilt(SOMEWHERE), anything).map(as_json)
inbox_rows = st.fixed_dictionaries(
    {
        "place": st.one_of(st.none(), places),
        "number": as_text,
        "payload": st.one_of(spoilt(PAYLOAD), anything).map(as_json),
        "attempts": numbers,
    }
)
outbox_rows = st.fixed_dictionaries(
    {
        "conversation_id": st.one_of(st.just("its own"), as_text),
        "turn_id": as_text,
        "reply_to": as_text,
        "place": places,
        "kind": st.sampled_from(["text", "notice", "file", "fleeting"]),
        "content": st.one_of(
            st.none(), as_text, st.just(file_content(FileSent("a", "a.txt", "", "/nowhere"))), places
        ),
        "state": st.sampled_from(["pending", "sending"]),
        "shown_in": st.one_of(anything, st.lists(texts, max_size=2)).map(as_json),
        "growing": st.integers(0, 1),
        "dealt": numbers,
        "rest": as_text,
    }
)


def insert(connection: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


def its_id(payload: str) -> str:
    """As the receiver has given it, if that is what it says."""
    with suppress(KeyError, TypeError):
        message = json.loads(payload)
        place = message["place"]
        return id_from("msg", PLATFORM, place["chat_id"], place["thread_id"], message["id"])
    return new_id("msg")


async def _is_empty(rows: Callable[[], Awaitable[list[Any]]]) -> bool:
    return not await rows()


@given(taken=st.lists(inbox_rows, max_size=2), outgoing=st.lists(outbox_rows, max_size=3))
@tries(60)
async def test_a_start_on_any_rows(
    tmp_path: Path, taken: list[dict[str, Any]], outgoing: list[dict[str, Any]]
) -> None:
    """The next message is answered, and nothing is left over for the start after this one."""
    store = await temporary_store()
    waiting = [
        {"id": its_id(row["payload"]), "platform": PLATFORM, "received_at": 1.0} | row for row in taken
    ]
    await store.database.write(
        insert, "inbox", list({row["id"]: row for row in waiting}.values()), fence=None
    )
    left = [{"id": new_id("out"), "platform": PLATFORM, "created_at": 1.0} | row for row in outgoing]
    await store.database.write(insert, "outbox", left, fence=None)
    llm = ScriptedLLM([lambda request: "Yes."] * 10)
    async with open_harness(llm, store=store, workspaces=tmp_path) as harness:
        await harness.receiver.newest()
        await harness.turn("Are you there?")
        await harness.service.until(lambda: "Yes." in harness.service.texts())
        await until(partial(_is_empty, partial(store.inbox.waiting, PLATFORM)))
        await until(partial(_is_empty, partial(store.outbox.undelivered, PLATFORM)))
    await store.close()


@given(payload=st.one_of(spoilt(WEB_PAYLOAD), anything), place=st.one_of(st.none(), places))
@example(payload=WEB_PAYLOAD, place=None)
@tries(40)
async def test_the_page_starts_on_any_rows(tmp_path: Path, payload: Any, place: str | None) -> None:
    """The same where people come and read."""
    store = await temporary_store()
    row = {"id": new_id("msg"), "platform": "web", "received_at": 1.0} | {
        "place": place,
        "payload": as_json(payload),
    }
    await store.database.write(insert, "inbox", [row], fence=None)
    agent = make_agent(ScriptedLLM([lambda request: "Yes."] * 3), store.sessions)
    gateway = make_gateway(agent, store, tmp_path)
    await gateway.recover("web")
    await until(partial(_is_empty, partial(store.inbox.waiting, "web")))
    await gateway.close()
    is_sound = payload == WEB_PAYLOAD and place is None
    assert not is_sound or await store.inbox.parked() == []
    await store.close()
