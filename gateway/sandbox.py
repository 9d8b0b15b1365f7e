"""The sandbox of the terminal, as the owner configured it."""

from __future__ import annotations

from agent.sandbox.sandbox import Sandbox
from gateway.config.load import Loaded


def configured_sandbox(loaded: Loaded) -> Sandbox | None:
    """None where the owner wants none."""
    config = loaded.config.tools.sandbox
    if config.mode == "off":
        return None
    # The system's folders can be read there. Whoever keeps Hermes in one of them keeps its secrets all the same.
    hidden = (loaded.home, loaded.database.parent, *([loaded.path] if loaded.path else ()))
    return Sandbox(
        network=config.network,
        memory_mb=config.memory_mb,
        processes=config.processes,
        seconds=config.seconds,
        cpu_seconds=config.cpu_seconds,
        file_mb=config.file_mb,
        hidden=hidden,
    )
