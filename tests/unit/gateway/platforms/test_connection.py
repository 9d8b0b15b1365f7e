"""A connection that is kept up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway.chat.errors import ConnectionRefused, Unreachable
from gateway.platforms.connection import ReconnectingConnection


async def test_up_is_told_once_messages_can_come() -> None:
    """The start waits for it."""

    async def connect(up: Callable[[], None]) -> None:
        up()
        await asyncio.Event().wait()

    connection = ReconnectingConnection("telegram", connect)
    await connection.start()
    assert connection.health.state == "up"
    await connection.stop()


@pytest.mark.parametrize(
    ("problem", "state"),
    [
        (ConnectionRefused("the token is wrong."), "refused"),
        (Unreachable("no network."), "down"),
        (RuntimeError("a bug in the library"), "down"),
    ],
)
async def test_what_went_wrong_is_told(problem: Exception, state: str) -> None:
    """The start does not fail: other platforms must run."""

    async def connect(up: Callable[[], None]) -> None:
        raise problem

    connection = ReconnectingConnection("telegram", connect)
    await connection.start()
    assert connection.health.state == state
    if not isinstance(problem, RuntimeError):
        assert str(problem) in connection.health.detail
    await connection.stop()


async def test_a_connect_that_is_not_a_coroutine_function_is_a_crash() -> None:
    def connect(up: Callable[[], None]) -> Any:
        raise TypeError("a bug in a plugin")

    connection = ReconnectingConnection("acme", connect)
    await connection.start()
    assert connection.health.state == "down"
    await connection.stop()


async def test_it_comes_back() -> None:
    """After a failure, after a crash of the library, and after a connection that just ended."""
    tries: list[int] = []
    up_again = asyncio.Event()

    async def connect(up: Callable[[], None]) -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            raise Unreachable
        if len(tries) == 2:
            raise AttributeError("a bug in the library")
        up()
        if len(tries) == 3:
            return
        up_again.set()
        await asyncio.Event().wait()

    connection = ReconnectingConnection("telegram", connect, first_delay=0.01)
    await connection.start()
    states = [connection.health.state]
    await asyncio.wait_for(up_again.wait(), 10)
    states.append(connection.health.state)
    assert states == ["down", "up"]
    await connection.stop()
