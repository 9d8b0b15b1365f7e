"""`hermes doctor`: checks the installation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gateway.cli import Options
from gateway.cli.output import console, local_time, one_line, print_rows
from gateway.cli.store_access import read_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.platforms.base import Finding
    from gateway.store.ports import GatewayStore
    from gateway.store.reports import ParkedItem

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.option("--offline", is_flag=True, help="Do not call the model, and do not try the bots' tokens.")
@click.option("--repair", is_flag=True, help="Rebuild a damaged search index. Nothing else is changed.")
@click.option("--parked", is_flag=True, help="Only list messages and replies that failed, and why.")
@click.pass_context
def doctor(ctx: click.Context, offline: bool, repair: bool, parked: bool) -> None:
    """Check this installation and say what to fix.

    Each line begins with ok, warn or fail. The exit code is 1 if anything failed.
    """
    from gateway.observability.logs import configure_logging  # noqa: PLC0415 - not for `--help`; so below

    options: Options = ctx.obj
    if parked:
        _list_parked(options)
        return
    configure_logging("error", "human")  # no log lines between the findings
    findings = _report(_examine(options.config_path, offline, repair))
    if any(finding.level == "fail" for finding in findings):
        ctx.exit(1)


def _examine(config_path: Path | None, offline: bool, repair: bool) -> Iterable[Finding]:
    """Run the checks in order. Checks that need a valid configuration are skipped without one."""
    from gateway.cli import doctor_checks_agent as agent  # noqa: PLC0415
    from gateway.cli import doctor_checks_host as host  # noqa: PLC0415
    from gateway.cli.doctor_checks_platforms import platforms  # noqa: PLC0415
    from gateway.platforms.base import Finding  # noqa: PLC0415

    yield host.python()
    yield from host.packages()
    yield from host.state_directory()
    yield from host.disk()
    loaded = yield from host.configuration(config_path)
    yield from agent.keys()
    if loaded is not None:
        yield from agent.tools(loaded)
        yield from agent.sandbox(loaded)
        yield from agent.plugins(loaded)
        yield from host.store(loaded, repair=repair)
        yield from platforms(loaded, offline=offline)
        yield from agent.model(loaded, offline=offline)
        yield from agent.auxiliary_model(loaded)
        yield from agent.limits(loaded.config)
    else:
        rest = "tools, sandbox, plugins, store, platforms, model and limits"
        yield Finding("warn", f"not checked, because the configuration cannot be used: {rest}")


def _list_parked(options: Options) -> None:
    async def parked(store: GatewayStore) -> list[ParkedItem]:
        return [*await store.inbox.parked(), *await store.outbox.parked()]

    rows = [
        [each.kind, each.platform, each.chat_id or "-", local_time(each.since), one_line(each.reason, 200)]
        for each in read_store(options, parked)
    ]
    if rows:
        print_rows(console(), ("WHAT", "PLATFORM", "CHAT", "SINCE", "WHY"), rows)
    else:
        click.echo("Nothing is parked: no message and no reply failed.", err=True)


def _report(findings: Iterable[Finding]) -> list[Finding]:
    """Print each finding at once, because the model may take a while to answer."""
    out = console()
    seen = []
    for finding in findings:
        out.print(f"{finding.level:<5}", style=_STYLES[finding.level], end="")
        out.print(finding.text, soft_wrap=True)
        seen.append(finding)
    return seen
