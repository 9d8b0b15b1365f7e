"""Flood: one person writes a thousand messages in a minute while fifty others write too.

The others must be answered as usual, memory must stay bounded, every accepted message of the thousand must be answered,
and every rejection must be announced.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import median

from tests.e2e.chaos.chaos_run import ChaosRun, open_chaos_run
from tests.e2e.chaos.checks import TROUBLE, Verdict, check
from tests.e2e.chaos.observed import Observed, Said, Shown
from tests.e2e.chaos.places import Place
from tests.e2e.chaos.report import table
from tests.e2e.chaos.samples import Sample, Sampler, samples_table

CROWD = 50
MOST_GROWTH_MB = 60.0
"""Of memory, while messages pour in."""
PATIENCE = 30.0
"""Seconds without any new answer after which no more are expected."""


@dataclass
class FloodReport:
    name: str
    messages: int
    chaos: ChaosRun
    calm: list[float] = field(default_factory=list)
    """Seconds that people waited before the flood."""
    waves: list[list[float]] = field(default_factory=list)
    """The same during it, wave after wave."""
    taken: int = 0
    refused: int = 0
    told: Counter[str] = field(default_factory=Counter)
    """The sentences with which messages were refused."""
    untold: int = 0
    """Messages that were rejected without a notice."""
    rss_before: float = 0.0
    verdict: Verdict = field(default_factory=Verdict)
    samples: list[Sample] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failures(self) -> list[str]:
        found = [f"{v.kind} in {v.chat}: {v.detail}" for v in self.verdict.violations]
        if self.untold:
            found.append(f"{self.untold} messages were not taken, and nobody was told")
        found += ["somebody was not served" for wave in self.waves if len(wave) < CROWD]
        growth = max((sample.rss_mb for sample in self.samples), default=0.0) - self.rss_before
        if growth > MOST_GROWTH_MB:
            found.append(f"memory grew by {growth:.0f} MB")
        return found

    def __str__(self) -> str:
        rss = [sample.rss_mb for sample in self.samples]
        lines = [(f"others wait before it, {_spread(self.calm)}", len(self.calm))]
        lines += [
            (f"others wait in wave {at}, {_spread(wave)}", len(wave)) for at, wave in enumerate(self.waves, 1)
        ]
        figures: list[tuple[str, object]] = [
            ("messages of the one", self.messages),
            ("  taken and answered", self.taken),
            ("  refused", self.refused),
            *((f"    {sentence[:100]}", count) for sentence, count in self.told.most_common(5)),
            ("    without a sentence", self.untold),
            *lines,
            ("RSS before it, MB", round(self.rss_before)),
            ("RSS at most, MB", round(max(rss)) if rss else "-"),
            ("lag at most, ms", round(max((sample.lag_ms for sample in self.samples), default=0))),
            ("violations", len(self.failures)),
            ("seconds", round(self.seconds)),
        ]
        return f"Flood, {self.name}\n{table(figures)}\n{samples_table(self.samples, most=12)}"


class Flood:
    def __init__(self, chaos: ChaosRun, report: FloodReport, sampler: Sampler, seconds: float) -> None:
        self._sampler = sampler
        self._chaos = chaos
        self._report = report
        self._seconds = seconds
        direct = chaos.at("telegram", is_direct=True)
        self._flooder = direct[0]
        self._others: list[Place] = [*direct[4:], *chaos.at("discord", is_direct=True)[3:]]

    async def run(self) -> None:
        report, began = self._report, time.monotonic()
        await self._chaos.hermes.start()
        await self._chaos.is_listened_to()
        await self._served(self._others[:1])  # the first answer of all takes seconds
        report.calm = await self._served(self._others)
        report.rss_before = self._sampler.samples[-1].rss_mb
        pouring = asyncio.create_task(self._pour())
        for _ in range(3):
            await asyncio.sleep(self._seconds / 4)
            report.waves.append(await self._served(self._others))
        await pouring
        await self._until_quiet()
        self._judge(await self._chaos.observed())
        await self._chaos.hermes.stop()
        report.seconds = time.monotonic() - began

    async def _pour(self) -> None:
        """Evenly, by the clock: who is late writes faster."""
        began = time.monotonic()
        for number in range(self._report.messages):
            due = began + number * self._seconds / self._report.messages
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._chaos.say(self._flooder, "short")

    async def _served(self, places: list[Place]) -> list[float]:
        """All of them write at once. Gives how long each waited for the answer."""
        chaos = self._chaos
        asked = {await chaos.say(place, "short"): place for place in places}
        waited: list[float] = []
        patience = time.monotonic() + PATIENCE
        while asked and time.monotonic() < patience:
            await asyncio.sleep(0.02)
            for token, place in list(asked.items()):
                if any(place.shows(word) for word in chaos.model.endings.get(token, ())):
                    waited.append(time.monotonic() - chaos.said_at[token])
                    del asked[token]
        return waited

    async def _until_quiet(self) -> None:
        chaos, known, since = self._chaos, -1, time.monotonic()
        while time.monotonic() - since < PATIENCE / 3 and chaos.unanswered():
            await asyncio.sleep(0.5)
            calls = len(chaos.telegram.calls_of("sendMessage"))
            if calls != known:
                known, since = calls, time.monotonic()

    def _judge(self, observed: Observed) -> None:
        """Count the lost messages; a rejected message with a notice is not lost."""
        report, chat = self._report, self._flooder.chat
        taken = {said.token for said in observed.said} - {
            violation.token for violation in check(observed).of("lost") if violation.chat == chat
        }
        said = [replace(each, accepted=each.token in taken) for each in observed.said]
        refusals = [
            shown for shown in observed.shown if shown.chat == chat and shown.text.startswith(TROUBLE)
        ]
        shown = [each for each in observed.shown if each not in refusals]
        report.told = Counter(" ".join(shown.text.split()) for shown in refusals)
        report.untold = _untold([each for each in said if each.chat == chat], refusals)
        report.taken = sum(each.accepted for each in said if each.chat == chat)
        report.refused = report.messages - report.taken
        report.verdict = check(replace(observed, said=said, shown=shown))


async def run_flood(
    home: Path, name: str, *, messages: int, seconds: float, **settings: object
) -> FloodReport:
    async with open_chaos_run(home, cold=True, crowd=CROWD, **settings) as chaos:
        report = FloodReport(name, messages, chaos)
        sampler = Sampler(chaos.hermes, chaos.url, lambda: len(chaos.said))
        async with sampler.running(every=1.0):
            await Flood(chaos, report, sampler, seconds).run()
        report.samples = sampler.samples
    return report


def _untold(said: list[Said], refusals: list[Shown]) -> int:
    """One sentence is enough for messages that follow each other; it replies to one of them."""
    replied_to = {shown.reply_to for shown in refusals}
    runs = [list(run) for taken, run in groupby(said, key=lambda each: each.accepted) if not taken]
    return sum(len(run) for run in runs if not any(each.number in replied_to for each in run))


def _spread(waited: list[float]) -> str:
    if not waited:
        return "never"
    ordered = sorted(waited)
    return f"median {median(ordered):.2f}, p95 {ordered[int(0.95 * (len(ordered) - 1))]:.2f}, most {ordered[-1]:.2f} s"
