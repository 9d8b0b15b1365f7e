"""Slash commands, one file each. Hermes answers them; they never reach the model.

A command file exports `COMMAND`; its name is what people type.
"""

from gateway.commands.registry import Again, Command, CommandContext, Commands

__all__ = ["Again", "Command", "CommandContext", "Commands"]
