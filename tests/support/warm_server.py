"""A process that has imported Hermes and all its libraries, and becomes `hermes` by a fork whenever it is asked to.

To import the libraries takes four seconds of computing and to import Hermes half of one, and the suite starts it
hundreds of times. Nothing of it runs here: each process is given its arguments, environment, directory and streams
before it does anything, and no module of ours looks at these while it is imported. That each command finds its modules
by itself is shown by `tests/unit/gateway/cli/test_imports.py`. The other side is `tests/support/warm.py`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import sys
import time
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from tests.support.privileges import become_ordinary

LIBRARIES = (
    "PIL.Image",
    "aiohttp.web",
    "aiosqlite",
    "click.shell_completion",
    "discord.gateway",
    "dotenv",
    "filelock",
    "jinja2",
    "litellm.llms.custom_httpx.http_handler",
    "markdown_it.renderer",
    "openai.resources",
    "prompt_toolkit.shortcuts",
    "pydantic",
    "pypdf",
    "pyromark",
    "rich.markdown",
    "stamina",
    "structlog",
    "telegram.ext",
    "telegramify_markdown.converter",
    "yaml",
)
"""Without `xllamacpp`: what it sets up would not survive a fork."""

_PR_SET_PDEATHSIG = 1


class UnimportedLitellm:
    """Makes litellm look as if it was not imported: Hermes shuts down differently once it is."""

    def __init__(self) -> None:
        names = [name for name in sys.modules if name.partition(".")[0] == "litellm"]
        self._modules = {name: sys.modules.pop(name) for name in names}
        self._spec = self._modules["litellm"].__spec__

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name == "litellm" else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._modules["litellm"]

    def exec_module(self, module: ModuleType) -> None:
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        sys.modules.update(self._modules)
        module.__spec__ = self._spec


def serve(control: socket.socket) -> None:
    """Fork for each request and return only in the child that becomes Hermes. Ends with the process that started it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not asked:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            return _wait_for_child(socket.socket(fileno=descriptors[0]), descriptors[1:])
        for descriptor in descriptors:
            os.close(descriptor)


def _wait_for_child(caller: socket.socket, streams: list[int]) -> None:
    """Beside each Hermes there is a process that waits for its end and tells the caller."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _end_with_the_parent()
    with caller.makefile() as lines:
        request = json.loads(lines.readline())
    process = os.fork()
    if process == 0:
        caller.close()
        return _become(streams, request)
    for stream in streams:
        os.close(stream)
    caller.sendall(b"%d\n" % process)
    _, status = os.waitpid(process, 0)
    caller.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(streams: list[int], request: dict[str, Any]) -> None:
    """Do what `exec` would do."""
    _end_with_the_parent()
    if request["new_session"]:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    os.chdir(request["directory"])
    sys.path[:1] = [request["directory"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv[1:] = request["arguments"]
    sys.stdout.reconfigure(line_buffering="PYTHONUNBUFFERED" in os.environ or os.isatty(1))  # type: ignore[union-attr]
    if request["ordinary"]:
        become_ordinary()


def _end_with_the_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _import_everything() -> None:
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MODE="PRODUCTION")  # as Hermes does
    gc.disable()
    for name in LIBRARIES:
        import_module(name)
    for package in ("agent", "gateway"):
        for found in walk_packages(import_module(package).__path__, f"{package}."):
            if not found.name.endswith(".__main__"):
                import_module(found.name)
    assert "plugins" not in sys.modules, "which plugins there are is for every Hermes to find out"
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a fork would lose threads"
    sys.meta_path.insert(0, UnimportedLitellm())  # type: ignore[arg-type]
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    _import_everything()
    serve(socket.socket(fileno=int(sys.argv.pop())))
    # Here, and not inside a function: as the last thing of this program it ends as any program would.
    runpy.run_module("gateway.cli", run_name="__main__", alter_sys=True)
