"""Work in order within a chat, side by side between chats."""

from __future__ import annotations

import asyncio

from gateway.chat.lines import Lines


async def test_a_line_without_a_bound_takes_a_whole_backlog() -> None:
    """A service hands over a hundred messages of one chat at once: none of them is lost."""
    lines, done = Lines(), list[int]()
    taken = [lines.put("chat", lambda number=number: _note(done, number)) for number in range(1_000)]  # type: ignore[misc]
    await lines.close(10)
    assert all(taken)
    assert done == list(range(1_000))


async def test_a_bounded_line_says_when_it_is_full() -> None:
    """What it has taken is still done, and later there is room again."""
    lines, done = Lines(longest=2), list[int]()
    assert [lines.put("chat", lambda: _note(done, 1)) for _ in range(3)] == [True, True, False]
    assert lines.put("another chat", lambda: _note(done, 2))
    await lines.close(10)
    assert sorted(done) == [1, 1, 2]
    assert lines.put("chat", lambda: _note(done, 3))
    await lines.close(10)


async def _note(done: list[int], number: int) -> None:
    await asyncio.sleep(0)
    done.append(number)
