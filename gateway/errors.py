"""Errors of the gateway, as one tree. The docstring of a class is the sentence that a person reads.

HermesError                     (agent/errors.py, with the errors of models, store and tools)
├── ConfigError                 exit code 2: fixed by editing the configuration
├── ConfigNotWritten
├── PluginError                 exit code 2: fixed in the plugin or in the configuration
│   ├── UnknownPlugin
│   ├── PluginBroken
│   ├── UnknownEngine
│   └── EngineBroken
├── StateDirectoryUnusable
│   └── RestoreUnfinished
├── AlreadyRunning
├── BackupFailed
├── BackupUnusable
├── RestoreFailed
├── ImportRefused
├── AttachmentRefused
├── QueueFull
├── CommandFailed
├── ShuttingDown
└── CannotListen
    ├── PortTaken
    └── OpenWithoutToken
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.errors import HermesError


class ConfigError(HermesError):
    """The configuration cannot be used:"""

    exit_code = 2

    def __init__(self, detail: str = "", *, problems: Sequence[str] = ()) -> None:
        self.problems = tuple(problems) or (detail,)
        """All problems, one sentence each."""
        super().__init__(detail or _as_list(self.problems))


class ConfigNotWritten(HermesError):
    """The configuration was not changed:"""


class PluginError(HermesError):
    """A plugin cannot be used:"""

    exit_code = 2


class UnknownPlugin(PluginError):
    """`plugins.enabled` names a plugin that does not exist; `hermes plugins list` shows those that do."""


class PluginBroken(PluginError):
    """A plugin cannot be loaded; fix it, or disable it with `hermes plugins disable`:"""


class UnknownEngine(PluginError):
    """`context.engine` names an engine that does not exist; `hermes plugins list` shows those that do."""


class EngineBroken(PluginError):
    """The context engine cannot be used; fix it, or choose another with `hermes plugins use`:"""


class StateDirectoryUnusable(HermesError):
    """Hermes cannot use the state directory; set HERMES_HOME to a directory that you may read and write."""


class RestoreUnfinished(StateDirectoryUnusable):
    """An unfinished restore keeps Hermes from starting. Nothing is lost:"""


class AlreadyRunning(HermesError):
    """Another Hermes is using this state directory (a gateway or an open `hermes chat`); stop it or set HERMES_HOME."""


class BackupFailed(HermesError):
    """The backup failed, and no file was left:"""


class BackupUnusable(HermesError):
    """This backup cannot be used, and nothing was changed:"""


class RestoreFailed(HermesError):
    """The backup was not restored, and nothing was changed:"""


class ImportRefused(HermesError):
    """This cannot be imported:"""


class QueueFull(HermesError):
    """Too many messages are waiting to be answered, so this one was not accepted; send it again later."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"({waiting} are waiting.)")


class CommandFailed(HermesError):
    """That could not be done:"""


class ShuttingDown(HermesError):
    """Hermes is being stopped; try again once it is back."""


class CannotListen(HermesError):
    """Hermes cannot listen there; check `platforms.web.host` and `platforms.web.port`."""


class PortTaken(CannotListen):
    """Another program uses the port; stop it, or set `platforms.web.port` to a free one."""


class OpenWithoutToken(CannotListen):
    """Others could reach the chat page there; set `platforms.web.token`, or `platforms.web.host` to 127.0.0.1."""


def _as_list(problems: Sequence[str]) -> str:
    if len(problems) == 1:
        return problems[0]
    return "\n  ".join([f"{len(problems)} problems.", *problems])


class AttachmentRefused(HermesError):
    """The file cannot be accepted:"""
