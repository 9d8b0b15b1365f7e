"""Checks of `hermes doctor` for Python, the state directory and the configuration. Checks raise nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Literal

import gateway
from agent.errors import HermesError
from gateway.cli import ignored_sentence
from gateway.config import environment
from gateway.config.loader import LoadedConfig, ensure_home, load
from gateway.errors import ConfigError
from gateway.platforms.base import Finding

OLDEST_PYTHON = (3, 11)
_DISTRIBUTION = "hermes-gateway"
_MEGABYTE = 1_000_000
_LEAST_FREE_MB, _TOO_LITTLE_MB = 500, 50
_OTHERS = 0o077
"""The permission bits of group and others."""


def python() -> Finding:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return Finding("fail", f"Python {version} is too old; install Python 3.11 or newer")
    return Finding("ok", f"Python {version}")


def packages() -> Iterator[Finding]:
    """Find other distributions with a top-level `agent` or `gateway`, which would replace ours."""
    providers = importlib.metadata.packages_distributions()
    strangers = {name: set(providers.get(name, ())) - {_DISTRIBUTION} for name in ("agent", "gateway")}
    for name, distributions in strangers.items():
        for distribution in sorted(distributions):
            yield Finding(
                "fail", f"{distribution} also installs `{name}`; install Hermes in its own environment"
            )
    if not any(strangers.values()):
        yield Finding("ok", f"Hermes is installed in {Path(gateway.__path__[0]).parent}")
    for entry in environment.relative_pythonpath():
        what = f"the relative entry {entry!r}" if entry else "an empty entry"
        yield Finding(
            "warn", f"PYTHONPATH has {what}: Python runs code from the folder you start Hermes in; remove it"
        )


def state_directory() -> Iterator[Finding]:
    try:
        home = environment.state_directory()
        if not home.exists():
            yield _to_be_made(home)
            return
        ensure_home(home)
        yield from private(home, "chmod 700")
        if (home / ".env").exists():
            yield from private(home / ".env", "chmod 600")
    except (HermesError, OSError) as error:
        yield Finding("fail", str(error))


def _to_be_made(home: Path) -> Finding:
    """Check that the state directory can be created, without creating it."""
    ground = nearest_folder(home)
    if not ground.is_dir() or not os.access(ground, os.W_OK | os.X_OK):
        why = "is not writable" if ground.is_dir() else "is not a directory"
        return Finding(
            "fail",
            f"the state directory {home} cannot be created: {ground} {why}; change its permissions, or set HERMES_HOME",
        )
    return Finding("ok", f"the state directory {home} will be created at the first start")


def disk() -> Iterator[Finding]:
    """Warn about low disk space before messages are rejected because of it."""
    try:
        ground = nearest_folder(environment.state_directory())
        free = shutil.disk_usage(ground).free // _MEGABYTE
    except (HermesError, OSError):
        return  # said in the line about the state directory
    if free < _LEAST_FREE_MB:
        level: Literal["fail", "warn"] = "fail" if free < _TOO_LITTLE_MB else "warn"
        yield Finding(
            level,
            f"only {free} MB are free on the disk of {ground}; free some: with a full disk Hermes accepts no message",
        )


def nearest_folder(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def private(path: Path, remedy: str) -> Iterator[Finding]:
    if path.stat().st_mode & _OTHERS:
        yield Finding("warn", f"{path} is open to other users of this machine; run `{remedy} {path}`")
    else:
        yield Finding("ok", f"{path} is private to you")


def configuration(path: Path | None) -> Generator[Finding, None, LoadedConfig | None]:
    """Return the configuration if it is valid."""
    try:
        loaded = load(path)
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("fail", problem)
    except HermesError as error:
        yield Finding("fail", str(error))
    else:
        hint = "" if loaded.path else "; `hermes setup` writes a file"
        yield Finding("ok", f"configuration from {loaded.source}{hint}")
        if loaded.ignored:
            yield Finding("warn", ignored_sentence(loaded.ignored, loaded.source))
        return loaded
    return None
