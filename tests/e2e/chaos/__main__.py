"""`python -m tests.e2e.chaos kill|flood|soak`: what `make test-chaos` and `make soak` run."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.e2e.chaos.evidence import evidence
from tests.e2e.chaos.flood import run_flood
from tests.e2e.chaos.kills import run_kill_test
from tests.e2e.chaos.report import summary
from tests.e2e.chaos.soak import run_soak

_SHOWN_FAILURES = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.chaos")
    parser.add_argument(
        "--home", type=Path, help="Where state and logs are kept; a new folder if it is not given."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    kill = commands.add_parser("kill", help="Kill Hermes again and again, and look for what was lost.")
    kill.add_argument("--kills", type=int, default=200)
    kill.add_argument("--seed", type=int, default=1)
    kill.add_argument("--cold", action="store_true", help="Each start imports everything anew: slower.")
    kill.add_argument(
        "--relentless", action="store_true", help="Never let Hermes finish its work between two kills."
    )
    flood = commands.add_parser("flood", help="One person writes without end; are the others served?")
    flood.add_argument("--messages", type=int, default=1000)
    flood.add_argument("--seconds", type=float, default=60.0)
    soak = commands.add_parser(
        "soak", help="People talk for a while, things go wrong, and what is used is watched."
    )
    soak.add_argument("--seconds", type=float, default=600.0)
    soak.add_argument("--seed", type=int, default=1)
    soak.add_argument(
        "--kill-every", type=float, default=0.0, metavar="SECONDS", help="On average; 0: never."
    )
    options = parser.parse_args()
    options.home = options.home or Path(tempfile.mkdtemp(prefix="hermes-chaos-"))
    failed = asyncio.run({"kill": _kill, "flood": _flood, "soak": _soak}[options.command](options))
    if failed:
        print(f"State and logs are in {options.home}")
    return int(failed)


async def _kill(options: argparse.Namespace) -> bool:
    report = await run_kill_test(
        options.home,
        kills=options.kills,
        seed=options.seed,
        cold=options.cold,
        relentless=options.relentless,
    )
    print(summary(report))
    failed = bool(report.verdict.violations or report.damage or report.chaos.model.refusals)
    if failed:
        print(*(f"database damaged: {line}" for line in report.damage), sep="\n")
        print(evidence(report.chaos, report.verdict.violations))
    return failed


async def _flood(options: argparse.Namespace) -> bool:
    """Run the flood once with the default limits and once with only the queue limit."""
    unlimited: dict[str, object] = {
        "limits": {"messages_per_minute": None, "owner_messages_per_minute": None}
    }
    ways: dict[str, dict[str, object]] = {"usual limits": {"limits": {}}, "no limit a minute": unlimited}
    failed = False
    for name, settings in ways.items():
        home = options.home / name.replace(" ", "-")
        report = await run_flood(home, name, messages=options.messages, seconds=options.seconds, **settings)
        print(report, *report.failures[:_SHOWN_FAILURES], sep="\n")
        if report.verdict.violations:
            print(evidence(report.chaos, report.verdict.violations))
        failed |= bool(report.failures)
    return failed


async def _soak(options: argparse.Namespace) -> bool:
    report = await run_soak(
        options.home, seconds=options.seconds, seed=options.seed, kill_every=options.kill_every
    )
    print(report, *report.failures[:_SHOWN_FAILURES], sep="\n")
    if report.violations:
        print(evidence(report.chaos, report.violations))
    return bool(report.failures)


if __name__ == "__main__":
    sys.exit(main())
