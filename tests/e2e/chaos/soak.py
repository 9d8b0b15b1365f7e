"""The soak: people talk for a long time, services and model have their bad days, and what is used is watched."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.chaos.chaos_run import ChaosRun, open_chaos_run
from tests.e2e.chaos.checks import TROUBLE, Verdict, Violation, check
from tests.e2e.chaos.moments import Kind
from tests.e2e.chaos.places import Place
from tests.e2e.chaos.report import table
from tests.e2e.chaos.samples import Sample, Sampler, samples_table
from tests.e2e.chaos.words import answer
from tests.fakes.discord import server as discord
from tests.fakes.script import Failure, Reply
from tests.fakes.telegram import server as telegram

MESSAGES_PER_SECOND = 1.5
FAULT_EVERY = 3.0
MODEL_TROUBLE = 0.06
"""Of all requests."""
RESET_EVERY = 15
"""Messages in one chat, so that what the model has to read does not grow for ever."""
PATIENCE = 40.0

_KINDS: tuple[Kind, ...] = ("short", "short", "short", "short", "stream", "long", "tool", "tool and stream")
_TOLERATED = frozenset(("trouble told", "unanswered"))
"""Where a model fails for too long the person is told so, and that is the answer."""


@dataclass
class SoakReport:
    seed: int
    chaos: ChaosRun
    faults: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    troubles: int = 0
    """Sentences about something that failed."""
    verdict: Verdict = field(default_factory=Verdict)
    samples: list[Sample] = field(default_factory=list)
    resumed: int = 0
    seconds: float = 0.0

    @property
    def violations(self) -> list[Violation]:
        return [violation for violation in self.verdict.violations if violation.kind not in _TOLERATED]

    @property
    def failures(self) -> list[str]:
        found = [f"{v.kind} in {v.chat}: {v.detail}" for v in self.violations]
        if len(self.verdict.of("unanswered")) > self.troubles:
            found.append("messages were not answered, and nobody was told")
        return found

    def __str__(self) -> str:
        counts = self.verdict.counts
        figures: list[tuple[str, object]] = [
            ("messages", counts["messages"]),
            ("complete replies seen", counts["replies"]),
            ("unanswered", len(self.verdict.of("unanswered"))),
            ("sentences about trouble", self.troubles),
            ("marked `(possibly sent twice)`", counts["marked"]),
            ("kills", self.kills),
            ("resumed turns", self.resumed),
            ("faults", sum(self.faults.values())),
            *((f"  {name}", count) for name, count in sorted(self.faults.items())),
            ("violations", len(self.failures)),
            ("seconds", round(self.seconds)),
        ]
        return f"Soak, seed {self.seed}\n{table(figures)}\n{samples_table(self.samples)}"


class Soak:
    def __init__(self, chaos: ChaosRun, report: SoakReport, *, kill_every: float) -> None:
        self._chaos = chaos
        self._report = report
        self._kill_every = kill_every
        self._chance = random.Random(report.seed)
        self._said_at: Counter[str] = Counter()
        chaos.model.trouble = self._model_trouble

    async def run(self, seconds: float) -> None:
        chaos, began = self._chaos, time.monotonic()
        await chaos.hermes.start()
        await chaos.is_listened_to()
        work = [asyncio.create_task(part()) for part in (self._talk, self._make_trouble, self._kill)]
        done, _ = await asyncio.wait(work, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        for task in done:
            task.result()
        chaos.model.trouble = lambda token: None
        if not chaos.hermes.is_alive:
            await chaos.hermes.start()
        await self._until_quiet()
        observed = await chaos.observed()
        self._report.verdict = check(observed)
        self._report.troubles = sum(shown.text.startswith(TROUBLE) for shown in observed.shown)
        self._report.resumed = chaos.model.resumed
        await chaos.hermes.stop()
        self._report.seconds = time.monotonic() - began

    async def _talk(self) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(MESSAGES_PER_SECOND))
            place: Place = self._chance.choice(self._chaos.places)
            self._said_at[place.chat] += 1
            if self._said_at[place.chat] % RESET_EVERY == 0:
                await place.command("/reset")
            await self._chaos.say(place, self._chance.choice(_KINDS))
            await self._chaos.look()

    async def _kill(self) -> None:
        while self._kill_every:
            await asyncio.sleep(self._chance.expovariate(1 / self._kill_every))
            self._chaos.hermes.kill()
            await self._chaos.hermes.ended()
            self._chaos.discord.gateway.forget_sessions()
            self._report.kills += 1
            await self._chaos.hermes.start()

    async def _make_trouble(self) -> None:
        tg, dc, chance = self._chaos.telegram, self._chaos.discord, self._chance
        telegram_faults: dict[str, Callable[[], telegram.Fault]] = {
            "429": lambda: telegram.Fault.flood(1),
            "500": lambda: telegram.Fault.error(500, "Internal Server Error"),
            "reset": telegram.Fault.drop,
            "answer lost": telegram.Fault.lost,
        }
        discord_faults: dict[str, Callable[[], discord.Fault]] = {
            "429": lambda: discord.Fault.rate_limited(0.5),
            "500": lambda: discord.Fault.error(500),
            "reset": discord.Fault.drop,
            "answer lost": discord.Fault.lose_answer,
        }
        while True:
            await asyncio.sleep(chance.expovariate(1 / FAULT_EVERY))
            if chance.random() < 0.5:
                name = chance.choice(sorted(telegram_faults))
                method = chance.choice(("sendMessage", "editMessageText", "getUpdates"))
                tg.fail_next(method, telegram_faults[name]())
                self._report.faults[f"telegram {method} {name}"] += 1
            else:
                name = chance.choice(sorted(discord_faults))
                verb = chance.choice(("send_message", "edit_message"))
                dc.fail_next(verb, discord_faults[name]())
                self._report.faults[f"discord {verb} {name}"] += 1

    def _model_trouble(self, token: int) -> Reply | Failure | None:
        if self._chance.random() > MODEL_TROUBLE:
            return None
        troubles: dict[str, Reply | Failure] = {
            "500": Failure(500),
            "529": Failure(529, "Overloaded"),
            "429": Failure(429, retry_after=1),
            "reset": Reply(trouble="drop"),
            "reset in the middle": Reply(answer(token, 0, 6), trouble="drop", after=3),
            "cut in the middle": Reply(answer(token, 0, 6), trouble="cut", after=3),
        }
        name = self._chance.choice(sorted(troubles))
        self._report.faults[f"model {name}"] += 1
        return troubles[name]

    async def _until_quiet(self) -> None:
        chaos, known, since = self._chaos, -1, time.monotonic()
        while time.monotonic() - since < PATIENCE and chaos.unanswered():
            await asyncio.sleep(0.2)
            await chaos.look()
            left = len(chaos.unanswered())
            if left != known:
                known, since = left, time.monotonic()
        await asyncio.sleep(1.0)  # signs are taken away after the answers


async def run_soak(home: Path, *, seconds: float, seed: int, kill_every: float = 0.0) -> SoakReport:
    async with open_chaos_run(home, cold=True, crowd=10) as chaos:
        report = SoakReport(seed, chaos)
        sampler = Sampler(chaos.hermes, chaos.url, lambda: len(chaos.said))
        async with sampler.running(every=max(1.0, seconds / 120)):
            await Soak(chaos, report, kill_every=kill_every).run(seconds)
        report.samples = sampler.samples
    return report
