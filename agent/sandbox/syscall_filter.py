"""Calls to the kernel that no command in the sandbox may make, as a filter for bubblewrap's `--seccomp`.

Three kinds: memory that counts for no process, so that no limit holds it; corners of the kernel in which
ordinary programs have no business and faults are found every year; and sockets to elsewhere than the network,
such as to the host of a virtual machine, which a network namespace does not shut off.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_MEMORY_OF_NOBODY = ("memfd_create", "memfd_secret", "shmget", "semget", "msgget")
_CORNERS = (
    "add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup"
)  # fmt: skip
_SOCKETS = (1, 2, 10, 16)
"""Local ones, IPv4, IPv6 and the kernel's own, as Linux numbers them: not every system knows their names."""

# Parts of the instructions of a classic BPF program, and its return values.
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_GREATER_OR_EQUAL, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16

_X32_CALLS = 0x40000000
"""On x86-64, the same calls can be made under these numbers, too."""


@dataclass(frozen=True, slots=True)
class _Machine:
    code: int
    """As the kernel reports it with each call. Programs of another kind, such as 32-bit ones, are ended."""
    numbers: dict[str, int]


_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        {
            "socket": 41,
            "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "semget": 64, "msgget": 68,
            "add_key": 248, "request_key": 249, "keyctl": 250,
            "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        {
            "socket": 198,
            "memfd_create": 279, "memfd_secret": 447, "shmget": 194, "semget": 190, "msgget": 186,
            "add_key": 217, "request_key": 218, "keyctl": 219,
            "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "io_uring_setup": 425,
        },
    ),
}  # fmt: skip


def syscall_filter(machine: str = "") -> bytes:
    """The program for this machine; empty where the numbers of its calls are not known here."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return b""
    denied = [known.numbers[name] for name in (*_MEMORY_OF_NOBODY, *_CORNERS)]
    return b"".join(
        [
            _step(_LOAD, _ARCHITECTURE_AT),
            _step(_JUMP_IF_EQUAL, known.code, if_so=1),
            _step(_RETURN, _KILL),
            _step(_LOAD, _NUMBER_AT),
            _step(_JUMP_IF_GREATER_OR_EQUAL, _X32_CALLS, if_not=1),
            _step(_RETURN, _ERROR | errno.ENOSYS),
            *_refuse_each(denied, errno.ENOSYS),
            _step(_JUMP_IF_EQUAL, known.numbers["socket"], if_so=1),
            _step(_RETURN, _ALLOW),
            _step(_LOAD, _FIRST_ARGUMENT_AT),
            *_allow_each(_SOCKETS),
            _step(_RETURN, _ERROR | errno.EAFNOSUPPORT),
        ]
    )


def _refuse_each(values: list[int], error: int) -> list[bytes]:
    return [
        step
        for value in values
        for step in (_step(_JUMP_IF_EQUAL, value, if_not=1), _step(_RETURN, _ERROR | error))
    ]


def _allow_each(values: tuple[int, ...]) -> list[bytes]:
    return [
        step for value in values for step in (_step(_JUMP_IF_EQUAL, value, if_not=1), _step(_RETURN, _ALLOW))
    ]


def _step(code: int, value: int, *, if_so: int = 0, if_not: int = 0) -> bytes:
    """One instruction; `if_so` and `if_not` are how many to pass over after a comparison."""
    return struct.pack("=HBBI", code, if_so, if_not, value)
