"""Drop root, so that file permissions bind the process."""

from __future__ import annotations

import ctypes
import os

_PR_CAPBSET_DROP = 24
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2
_CAPABILITY_VERSION = 0x20080522


def become_ordinary() -> None:
    """Drop root for this process and its children, irrevocably. Does nothing without root."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None)
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    refused = libc.capget(header, sets)
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        refused = refused or libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        for effective_permitted_inheritable in range(3):
            sets[effective_permitted_inheritable] &= ~(1 << capability)
    if refused or libc.capset(header, sets):
        raise OSError("root cannot give up its privileges here")
