"""How often one person may write, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits import RateLimit


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def _taken(limit: RateLimit, clock: Clock, seconds: int, per_second: int, person: str = "ada") -> int:
    taken = 0
    for _ in range(seconds):
        taken += sum(limit.refusal(person) is None for _ in range(per_second))
        clock.now += 1
    return taken


def test_a_person_who_writes_like_one_is_never_refused() -> None:
    """As many at once as a minute allows, and then one whenever there is a token again."""
    clock = Clock()
    limit = RateLimit(30, clock=clock)
    assert _taken(limit, clock, seconds=1, per_second=30) == 30
    clock.now += 60
    for _ in range(100):
        clock.now += 2
        assert limit.refusal("ada") is None


def test_a_flood_is_cut_down_to_what_a_minute_allows() -> None:
    """A thousand in a minute, minute after minute."""
    clock = Clock()
    limit = RateLimit(30, clock=clock)
    assert _taken(limit, clock, seconds=60, per_second=17) == 30
    assert _taken(limit, clock, seconds=600, per_second=17) <= 10 * 31


def test_it_is_said_once_and_covers_everything_that_is_refused() -> None:
    """Nothing is refused that no sentence has announced, and there is one sentence in a minute."""
    clock, said = Clock(), []
    limit = RateLimit(30, clock=clock)
    announced_until = 0.0
    for _ in range(600):
        for _ in range(17):
            if refusal := limit.refusal("ada"):
                if refusal.is_first:
                    said.append(clock.now)
                    announced_until = clock.now + refusal.seconds
                assert clock.now < announced_until
        clock.now += 1
    assert len(said) == 10
    assert all(later - earlier >= 60 for earlier, later in pairwise(said))


def test_the_sentence_says_what_to_do() -> None:
    """The number of messages, how long to wait, and that this one has to be sent again."""
    clock = Clock()
    limit = RateLimit(2, clock=clock)
    limit.refusal("ada"), limit.refusal("ada")
    assert str(limit.refusal("ada")) == (
        "Too many messages: Hermes accepts 2 a minute from one person. This one was not accepted; try again in "
        "60 s."
    )
    clock.now += 59.9
    refusal = limit.refusal("ada")
    assert refusal and (refusal.seconds, refusal.is_first) == (1, False)
    clock.now += 0.1
    assert limit.refusal("ada") is None


def test_one_person_does_not_use_up_what_another_has() -> None:
    """Each has a bucket."""
    clock = Clock()
    limit = RateLimit(30, clock=clock)
    assert _taken(limit, clock, seconds=10, per_second=100) == 30
    assert _taken(limit, clock, seconds=10, per_second=1, person="bob") == 10


def test_without_a_pause_every_refusal_is_told() -> None:
    """For an interface, whose answers are read one by one: it is free again with the next token."""
    clock = Clock()
    limit = RateLimit(60, pause=0.0, clock=clock)
    assert _taken(limit, clock, 1, 60, person="owner") == 60
    assert limit.refusal("owner") is None
    for _ in range(3):
        refusal = limit.refusal("owner")
        assert refusal and (refusal.seconds, refusal.is_first) == (1, True)
    clock.now += 1
    assert limit.refusal("owner") is None


def test_what_was_written_over_an_hour_may_arrive_at_once() -> None:
    """After an absence a service hands over everything; the dates tell that it was no flood."""
    clock = Clock()
    limit = RateLimit(30, clock=clock)
    hour = 1_700_000_000.0
    assert all(limit.refusal("ada", hour + 20 * number) is None for number in range(180))
    for _ in range(100):  # and then they go on as before; what they press carries no date
        clock.now += 2
        assert limit.refusal("ada") is None
    flood = [limit.refusal("bob", hour) for _ in range(180)]
    assert flood.count(None) == 30


def test_dates_in_whole_seconds_earn_nothing() -> None:
    """Telegram rounds them: however the clocks beat against each other, a minute is a minute."""
    clock = Clock(1_000.9)
    limit = RateLimit(30, pause=0.0, clock=clock)
    taken = 0
    for _ in range(1_200):
        taken += limit.refusal("ada", float(int(clock.now))) is None
        clock.now += 0.1
    assert taken <= 30 + 60 + 1


def test_a_date_from_the_future_locks_nobody_out() -> None:
    """Either clock may be wrong; time passes anyway."""
    clock = Clock()
    limit = RateLimit(30, clock=clock)
    limit.refusal("ada", 9e9)
    for _ in range(40):
        limit.refusal("ada", 1e9)
    clock.now += 61
    assert limit.refusal("ada", 1e9) is None


def test_what_could_not_be_kept_is_not_counted() -> None:
    """A service delivers it again and again until the disk has room."""
    clock = Clock()
    limit = RateLimit(3, clock=clock)
    for _ in range(100):
        assert limit.refusal("ada") is None
        limit.refund("ada")
    limit.refund("nobody")


def test_memory_is_bounded() -> None:
    """However many people there are, and the newest are the ones who are remembered."""
    clock = Clock()
    limit = RateLimit(1, clock=clock)
    taken = 0
    for number in range(12_000):
        limit.refusal(f"person {number}")
        taken += limit.refusal("flood") is None
    assert limit.remembered == 10_000 and taken == 1
    assert limit.refusal("person 11999") and limit.refusal("person 0") is None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-50, 200) | st.none()), max_size=200))
@pytest.mark.timeout(60)
def test_never_more_than_the_bucket_and_its_refill(steps: list[tuple[float, float | None]]) -> None:
    """Accepted messages always fit the time that passed by one of the clocks."""
    clock = Clock(0.0)
    limit = RateLimit(10, clock=clock)
    taken, latest, earliest = 0, 0.0, 0.0
    for passed, offset in steps:
        clock.now += passed
        written = None if offset is None else 1e9 + clock.now + offset
        if offset is not None:
            latest, earliest = max(latest, offset), min(earliest, offset)
        taken += limit.refusal("ada", written) is None
    span = clock.now + (latest - earliest)
    assert taken <= 10 + span * 10 / 60 + 1
