"""How much memory the processes of a sandbox use together: the kernel limits only each on its own."""

from __future__ import annotations

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def memory_used(first_process: int) -> int:
    """In bytes, with what lies in its file systems in memory. 0 if the sandbox is gone.

    Seen through the eyes of its first process, so that these are its processes and no others.
    """
    root = Path(f"/proc/{first_process}/root")
    return sum(map(_share, _processes(root / "proc"))) + sum(map(_stored, (root / "tmp", root / "dev/shm")))


def _processes(proc: Path) -> list[Path]:
    try:
        return [entry for entry in proc.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _share(process: Path) -> int:
    """What it shares with others counts for each in part: fifty shells are not fifty times as large as one."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss:", "SwapPss:"))) * 1024
    except OSError:
        return _resident(process)


def _resident(process: Path) -> int:
    """More than its share, where that is not told."""
    try:
        return int((process / "statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _stored(folder: Path) -> int:
    try:
        system = os.statvfs(folder)
    except OSError:
        return 0
    return (system.f_blocks - system.f_bfree) * system.f_frsize
