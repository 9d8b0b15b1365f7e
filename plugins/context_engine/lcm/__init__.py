"""A lossless context engine: it summarises old messages, keeps every message, and finds them again.

Select it with `context.engine: lcm`. `docs/lcm.md` explains it.
"""

from typing import Any

from .engine import LosslessContext

__all__ = ["LosslessContext", "register"]


def register(ctx: Any) -> None:
    """Add the command `/lcm`. The host finds the engine by its class."""
    from . import command  # noqa: PLC0415 - it imports the gateway, which an engine alone does not need

    ctx.register_command(command.make_command(ctx.hermes_home))
