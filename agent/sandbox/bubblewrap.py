"""The command line of bubblewrap: what a command in the sandbox can see and do, and under whose name it runs."""

from __future__ import annotations

import os
import resource
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
    """Resource limits of a command."""

    memory_mb: int
    processes: int
    cpu_seconds: int
    file_mb: int


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Open files that bubblewrap reads from or writes to."""

    report: int
    passwd: int
    group: int
    syscall_filter: int | None


def bubblewrap(
    program: str,
    command: str,
    workspace: Path,
    limits: Limits,
    descriptors: Descriptors,
    *,
    network: bool,
    hidden: Sequence[Path],
) -> list[str]:
    """The whole command line, to be run in the workspace. Looks at the file system."""
    as_root = os.geteuid() == 0
    sandbox = [
        program,
        *("--unshare-user", "--unshare-all", *(["--share-net"] if network else ())),
        *("--disable-userns", "--uid", str(_USER), "--gid", str(_USER), "--hostname", "sandbox"),
        # As the first process of its namespace, our launcher takes all others along when it ends.
        *("--die-with-parent", "--new-session", "--as-pid-1", "--json-status-fd", str(descriptors.report)),
        *_files(descriptors, limits, network=network),
        *_masks(hidden),
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


def _files(descriptors: Descriptors, limits: Limits, *, network: bool) -> Iterator[str]:
    for folder in map(Path, _SYSTEM):
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.is_dir():
            yield from ("--ro-bind", str(folder), str(folder))
    for pattern in (*_ETC, *(_ETC_FOR_THE_NETWORK if network else ())):
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
    """Return a command that mounts the workspace where an ordinary user can reach it, and drops root for that user.

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
    """Limits itself, then runs the command: as a child, because signals do not reach the first process.

    Of a command that is killed, bash would tell on its own standard error. The kernel is told whom to end first
    when the machine runs out of memory.
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
