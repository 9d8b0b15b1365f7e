"""The interface between the shared statements and a database driver."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from agent.store import SearchHit
from gateway.store.ports import Fence

P = ParamSpec("P")
T = TypeVar("T")

MAX_VALUES = 500
"""How many values one `IN (...)` lists."""


class Cursor(Protocol):
    @property
    def rowcount(self) -> int: ...

    @property
    def description(self) -> Any: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection as the statements use it. `Connection` is one; placeholders are `?` and `:name`."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ..., /) -> Cursor: ...

    def executemany(self, sql: str, parameters: Sequence[Sequence[Any]], /) -> Cursor: ...


class Scope(NamedTuple):
    """The person and the conversation to search."""

    person: str | None = None
    conversation_id: str | None = None


class Database(Protocol):
    """Runs functions of a connection, `work(connection, *arguments)`, on threads of the driver."""

    async def read(self, work: Callable[Concatenate[Any, ...], T], *arguments: Any) -> T: ...

    async def write(
        self,
        work: Callable[Concatenate[Any, ...], T],
        *arguments: Any,
        fence: Fence | None,
        durable: bool = True,
    ) -> T:
        """Run the function in a transaction; with a fence, only while its lease is held.

        A write that is not durable does not wait for the disk: it survives the end of the process, but perhaps not a
        power cut.
        """
        ...

    def snapshot(self) -> AbstractContextManager[Connection]:
        """Open a connection for the calling thread in one read transaction."""
        ...

    async def search(
        self, text: str, scope: Scope, limit: int, *, platform: str | None = None
    ) -> list[SearchHit]: ...

    def index_soon(self) -> None:
        """Tell the search index that messages were stored."""
        ...

    def size(self, connection: Any) -> int:
        """Return the bytes that the database takes on disk."""
        ...

    def restart_numbers(self, connection: Any, tables: Sequence[str]) -> None:
        """Let the next `seq` of these tables follow the highest one, after rows were copied with their own."""
        ...

    async def close(self) -> None: ...


class Part:
    """A part of the store; its methods are made by `read` and `write`."""

    def __init__(self, database: Database, fence: Fence | None = None) -> None:
        self._database = database
        self._fence = fence


def read(
    work: Callable[Concatenate[Connection, P], T],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Make a method of a `Part` that runs `work` on a connection for reading."""

    async def method(part: Part, /, *arguments: P.args, **named: P.kwargs) -> T:
        def operation(connection: Connection) -> T:
            return work(connection, *arguments, **named)

        return await part._database.read(operation)

    return method


def write(
    work: Callable[Concatenate[Connection, P], T], *, durable: bool = True
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Make a method of a `Part` that runs `work` in a transaction under the fence of the part."""

    async def method(part: Part, /, *arguments: P.args, **named: P.kwargs) -> T:
        def operation(connection: Connection) -> T:
            return work(connection, *arguments, **named)

        return await part._database.write(operation, fence=part._fence, durable=durable)

    return method


def marks(values: Sequence[object]) -> str:
    """Return a placeholder for each value."""
    return ", ".join("?" * len(values))


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split values into pieces that fit into one `IN (...)`."""
    for start in range(0, len(values), MAX_VALUES):
        yield values[start : start + MAX_VALUES]
