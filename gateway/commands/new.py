from __future__ import annotations

from dataclasses import replace

from gateway.commands.reset import COMMAND as RESET

COMMAND = replace(RESET, name="new", summary="the same as /reset")
"""A command of its own, not an alias: the menus of Telegram and Discord show commands only."""
