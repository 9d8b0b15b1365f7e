"""Starts one Hermes after another, each in a process of its own, without each of them importing everything anew.

Run as `python -m tests.chaos.nursery preloaded`: it imports what Hermes imports and then forks whenever it is told to;
the child becomes `hermes run` exactly as the command line does. Without `preloaded` the child executes a new
interpreter, for those who measure memory or have time. Every line on standard input starts one; the answers are its
process id and, when it has ended, its exit code.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

_LIBRARIES = (
    "gateway.run", "gateway.config.load", "gateway.logs", "gateway.cli.run_command", "gateway.media.intake",
    "gateway.models.transcription", "gateway.models.vision", "gateway.platforms.configured",
    "gateway.platforms.telegram", "gateway.platforms.discord", "gateway.platforms.web", "aiohttp", "PIL.Image",
    "pyromark", "litellm", "openai.resources",
)  # fmt: skip
_PR_SET_PDEATHSIG = 1


def main() -> None:
    _end_with_parent()
    preloaded = sys.argv[1:] == ["preloaded"]
    if preloaded:
        _preload()
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _become_hermes(order, preloaded)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _preload() -> None:
    from gateway.config.litellm_env import prepare_litellm_environment

    prepare_litellm_environment()
    for name in _LIBRARIES:
        importlib.import_module(name)
    assert threading.active_count() == 1, f"a fork would lose threads: {threading.enumerate()}"
    gc.collect()
    gc.freeze()


def _become_hermes(order: dict[str, Any], preloaded: bool) -> NoReturn:
    _end_with_parent()
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(log, target)
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    os.environ.clear()
    os.environ.update(order["environment"])
    arguments = ["--config", order["config"], "run"]
    if not preloaded:
        os.execv(sys.executable, [sys.executable, "-m", "gateway.cli", *arguments])
    sys.argv = [str(Path(sys.executable).with_name("hermes")), *arguments]
    from gateway.cli import main as hermes

    code = 0
    try:
        hermes()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # nothing of the nursery's own may run in the child
        traceback.print_exc()
        code = 70
    sys.stderr.flush()
    os._exit(code)


def _end_with_parent() -> None:
    """A child that outlives whoever started it would hold the port and the database."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
