"""`hermes doctor`: is everything in place, and if not, what to do about it?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli import Options
from gateway.cli.output import console

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.cli.doctor_checks import Finding

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.option("--offline", is_flag=True, help="Do not ask the model for an answer, nor try the bots' tokens.")
@click.pass_context
def doctor(ctx: click.Context, offline: bool) -> None:
    """Check this installation and say what to mend.

    Each line begins with ok, warn or fail. The exit code is 1 if anything failed.
    """
    from gateway.logs import configure_logging  # noqa: PLC0415 - not for `--help`

    options: Options = ctx.obj
    configure_logging("error", "human")  # log lines would stand between the findings
    findings = _report(_examine(options.config_path, offline))
    if any(finding.level == "fail" for finding in findings):
        ctx.exit(1)


def _examine(config_path: Path | None, offline: bool) -> Iterable[Finding]:
    """From the ground up: what stands on something broken is not examined."""
    from gateway.cli import doctor_checks as check  # noqa: PLC0415 - not for `--help`
    from gateway.cli.doctor_checks_bots import bots  # noqa: PLC0415

    yield check.python()
    yield from check.packages()
    yield from check.state_directory()
    loaded = yield from check.configuration(config_path)
    yield from check.keys()
    if loaded is not None:
        yield from check.tools(loaded)
        yield from check.plugins(loaded)
        yield from check.store(loaded)
        yield from check.web_port(loaded.config.platforms.web)
        yield from bots(loaded, offline=offline)
        yield from check.model(loaded, offline=offline)


def _report(findings: Iterable[Finding]) -> list[Finding]:
    """Prints each as soon as it is known: the model may take a while to answer."""
    out = console()
    seen = []
    for finding in findings:
        out.print(f"{finding.level:<5}", style=_STYLES[finding.level], end="")
        out.print(finding.text, soft_wrap=True)
        seen.append(finding)
    return seen
