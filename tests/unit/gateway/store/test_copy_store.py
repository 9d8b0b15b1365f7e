"""A store moves from SQLite to PostgreSQL and back without a difference."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.errors import StoreError
from agent.llm import Usage
from agent.messages import Message, ToolCall
from agent.store import Address, Compaction, LearnedWindow, Split
from gateway.store.access import AskingLimits, PairingRequest
from gateway.store.ports import InboxMessage
from gateway.store.sql.copy_store import TABLES, copy_store
from gateway.store.sql.database import Connection
from gateway.store.sql.store import SqlStore
from gateway.types import Place
from tests.support.stores import open_at

Rows = dict[str, list[Any]]


async def _fill(store: SqlStore) -> None:
    """Put at least one row into every table."""
    conversation = await store.sessions.open_conversation(Address("telegram", "7"), person="telegram:7")
    live = conversation.live_session_id
    await store.inbox.add(InboxMessage("msg_0", "telegram", {"text": "a\0b"}, Place("7"), "1"))
    said = [Message("user", f"apple {number} \0 \x10 漢字 \U0001f600") for number in range(450)]
    call = Message("assistant", "Done.", tool_calls=(ToolCall("c", "look", "{}"),), id="msg_1")
    await store.sessions.append(live, [*said, call], answers="msg_0", settles=["msg_0"])
    await store.sessions.record_usage(live, Usage(10, 2, 1, 0, 0.1), model="m", spender="ada")
    summary = Message("user", "Short.", kind="summary", state={"a": [1, None]})
    compaction = Compaction("command", "compressor", 2, 1, 10, 5, "focus", 0.5)
    await store.sessions.split(Split(live, "command", [summary, "msg_1"], "prompt", compaction=compaction))
    await store.sessions.remember("ada", "Likes tea.", after_outside=True)
    await store.sessions.save_state(conversation.id, "todo", "[]")
    await store.sessions.learn_window(LearnedWindow("m", 100, 50, True, 1.0))
    for user in ("1", "2"):
        request = PairingRequest("telegram", user, "Ada", 1.0, 9.0)
        await store.access.ask(request, f"code {user}", AskingLimits(3, 60.0, 5))
    await store.access.approve_person("telegram", "1", by="test", now=2.0)
    await store.database.write(_add_failure, fence=None)
    await store.access.add_sign_out("digest", until=9.0, now=1.0)
    await store.inbox.first_seen_at("telegram")
    await store.leases.acquire(conversation.id, holder="a", seconds=60)


def _add_failure(connection: Connection) -> None:
    connection.execute("INSERT INTO pairing_failures (at) VALUES (1.5)")


def _rows(connection: Connection) -> Rows:
    found: Rows = {}
    for table in TABLES:
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        found[table] = sorted(repr(sorted(zip(names, row, strict=True))) for row in cursor.fetchall())
    return found


@pytest.fixture
async def stores(tmp_path: Path, postgres_url: str) -> AsyncIterator[list[SqlStore]]:
    opened = [await open_at(each) for each in (tmp_path / "one.db", postgres_url, tmp_path / "two.db")]
    yield opened
    for store in opened:
        await store.close()


async def test_there_and_back(stores: list[SqlStore]) -> None:
    first, postgres, back = stores
    await _fill(first)
    original = await first.database.read(_rows)
    assert all(original.values()), "a table without rows shows nothing"
    copied = await copy_store(first.database, postgres.database)
    assert copied == {table: len(rows) for table, rows in original.items()}
    assert await postgres.database.read(_rows) == original
    await copy_store(postgres.database, back.database)
    assert await back.database.read(_rows) == original


async def test_the_copy_goes_on(stores: list[SqlStore]) -> None:
    """New rows get new numbers, and copied messages are found."""
    first, postgres, _ = stores
    await _fill(first)
    await copy_store(first.database, postgres.database)
    (overview,) = await postgres.sessions.conversations()
    await postgres.sessions.append(overview.conversation.live_session_id, [Message("user", "pear")])
    await postgres.sessions.open_conversation(Address("web", "new"), person="ada")
    assert len(await postgres.sessions.search("apples", limit=1_000)) == 450
    assert [hit.message.content for hit in await postgres.sessions.search("pears")] == ["pear"]


async def test_a_store_is_never_overwritten(stores: list[SqlStore]) -> None:
    first, postgres, _ = stores
    await asyncio.gather(_fill(first), _fill(postgres))
    before = await postgres.database.read(_rows)
    with pytest.raises(StoreError, match="already contains a store"):
        await copy_store(first.database, postgres.database)
    assert await postgres.database.read(_rows) == before


def _spoil(connection: Connection) -> None:
    """Change what is written, as a faulty database would."""
    connection.execute(
        """
        CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.text := 'spoiled'; RETURN NEW; END; $$;
        CREATE TRIGGER spoil BEFORE INSERT ON facts FOR EACH ROW EXECUTE FUNCTION spoil();
        """
    )


async def test_a_row_that_differs_undoes_everything(stores: list[SqlStore]) -> None:
    first, postgres, _ = stores
    await _fill(first)
    await postgres.database.write(_spoil, fence=None)
    with pytest.raises(StoreError, match="A row of `facts` differs"):
        await copy_store(first.database, postgres.database)
    assert not any((await postgres.database.read(_rows)).values())
