"""The rules of Anthropic's prompt cache, one by one."""

from __future__ import annotations

import pytest

from tests.fakes.anthropic.cache import Accounting, Block, PromptCache, Ttl


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> PromptCache:
    return PromptCache(clock=clock, minimum_tokens=100)


def row(
    *names: str, tokens: int = 50, marked: dict[int, Ttl] | None = None, kind: str = "text"
) -> list[Block]:
    """Blocks with these contents; `marked` says which carry a marker."""
    return [Block(name, tokens, kind, (marked or {}).get(at)) for at, name in enumerate(names)]


def test_nothing_is_cached_without_a_marker(cache: PromptCache) -> None:
    """Tokens are paid in full, the second time too."""
    for _ in range(2):
        assert cache.account(row("a", "b", "c")) == Accounting(0, 0, 0, 150)


def test_a_marker_writes_and_the_next_request_reads(cache: PromptCache) -> None:
    """Up to the marker it is cached, after it not."""
    blocks = row("a", "b", "c", marked={1: "5m"})
    assert cache.account(blocks) == Accounting(0, 100, 0, 50)
    assert cache.account(blocks) == Accounting(100, 0, 0, 50)


def test_a_prefix_below_the_minimum_is_silently_not_kept(cache: PromptCache) -> None:
    """No error, no entry."""
    blocks = row("a", "b", marked={0: "5m"})
    for _ in range(2):
        assert cache.account(blocks) == Accounting(0, 0, 0, 100)


def test_any_change_in_the_prefix_is_a_miss(cache: PromptCache) -> None:
    """The cache is exact, from the first byte on."""
    cache.account(row("a", "b", marked={1: "5m"}))
    assert cache.account(row("A", "b", marked={1: "5m"})).read == 0


def test_a_moved_marker_reads_what_was_written_before_it(cache: PromptCache) -> None:
    """The conversation grows, the marker moves on, and only the growth is written."""
    cache.account(row("a", "b", marked={1: "5m"}))
    assert cache.account(row("a", "b", "c", "d", marked={3: "5m"})) == Accounting(100, 100, 0, 0)


@pytest.mark.parametrize(("distance", "read"), [(19, 100), (20, 0)])
def test_a_read_looks_back_twenty_blocks(cache: PromptCache, distance: int, read: int) -> None:
    """The marker's own block is the first of the twenty."""
    cache.account(row("a", "b", marked={1: "5m"}))
    longer = row("a", "b", *(f"more {n}" for n in range(distance)), marked={1 + distance: "5m"})
    assert cache.account(longer).read == read


def test_a_run_of_tool_blocks_counts_once(cache: PromptCache) -> None:
    """Thirty parallel calls and their results do not push the prefix out of reach."""
    cache.account(row("a", "b", marked={1: "5m"}))
    calls = row(*(f"call {n}" for n in range(30)), kind="tool_use")
    results = row(*(f"result {n}" for n in range(30)), marked={29: "5m"}, kind="tool_result")
    assert cache.account([*row("a", "b"), *calls, *results]).read == 100


def test_elsewhere_every_block_counts(clock: Clock) -> None:
    """Where runs are not counted as one, twenty results already hide what was written before them."""
    cache = PromptCache(clock=clock, minimum_tokens=100, runs_count_once=False)
    cache.account(row("a", "b", marked={1: "5m"}))
    results = row(*(f"result {n}" for n in range(20)), marked={19: "5m"}, kind="tool_result")
    assert cache.account([*row("a", "b"), *results]).read == 0


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300), ("1h", 3600)])
def test_entries_expire_and_reads_refresh_them(
    cache: PromptCache, clock: Clock, ttl: Ttl, seconds: float
) -> None:
    """A lifetime counts from the start of the last request that used the entry."""
    blocks = row("a", "b", marked={1: ttl})
    cache.account(blocks)
    for _ in range(3):
        clock.now += seconds - 1
        assert cache.account(blocks).read == 100
    clock.now += seconds
    assert cache.account(blocks).read == 0


def test_two_lifetimes_in_one_request(cache: PromptCache, clock: Clock) -> None:
    """The long part is written at the long price, the rest at the short one, and it outlives the rest."""
    blocks = row("a", "b", "c", "d", marked={1: "1h", 3: "5m"})
    assert cache.account(blocks) == Accounting(0, 100, 100, 0)
    clock.now += 600
    assert cache.account(blocks) == Accounting(100, 100, 0, 0)
