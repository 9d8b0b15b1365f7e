"""What a process uses, looked at from outside while it works, and whether that grows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.e2e.chaos.process import Hermes

_MB = 2**20
_LATE = 10.0
"""Seconds after which an answer is not waited for any longer."""


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    """Seconds since the beginning."""
    life: int
    rss_mb: float
    open_files: int
    lag_ms: float
    """What `/healthz` took, which needs no more than the event loop."""
    database_mb: float
    wal_mb: float
    messages: int


class Sampler:
    def __init__(self, hermes: Hermes, url: str, count: Callable[[], int]) -> None:
        self.samples: list[Sample] = []
        self._hermes = hermes
        self._url = url
        self._count = count
        self._began = time.monotonic()

    @asynccontextmanager
    async def running(self, every: float) -> AsyncIterator[Sampler]:
        task = asyncio.create_task(self._run(every))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self, every: float) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_LATE)) as http:
            while True:
                if self._hermes.is_alive:
                    await self._take(http)
                await asyncio.sleep(every)

    async def _take(self, http: aiohttp.ClientSession) -> None:
        life, database = self._hermes.life, self._hermes.database
        asked = time.monotonic()
        try:
            async with http.get(f"{self._url}/healthz") as answer:
                await answer.read()
            proc = Path("/proc") / str(life.pid)
            status = (proc / "status").read_text()
            files = len(list((proc / "fd").iterdir()))
        except (aiohttp.ClientError, TimeoutError, OSError):
            return  # it has just been killed, or is not up yet
        lag = time.monotonic() - asked
        kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        size, wal = _size(database), _size(database.with_name(f"{database.name}-wal"))
        at = time.monotonic() - self._began
        self.samples.append(
            Sample(at, life.number, int(kilobytes) / 1024, files, 1000 * lag, size, wal, self._count())
        )


def _size(path: Path) -> float:
    return path.stat().st_size / _MB if path.exists() else 0.0


COLUMNS: tuple[tuple[str, str], ...] = (
    ("rss_mb", "RSS MB"),
    ("open_files", "open files"),
    ("lag_ms", "lag ms"),
    ("database_mb", "database MB"),
    ("wal_mb", "WAL MB"),
    ("messages", "messages"),
)


def samples_table(samples: Sequence[Sample], most: int = 24) -> str:
    """Some of the samples, and by how much each figure grows in a minute once the beginning is over."""
    heads = ["seconds", *(title for _, title in COLUMNS)]
    step = max(1, -(-len(samples) // most))
    rows = [
        [f"{sample.at:.0f}", *(_shown(sample, name) for name, _ in COLUMNS)] for sample in samples[::step]
    ]
    rows.append(["per minute", *(f"{slope(samples, name):+.2f}" for name, _ in COLUMNS)])
    return "\n".join("  " + "".join(f"{cell:>13}" for cell in row) for row in [heads, *rows])


def slope(samples: Sequence[Sample], name: str) -> float:
    """A straight line through the later two thirds of the samples: its growth in a minute."""
    later = samples[len(samples) // 3 :]
    if len(later) < 2:
        return 0.0
    times = [sample.at / 60 for sample in later]
    values = [float(getattr(sample, name)) for sample in later]
    middle, level = sum(times) / len(times), sum(values) / len(values)
    spread = sum((at - middle) ** 2 for at in times)
    if not spread:
        return 0.0
    return sum((at - middle) * (value - level) for at, value in zip(times, values, strict=True)) / spread


def _shown(sample: Sample, name: str) -> str:
    value = getattr(sample, name)
    return str(value) if isinstance(value, int) else f"{value:.1f}"
