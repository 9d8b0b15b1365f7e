"""The filter of calls to the kernel, run by a machine of our own: so it is tried for processors we do not have."""

from __future__ import annotations

import struct

import pytest

from agent.sandbox.bubblewrap import syscall_filter

ALLOWED, KILLED, NO_SUCH_CALL, NO_SUCH_SOCKETS = 0x7FFF0000, 0x80000000, 0x00050026, 0x00050061
X86_64, I386, AARCH64 = 0xC000003E, 0x40000003, 0xC00000B7


def outcome(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """What the kernel would answer: the four kinds of instructions, no others."""
    call = struct.pack("=IIQQ", number, architecture, 0, argument)
    steps = list(struct.iter_unpack("=HBBI", program))
    place = value = 0
    while True:
        code, if_so, if_not, operand = steps[place]
        place += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", call, operand)
            case 0x15:
                place += if_so if value == operand else if_not
            case 0x35:
                place += if_so if value >= operand else if_not
            case 0x06:
                return int(operand)


@pytest.mark.parametrize(
    ("machine", "architecture", "number", "expected"),
    [
        ("x86_64", X86_64, 0, ALLOWED),  # read
        ("x86_64", X86_64, 59, ALLOWED),  # execve
        ("x86_64", X86_64, 319, NO_SUCH_CALL),  # memfd_create
        ("x86_64", X86_64, 0x40000000 + 319, NO_SUCH_CALL),  # the same by its x32 number
        ("x86_64", X86_64, 0xFFFFFFFF, NO_SUCH_CALL),
        ("x86_64", I386, 356, KILLED),  # memfd_create of a 32-bit program
        ("aarch64", AARCH64, 63, ALLOWED),  # read
        ("aarch64", AARCH64, 221, ALLOWED),  # execve
        ("aarch64", AARCH64, 279, NO_SUCH_CALL),  # memfd_create
        ("aarch64", X86_64, 0, KILLED),
    ],
)
def test_calls(machine: str, architecture: int, number: int, expected: int) -> None:
    """For every call number and every kind of program."""
    assert outcome(syscall_filter(machine), architecture, number) == expected


@pytest.mark.parametrize(
    ("machine", "architecture", "socket"), [("x86_64", X86_64, 41), ("aarch64", AARCH64, 198)]
)
def test_sockets(machine: str, architecture: int, socket: int) -> None:
    """Local ones, the network and what asks the kernel about it; nothing else."""
    program = syscall_filter(machine)
    allowed = {family for family in range(64) if outcome(program, architecture, socket, family) == ALLOWED}
    assert allowed == {1, 2, 10, 16}
    assert outcome(program, architecture, socket, 40) == NO_SUCH_SOCKETS


def test_an_unknown_machine() -> None:
    """No filter is better than one with the wrong numbers."""
    assert syscall_filter("m68k") == b""
