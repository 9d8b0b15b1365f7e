"""What `hermes doctor` says about the sandbox of the terminal: it is really tried."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agent.errors import SandboxNotAvailable
from agent.tools.terminal import terminal
from gateway.cli.doctor_checks import Finding
from gateway.config.load import Loaded
from gateway.sandbox import configured_sandbox


def sandbox(loaded: Loaded) -> Iterator[Finding]:
    """Nothing where no command can be run."""
    tools = loaded.config.tools
    if not any(terminal.name in names for names in (tools.enabled, *tools.platforms.values())):
        return
    chosen = configured_sandbox(loaded)
    if chosen is None:
        yield Finding(
            "warn",
            "tools.sandbox.mode is off: a command of the terminal may do whatever Hermes itself may, with its keys "
            "and its database; set it to bubblewrap",
        )
        return
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(chosen.try_out(Path(folder)))
    except SandboxNotAvailable as error:
        yield Finding("fail", f"the sandbox of the terminal does not work: {error.detail}")
        return
    yield Finding(
        "ok", f"the sandbox of the terminal works; it has {'a' if chosen.network else 'no'} network"
    )
    web = loaded.config.platforms.web
    if chosen.network and web.enabled and not web.token:
        yield Finding(
            "warn",
            "tools.sandbox.network lets commands reach the chat page of this Hermes; set platforms.web.token",
        )
