"""Make or restore a backup repeatedly, stopped one step later each time.

`python -m tests.support.killed_at_every_step backup|restore kill|interrupt TEMPLATE BACKUP ROOM`. A step is one change
that Python makes to the file system; a hook sees each step first and kills the process there or presses Ctrl-C. After
every attempt a line of JSON describes the state directory, a copy of TEMPLATE, and again after a process held it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import structlog

from agent.errors import HermesError, StoreError
from gateway.process_lock import hold_lock
from gateway.store.sqlite.connection import connect_reader
from tests.support.backup_harness import StateDirectory, texts_in

STEPS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "sqlite3.connect")


def stop_at(step: int, room: Path, how: str) -> None:
    """Just before the step of that number in the room, as `kill -9` or Ctrl-C would."""
    taken = count(1)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        writes = (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        here = (event in STEPS or writes) and str(room) in str(arguments[0])
        if here and next(taken) == step:
            if how == "interrupt":
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def survives(step: int, room: Path, how: str, work: Callable[[], object]) -> bool:
    child = os.fork()
    if child == 0:
        stop_at(step, room, how)
        try:
            work()
        except KeyboardInterrupt:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def seen(state: StateDirectory) -> str:
    """Read through the public store: return the messages, or the reason for the refusal."""
    try:
        connect_reader(state.database).close()
    except StoreError as error:
        assert "interrupted" in str(error)
        return "refused"
    except sqlite3.DatabaseError:
        return "damaged"
    return texts_or_damage(state.database)


def described(state: StateDirectory) -> dict[str, object]:
    before = seen(state)
    with hold_lock(state.home, state.database):
        pass
    notes = state.workspaces / "notes.txt"
    kept = [path for path in state.home.glob("state.db.before-restore-*") if path.name[-1].isdigit()]
    return {
        "at once": before,
        "then": seen(state),
        "workspaces": notes.read_text() if notes.exists() else "",
        "kept": [texts_or_damage(path) for path in kept],
        "left": sorted(path.name for path in state.home.iterdir() if path.name.startswith(".")),
    }


def texts_or_damage(path: Path) -> str:
    try:
        return " ".join(texts_in(path))
    except sqlite3.DatabaseError:
        return "damaged"


def main(action: str, how: str, template: Path, backup: Path, room: Path) -> None:
    for step in count(1):
        shutil.rmtree(room, ignore_errors=True)
        state = StateDirectory(Path(shutil.copytree(template, room)))
        made = room / "made.tar.gz"
        restoring, making = partial(state.restore, backup), partial(state.backup, made, workspaces=True)
        alive = survives(step, room, how, restoring if action == "restore" else making)
        report = described(state) | {"step": step}
        if action == "backup":
            report["made"] = made.exists()
            report["usable"] = made.exists() and usable(state, made)
            state.backup(room / "next.tar.gz")
            report["left"] = sorted(path.name for path in room.iterdir() if path.name.startswith("."))
        print(json.dumps(report), flush=True)
        if alive:
            return


def usable(state: StateDirectory, backup: Path) -> bool:
    try:
        state.restore(backup)
    except HermesError:
        return False
    return True


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    main(*sys.argv[1:3], *map(Path, sys.argv[3:]))
