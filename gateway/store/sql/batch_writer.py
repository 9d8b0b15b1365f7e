"""A writer that commits queued operations together.

A commit waits for the disk, and the hop to the database thread costs as much again. While one transaction runs, the
operations that arrive form the next one and share its cost. If one of them fails, all are run again with a savepoint
around each: the failing one is undone and reported to its caller, the others succeed. So an operation must not keep
state of its own.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from agent.errors import HermesError, StoreError
from gateway.store.errors import translated
from gateway.store.sql.database import Connection

T = TypeVar("T")

MAX_TOGETHER = 256
"""How many operations share a transaction; bounds how long the first waits for the last."""

EXPECTED_ERRORS = (sqlite3.Error, MemoryError, HermesError, ValueError, TypeError)
"""Errors with which an operation may refuse. Any other error is a bug and fails the whole transaction."""

Operation = Callable[[Any], Any]


class Waiting(NamedTuple):
    operation: Operation
    done: asyncio.Future[Any]
    durable: bool


class Outcome(NamedTuple):
    result: Any = None
    error: BaseException | None = None


class BatchConnection(Protocol):
    """A connection on a thread of its own."""

    def submit_batch(
        self, operations: Sequence[Operation], *, durable: bool
    ) -> asyncio.Future[list[Outcome]]:
        """Queue `commit_together` on the thread; it is queued when this returns."""
        ...


class Writer:
    """Groups operations into transactions. Runs in callbacks instead of a task, so that no cancellation stops it."""

    def __init__(self, connection: BatchConnection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Waiting] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self.last_shared = False
        """Whether the last transaction had more than one operation."""

    async def write(self, work: Callable[..., T], *arguments: Any, durable: bool = True) -> T:
        """Run `work(connection, *arguments)` in a transaction that is on the disk when this returns.

        A write that is not `durable` does not wait for the disk: a power cut may undo the whole write.
        """
        if self._closed:
            raise StoreError("The store is closed.")
        with translated():
            done = self._submit(lambda connection: work(connection, *arguments), durable)
            return cast(T, await done)

    async def close(self) -> None:
        """Commit the accepted operations and refuse further ones."""
        self._closed = True
        await self._idle.wait()

    def _submit(self, operation: Operation, durable: bool) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(Waiting(operation, done, durable))
        if self._idle.is_set():
            self._idle.clear()
            # Later in this iteration of the loop, so that other tasks that are ready to write can join.
            self._loop.call_soon(self._start_batch)
        return done

    def _start_batch(self) -> None:
        wanted = [waiting for waiting in self._waiting if not waiting.done.cancelled()]
        batch, self._waiting = wanted[:MAX_TOGETHER], wanted[MAX_TOGETHER:]
        if not batch:
            self._idle.set()
            return
        self.last_shared = len(batch) > 1
        hop = self._connection.submit_batch(
            [waiting.operation for waiting in batch], durable=any(waiting.durable for waiting in batch)
        )
        hop.add_done_callback(partial(self._finish_batch, [waiting.done for waiting in batch]))

    def _finish_batch(self, batch: list[asyncio.Future[Any]], hop: asyncio.Future[list[Outcome]]) -> None:
        failure = hop.exception()
        outcomes = [Outcome(error=failure)] * len(batch) if failure else hop.result()
        for done, outcome in zip(batch, outcomes, strict=True):
            if done.cancelled():
                continue
            if outcome.error is None:
                done.set_result(outcome.result)
            else:
                done.set_exception(outcome.error)
        # After the callers that have just been woken, so that their next writes share the next transaction.
        self._loop.call_soon(self._start_batch)


def commit_together(
    connection: Connection, operations: Sequence[Operation], *, begin: str = "BEGIN IMMEDIATE"
) -> list[Outcome]:
    """Commit all operations in one transaction. Raises if nothing was stored."""
    connection.execute(begin)
    try:
        outcomes = _run_all(connection, operations, begin)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return outcomes


def _run_all(connection: Connection, operations: Sequence[Operation], begin: str) -> list[Outcome]:
    """Run the operations without savepoints first, which cost a third of an insert and are rarely needed."""
    try:
        return [Outcome(operation(connection)) for operation in operations]
    except EXPECTED_ERRORS:
        if len(operations) == 1 or not connection.in_transaction:
            raise
    connection.execute("ROLLBACK")
    connection.execute(begin)
    return [_run_isolated(connection, operation) for operation in operations]


def _run_isolated(connection: Connection, operation: Operation) -> Outcome:
    connection.execute("SAVEPOINT operation")
    try:
        outcome = Outcome(operation(connection))
    except EXPECTED_ERRORS as error:
        if not connection.in_transaction:
            raise  # the database has undone the whole transaction, for example because the disk is full
        connection.execute("ROLLBACK TO operation")
        outcome = Outcome(error=error)
    connection.execute("RELEASE operation")
    return outcome
