"""The inbox over time: what is known comes no second time, and what is over is forgotten after a while."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import QueueFull
from gateway.store.ports import InboxMessage, QueueLimits
from gateway.store.sql.database import Connection
from gateway.store.sql.store import SqlStore
from gateway.types import Place

HERE = Place("1")
A_MONTH = 31 * 86_400
NO_ROOM = QueueLimits(total=1, per_person=1)


@pytest.fixture
def store(gateway_store: SqlStore) -> SqlStore:
    return gateway_store


def message(number: int) -> InboxMessage:
    return InboxMessage(f"msg_{number}", "telegram", {"author": {"id": "7"}}, HERE, str(number))


async def test_a_message_that_is_known_needs_no_room(store: SqlStore) -> None:
    """The service delivers the message again while the queue is full, without a notice to the person."""
    assert await store.inbox.add(message(1), limits=NO_ROOM)
    assert not await store.inbox.add(message(1), limits=NO_ROOM)
    with pytest.raises(QueueFull):
        await store.inbox.add(message(2), limits=NO_ROOM)


def _a_month_later(connection: Connection) -> None:
    connection.execute("UPDATE inbox SET received_at = received_at - ?", (A_MONTH,))
    connection.execute("UPDATE outbox SET created_at = created_at - ?", (A_MONTH,))


def _numbers(connection: Connection) -> tuple[list[int], list[int]]:
    """Of what is left."""
    left = [
        [int(row[0].partition("_")[2]) for row in connection.execute(f"SELECT id FROM {box} ORDER BY seq")]
        for box in ("inbox", "outbox")
    ]
    return left[0], left[1]


def _park_first(connection: Connection, count: int) -> None:
    for box in ("inbox", "outbox"):
        connection.execute(f"UPDATE {box} SET state = 'parked' WHERE seq <= ?", (count,))
    connection.execute("UPDATE outbox SET state = 'sent' WHERE state = 'pending'")


async def _answered(store: SqlStore, number: int) -> None:
    about = {"conversation_id": "conv_1", "turn_id": f"msg_{number}"}
    await store.outbox.add(f"out_{number}", **about, kind="notice", content="x")


@pytest.mark.parametrize("parked", [0, 600])
async def test_what_is_over_is_forgotten_after_a_month(store: SqlStore, parked: int) -> None:
    """Waiting and parked messages stay, however many there are."""
    numbers = range(1, 621)
    await asyncio.gather(*(store.inbox.add(message(number)) for number in numbers))
    await asyncio.gather(*(_answered(store, number) for number in numbers))
    await store.inbox.mark_done([f"msg_{number}" for number in range(parked + 1, 620)])
    await store.database.write(_park_first, parked, fence=None)
    await store.inbox.purge_old()
    assert [len(left) for left in await store.database.read(_numbers)] == [620, 620]
    await store.database.write(_a_month_later, fence=None)
    await store.inbox.purge_old()
    kept = list(range(1, parked + 1))
    assert await store.database.read(_numbers) == ([*kept, 620], kept)
