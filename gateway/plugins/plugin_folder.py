"""Plugin folders: `plugin.yaml` describes the plugin, `__init__.py` is its code, whose errors become PluginFaults."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import re
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import yaml

from agent.aio import ForeignError, foreign_code
from agent.context.engine_runner import DEADLINES

T = TypeVar("T")

MANIFEST = "plugin.yaml"
CODE = "__init__.py"
LOAD_SECONDS = DEADLINES["__init__"]
"""Seconds after which loading a plugin is given up."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_load_number = itertools.count(1)


class PluginFault(Exception):
    """An error of a plugin, with the traceback if the plugin's code raised it."""

    def __init__(self, reason: str, traceback: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.traceback = traceback


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `plugin.yaml` that Hermes reads. Other keys are ignored."""

    description: str = ""
    version: str = ""


def is_plugin_name(name: str) -> bool:
    """Tell whether `name` is a plain folder name: not a path, not hidden."""
    return _NAME.fullmatch(name) is not None


def folders_in(parent: Path) -> list[Path]:
    """Return the plugin folders in `parent`, sorted by name."""
    try:
        return sorted(each for each in parent.iterdir() if each.is_dir() and is_plugin_name(each.name))
    except OSError:
        return []


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest; empty if the file is missing. Raises PluginFault if it cannot be read."""
    path = folder / MANIFEST
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PluginFault(f"{MANIFEST} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise PluginFault(f"{MANIFEST} must contain a mapping with `name`, `description` and `version`.")
    said = {key: " ".join(str(content.get(key) or "").split()) for key in ("description", "version")}
    return Manifest(**said)


def load_package(folder: Path) -> ModuleType:
    """Import the folder as a package, so that its modules can use relative imports.

    The module's name is unique for each load: plugins of the same name do not share modules.
    """
    code = folder / CODE
    if not code.is_file():
        raise PluginFault(f"it has no {CODE}.")
    name = f"hermes_plugin_{next(_load_number)}_{folder.name.replace('-', '_')}"
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(name, code, submodule_search_locations=[str(folder)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        run_plugin_code(partial(spec.loader.exec_module, module), folder)
    except PluginFault:
        _unload(name)
        raise
    return module


def run_plugin_code(call: Callable[[], T], folder: Path) -> T:
    """Call a plugin's function. Every exception of it becomes a PluginFault, except Ctrl-C."""
    with _plugin_faults(folder):
        return call()


async def await_plugin_code(work: Awaitable[T], folder: Path) -> T:
    """Await a plugin's coroutine. Every exception of it becomes a PluginFault, except a cancel by the caller."""
    with _plugin_faults(folder):
        return await work


@contextmanager
def _plugin_faults(folder: Path) -> Iterator[None]:
    try:
        with foreign_code(PluginFault):
            yield
    except ForeignError as failure:
        raise _fault(failure.error, folder) from failure.error


def run_with_timeout(
    work: Callable[[], T], folder: Path, seconds: float, *, what: str = "it was not loaded"
) -> T:
    """Run a plugin's code in a daemon thread, because it may hang. Raises PluginFault, with `what` after `seconds`."""
    ended: Future[T] = Future()

    def run() -> None:
        try:
            ended.set_result(run_plugin_code(work, folder))
        except PluginFault as fault:
            ended.set_exception(fault)

    threading.Thread(target=copy_context().run, args=(run,), name="loads a plugin", daemon=True).start()
    if not wait([ended], seconds).done:
        raise PluginFault(f"{what} within {seconds:g} seconds.")
    return ended.result()


def _fault(error: BaseException, folder: Path) -> PluginFault:
    # Not str(error): `__str__` may be the plugin's code, and TracebackException survives an error in it.
    text = str(traceback.TracebackException(type(error), error, None))
    return PluginFault(f"{type(error).__name__}: {text}", _plugin_traceback(error, folder))


def _plugin_traceback(error: BaseException, folder: Path) -> str:
    """Format the traceback from the first frame in the plugin's own code."""
    step = error.__traceback__
    while step and not Path(step.tb_frame.f_code.co_filename).is_relative_to(folder):
        step = step.tb_next
    return "".join(traceback.format_exception(type(error), error, step)).rstrip()


def _unload(package: str) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
