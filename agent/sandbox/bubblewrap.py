"""The command line of bubblewrap: what a command in the sandbox can see and do, and under whose name it runs."""

from __future__ import annotations

import errno
import os
import platform
import resource
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HOME = "/workspace"
"""Path of the workspace in every sandbox. The real path stays hidden from commands."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_MEGABYTE = 1 << 20
_SHARED_MEMORY = 64 * _MEGABYTE
_OPEN_FILES = 1024
_USER = 1000
"""User id that the command sees as its own."""

_NOBODY = 65_534
"""User id of the command if Hermes runs as root: the kernel exempts root from the limit of processes, and shows
root every file."""
_CARRIED = "/mnt"
"""Path of the workspace for such a command, in a private mount namespace."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf", "mime.types", "magic",
    "fonts", "perl", "python3*", "java-*", "ssl/certs", "ssl/openssl.cnf", "ca-certificates", "pki/tls/certs",
    "pki/ca-trust",
)  # fmt: skip
"""Not all of it: there are keys and passwords there."""
_ETC_FOR_THE_NETWORK = ("resolv.conf", "hosts", "services", "protocols", "gai.conf", "host.conf")

_ENVIRONMENT = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "TERM": "dumb"}

PASSWD = f"hermes:x:{_USER}:{_USER}::{HOME}:/bin/bash\nnobody:x:{_NOBODY}:{_NOBODY}::/:/bin/false\n"
GROUP = f"hermes:x:{_USER}:\nnogroup:x:{_NOBODY}:\n"


@dataclass(frozen=True, slots=True)
class Limits:
    """Files and resources that a command may use."""

    network: bool = False
    memory_mb: int = 1024
    """All processes together, with the files in /tmp."""
    processes: int = 128
    """Threads count, too."""
    cpu_seconds: int = 300
    """Of each process."""
    file_mb: int = 512
    hidden: tuple[Path, ...] = ()
    """Never shown, even where they lie below a folder of the system."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Open files that bubblewrap reads from or writes to."""

    report: int
    passwd: int
    group: int
    syscall_filter: int | None


def bubblewrap(
    program: str, command: str, workspace: Path, limits: Limits, descriptors: Descriptors
) -> list[str]:
    """Return the whole command line, to be run in the workspace. Looks at the file system."""
    as_root = os.geteuid() == 0
    sandbox = [
        program,
        *("--unshare-user", "--unshare-all", *(["--share-net"] if limits.network else ())),
        *("--disable-userns", "--uid", str(_USER), "--gid", str(_USER), "--hostname", "sandbox"),
        # As the first process of its namespace, our launcher takes all others along when it ends.
        *("--die-with-parent", "--new-session", "--as-pid-1", "--json-status-fd", str(descriptors.report)),
        *_files(descriptors, limits),
        *_masks(limits.hidden),
        *("--bind", _CARRIED if as_root else str(workspace), HOME, "--chdir", HOME),
        # Last: what was made above for mounting on could be written to, and is memory.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        "--clearenv",
        *(word for name, value in _ENVIRONMENT.items() for word in ("--setenv", name, value)),
        *(["--seccomp", str(descriptors.syscall_filter)] if descriptors.syscall_filter is not None else ()),
        *("--", "bash", "-c", _launcher(limits), "hermes", command),
    ]
    # The nicest: a hundred busy processes must not keep Hermes itself waiting.
    return ["nice", "-n", "19", *(_without_root(sandbox) if as_root else sandbox)]


def _files(descriptors: Descriptors, limits: Limits) -> Iterator[str]:
    for folder in map(Path, _SYSTEM):
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))
    for pattern in (*_ETC, *(_ETC_FOR_THE_NETWORK if limits.network else ())):
        for path in sorted(Path("/etc").glob(pattern)):
            yield from ("--ro-bind-try", str(path), str(path))
    yield from ("--ro-bind-data", str(descriptors.passwd), "/etc/passwd")
    yield from ("--ro-bind-data", str(descriptors.group), "/etc/group")
    yield from ("--proc", "/proc", "--dev", "/dev")
    yield from ("--perms", "1777", "--size", str(limits.memory_mb * _MEGABYTE), "--tmpfs", "/tmp")  # noqa: S108
    yield from ("--perms", "1777", "--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm")  # noqa: S108


def _masks(hidden: Sequence[Path]) -> Iterator[str]:
    """Hide Hermes' own state if it lies below a folder that the sandbox shows."""
    paths = {path.resolve() for path in hidden}
    for path in sorted(paths):
        if not any(path.is_relative_to(folder) for folder in _SYSTEM) or not paths.isdisjoint(path.parents):
            continue
        if path.is_dir():
            yield from ("--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path))
        elif path.exists():
            yield from ("--ro-bind", "/dev/null", str(path))


def _without_root(sandbox: list[str]) -> list[str]:
    """Return a command that mounts the workspace where an ordinary user can reach it, and becomes that user.

    One process does all of it: the sandbox ends when its parent ends, and the parent must be Hermes.
    """
    step_down = (
        f"mount --no-canonicalize --bind . {_CARRIED} && cd / "
        f"&& chown -hR --from=0 {_NOBODY}:{_NOBODY} {_CARRIED} "
        f'&& exec setpriv --reuid {_NOBODY} --regid {_NOBODY} --clear-groups -- "$@"'
    )
    apart = ("unshare", "--mount", "--propagation", "private", "--")
    return [*apart, "bash", "-c", step_down, "hermes", *sandbox]


def _launcher(limits: Limits) -> str:
    """Return a script that sets the limits and runs the command as a child: signals do not reach the first process.

    It silences bash, which reports killed commands, and offers itself to the kernel when memory runs out.
    """
    kilobytes = limits.memory_mb * 1024
    ulimits = (
        f"-c 0 -n {_capped(resource.RLIMIT_NOFILE, _OPEN_FILES)} "
        f"-u {_capped(resource.RLIMIT_NPROC, limits.processes)} "
        f"-t {_capped(resource.RLIMIT_CPU, limits.cpu_seconds)} "
        f"-d {_capped(resource.RLIMIT_DATA, kilobytes, unit=1024)} "
        f"-f {_capped(resource.RLIMIT_FSIZE, limits.file_mb * 1024, unit=1024)}"
    )
    return (
        f"ulimit {ulimits} || exit\n"
        "exec 3>&2 2>/dev/null\n"
        "echo 1000 > /proc/self/oom_score_adj\n"
        'bash -c "$1" 2>&3 3>&-\n'
        "exit $?"
    )


def _capped(limit: int, wanted: int, *, unit: int = 1) -> int:
    """Return the limit that may be set: only root can raise one."""
    _, most = resource.getrlimit(limit)
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most // unit)


# Calls to the kernel that no command in the sandbox may make, as a filter for bubblewrap's `--seccomp`. Three kinds:
# memory that counts for no process, so that no limit holds it; rarely used parts of the kernel, in which faults are
# found every year; and sockets that a network namespace does not shut off, such as to the host of a virtual machine.

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
    """Return the filter for this machine; empty if its call numbers are unknown."""
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
            *_return_for_each(denied, _ERROR | errno.ENOSYS),
            _step(_JUMP_IF_EQUAL, known.numbers["socket"], if_so=1),
            _step(_RETURN, _ALLOW),
            _step(_LOAD, _FIRST_ARGUMENT_AT),
            *_return_for_each(_SOCKETS, _ALLOW),
            _step(_RETURN, _ERROR | errno.EAFNOSUPPORT),
        ]
    )


def _return_for_each(values: Sequence[int], verdict: int) -> list[bytes]:
    return [
        step for value in values for step in (_step(_JUMP_IF_EQUAL, value, if_not=1), _step(_RETURN, verdict))
    ]


def _step(code: int, value: int, *, if_so: int = 0, if_not: int = 0) -> bytes:
    """Return one instruction; `if_so` and `if_not` are how many to skip after a comparison."""
    return struct.pack("=HBBI", code, if_so, if_not, value)
