"""A lossless context engine: summaries form a graph over what was said, and every message can be read again.

Activated by `context.engine: lcm`. `docs/lcm.md` explains it.
"""

from typing import Any

from .engine import LosslessContext

__all__ = ["LosslessContext", "register"]


def register(ctx: Any) -> None:
    """The engine is exported; this adds `/lcm`."""
    from . import command  # noqa: PLC0415 - it brings half of the gateway along, which an engine alone does not need

    ctx.register_command(command.make_command(ctx.hermes_home))
