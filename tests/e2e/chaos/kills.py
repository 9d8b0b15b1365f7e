"""The kill test: people talk, Hermes is killed at the worst of moments and started again, over and over."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.chaos.chaos_run import ChaosRun, open_chaos_run
from tests.e2e.chaos.checks import Verdict, check
from tests.e2e.chaos.database import damage
from tests.e2e.chaos.moments import MOMENTS, Bait, Kind, Moment
from tests.e2e.chaos.observed import Said
from tests.e2e.chaos.places import Place

MOST_KILLS_OF_A_MESSAGE = 2
"""A message that is worked on at more deaths is retried later and later, so that fewer of the moments come. Before
that, unless the test is relentless, everything is brought to its end."""
LONGEST_WAIT = 8.0
"""For a moment that does not come."""
BETWEEN = 0.6
"""Seconds. By then the first of two messages is being worked on, so that the second has to wait."""
QUIET = 0.4
"""Seconds without change after which nothing more is expected."""
CHECKED_EVERY = 10
"""Kills."""

_KINDS: tuple[Kind, ...] = ("short", "short", "short", "stream", "stream", "long", "tool", "tool and stream")


@dataclass
class Report:
    seed: int
    chaos: ChaosRun
    verdict: Verdict = field(default_factory=Verdict)
    kills: Counter[str] = field(default_factory=Counter)
    """By moment."""
    missed: Counter[str] = field(default_factory=Counter)
    """Moments that did not come, so that Hermes was killed at some other."""
    damage: list[str] = field(default_factory=list)
    seconds: float = 0.0
    starts: list[float] = field(default_factory=list)
    """Seconds from a start until both services were listened to."""


class KillTest:
    def __init__(self, chaos: ChaosRun, seed: int, *, relentless: bool = False) -> None:
        self._chaos = chaos
        self._relentless = relentless
        self._chance = random.Random(seed)
        self._kills_of: Counter[int] = Counter()
        self._given_up: set[int] = set()
        self.report = Report(seed, chaos)

    async def run(self, kills: int, deck: Sequence[Moment]) -> Report:
        began = time.monotonic()
        cards: list[Moment] = []
        # What was written before a bot was there for the first time is not for it.
        await self._start()
        await self._is_listening()
        for number in range(1, kills + 1):
            cards = cards or self._chance.sample(list(deck), len(deck))
            await self._until_killed(cards.pop())
            if number % CHECKED_EVERY == 0:
                self.report.damage += await asyncio.to_thread(damage, self._chaos.hermes.database)
        await self._start()
        # The last process resumes deliveries only once its bots are connected.
        await self._is_listening()
        await self._bring_to_an_end()
        await self._settle()
        self.report.verdict = check(await self._chaos.observed())
        await self._chaos.hermes.stop()
        self.report.damage += await asyncio.to_thread(damage, self._chaos.hermes.database)
        self.report.seconds = time.monotonic() - began
        return self.report

    # -- one kill --------------------------------------------------------------------------------------------

    async def _until_killed(self, moment: Moment) -> None:
        chaos, chance = self._chaos, self._chance
        if not self._relentless and any(
            self._kills_of[said.token] >= MOST_KILLS_OF_A_MESSAGE for said in self._open()
        ):
            await self._start()
            await self._bring_to_an_end()
        if not chaos.hermes.is_alive and chance.random() < 0.4:
            await self._somebody_says_something()
        outcome, delay = chance.choice(moment.outcomes), chance.uniform(*moment.seconds)
        if moment.point:
            chaos.trap.set(moment, outcome, delay)
        await self._start()
        chatter = asyncio.create_task(self._chatter())
        try:
            name = f"{moment.name}, {outcome}" if len(moment.outcomes) > 1 and moment.point else moment.name
            if await self._comes(moment, delay):
                self.report.kills[name] += 1
            else:
                self.report.missed[name] += 1
        finally:
            chatter.cancel()
            await asyncio.wait([chatter])
            if not chatter.cancelled() and (error := chatter.exception()):
                raise error
        await self._bury()

    async def _comes(self, moment: Moment, delay: float) -> bool:
        chaos = self._chaos
        if moment.since == "start" and not moment.point:
            bait = asyncio.create_task(self._take(moment.bait)) if moment.bait else None
            await asyncio.sleep(delay)
            chaos.hermes.kill()
            if bait:
                await bait
            return True
        await self._is_listening()
        if not moment.point:
            bait = asyncio.create_task(self._take(moment.bait))
            await asyncio.sleep(delay)
            chaos.hermes.kill()
            await bait
            return True
        await self._take(moment.bait)
        try:
            await asyncio.wait_for(chaos.trap.sprung.wait(), LONGEST_WAIT)
            return True
        except TimeoutError:
            chaos.trap.clear()
            chaos.hermes.kill()
            return False

    async def _start(self) -> None:
        if not self._chaos.hermes.is_alive:
            await self._chaos.hermes.start()

    async def _is_listening(self) -> None:
        if await self._chaos.is_listened_to():
            self.report.starts.append(time.monotonic() - self._chaos.hermes.life.started)

    async def _bury(self) -> None:
        chaos = self._chaos
        await chaos.hermes.ended()
        life = chaos.hermes.life
        assert life.killed is not None, f"Hermes has ended by itself; see {life.log}"
        for said in self._open():
            self._kills_of[said.token] += 1
        # The next one begins a session of its own; this one would go on collecting events.
        await chaos.discord.gateway.is_offline()
        chaos.discord.gateway.forget_sessions()

    # -- what people say -------------------------------------------------------------------------------------

    async def _take(self, bait: Bait | None) -> None:
        if bait is None:
            return
        place = self._chance.choice(self._chaos.at(bait.platform, is_direct=bait.kind != "short"))
        for number in range(bait.count):
            await asyncio.sleep(number * BETWEEN)
            await self._chaos.say(place, bait.kind)

    async def _chatter(self) -> None:
        for _ in range(self._chance.randint(0, 3)):
            await asyncio.sleep(self._chance.uniform(0.0, 0.7))
            await self._somebody_says_something()

    async def _somebody_says_something(self) -> None:
        place: Place = self._chance.choice(self._chaos.places)
        await self._chaos.say(place, self._chance.choice(_KINDS))

    # -- peace -----------------------------------------------------------------------------------------------

    def _open(self) -> list[Said]:
        return [said for said in self._chaos.unanswered() if said.token not in self._given_up]

    async def _bring_to_an_end(self, patience: float = 90.0) -> None:
        """Until all is answered, or nothing has been for so long; then the rest is given up. A message that was worked
        on at many kills is retried after a pause of up to a minute."""
        left, since = len(self._open()), time.monotonic()
        while left:
            await asyncio.sleep(0.05)
            await self._chaos.look()
            now = len(self._open())
            if now != left:
                left, since = now, time.monotonic()
            elif time.monotonic() - since > patience:
                self._given_up |= {said.token for said in self._open()}
                break
        self._kills_of.clear()

    async def _settle(self, longest: float = 10.0) -> None:
        """What is taken away after the answers is gone as well."""
        began = changed = time.monotonic()
        calls = 0
        while time.monotonic() - changed < QUIET and time.monotonic() - began < longest:
            await asyncio.sleep(0.02)
            made = len(self._chaos.discord.calls) + len(self._chaos.telegram.calls)
            if made != calls:
                calls, changed = made, time.monotonic()


async def run_kill_test(
    home: Path,
    *,
    kills: int,
    seed: int,
    deck: Sequence[Moment] = MOMENTS,
    cold: bool = False,
    relentless: bool = False,
) -> Report:
    async with open_chaos_run(home, cold=cold) as chaos:
        return await KillTest(chaos, seed, relentless=relentless).run(kills, deck)
