"""What a command in the sandbox may use up, and what becomes of one that wants more."""

from __future__ import annotations

import platform
import secrets
import shutil
from pathlib import Path

import pytest

from agent.sandbox.bubblewrap import syscall_filter
from agent.sandbox.sandbox import Sandbox
from agent.tool import ToolContext
from tests.support.sandboxed import NEEDS_PERL, NEEDS_SANDBOX, processes_with
from tests.support.tool_conversation import Run, terminal_of

pytestmark = NEEDS_SANDBOX

NEEDS_PYTHON = pytest.mark.skipif(
    not shutil.which("python3", path="/usr/bin"), reason="the system has no Python"
)
KILLED = "killed with everything it had started: "


def limited(ctx: ToolContext, **limits: int) -> Run:
    return terminal_of(ctx, Sandbox(**limits))  # type: ignore[arg-type]


@NEEDS_PERL
async def test_processes_are_counted_for_each_command(ctx: ToolContext) -> None:
    """Each on its own. The limit cannot be raised from within."""
    fork = "perl -e 'while (defined($pid = fork)) { $pid or sleep 60; $n++ } print qq($n\\n)'"
    for _ in range(2):
        made, outcome = (await limited(ctx, processes=40)(f"{fork}; ulimit -u 1000")).content.splitlines()[:2]
        assert 30 <= int(made) < 40
        assert "cannot modify limit" in outcome


async def test_a_fork_bomb(ctx: ToolContext) -> None:
    """It ends at the deadline, which the model cannot extend, and leaves no process."""
    mark = f"bomb_{secrets.token_hex(8)}"
    bomb = f"{mark}() {{ {mark} | {mark} & }}; {mark}; sleep 60"
    result = await limited(ctx, seconds=1)(bomb, timeout=60)
    assert result.content.endswith(f"[{KILLED}it ran longer than 1 s]")
    assert processes_with(mark) == []


@NEEDS_PERL
async def test_one_process_cannot_have_more_memory(ctx: ToolContext) -> None:
    """It is told so, as on a machine that has no more."""
    result = await limited(ctx, memory_mb=64)("perl -e '$x = q(x) x 100_000_000; print length $x'")
    assert result.content.startswith("Out of memory")


SHARED = """sleep 60 | python3 -c '
import mmap
memory = mmap.mmap(-1, 200 << 20)
for _ in range(200):
    memory.write(bytes(1 << 20))
input()'
"""


@pytest.mark.parametrize(
    "hog",
    [
        pytest.param(
            "for i in 1 2 3 4 5 6; do perl -e '$x = q(x) x 20_000_000; sleep 60' & done; wait",
            marks=NEEDS_PERL,
            id="many",
        ),
        pytest.param(
            "head -c 60M /dev/zero > /dev/shm/a; head -c 90M /dev/zero > /tmp/a; sleep 60", id="files"
        ),
        pytest.param(SHARED, marks=NEEDS_PYTHON, id="shared"),
    ],
)
async def test_all_processes_together(ctx: ToolContext, hog: str) -> None:
    """No way around: many that are small, files in memory, and memory that counts for no process as its own."""
    result = await limited(ctx, memory_mb=100)(hog, timeout=25)
    assert result.content.endswith(f"[{KILLED}it used more than 100 MB]")


async def test_files_in_memory_are_bounded(ctx: ToolContext) -> None:
    """They hold no more than this, and nothing else in memory can be written to."""
    command = (
        "df --output=size -m /tmp /dev/shm | tail -n +2; for place in / /dev /etc; do echo x > $place/x; done"
    )
    result = await limited(ctx, memory_mb=70)(command)
    assert result.content.split()[:2] == ["70", "64"]
    assert result.content.count("Read-only file system") == 3


async def test_many_small_processes_are_no_hog(ctx: ToolContext) -> None:
    """What they share is counted once."""
    result = await limited(ctx, memory_mb=100)("for i in $(seq 60); do sleep 0.5 & done; wait; echo fine")
    assert result.content == "fine\n[exit code 0]"


async def test_others_come_first(ctx: ToolContext) -> None:
    """Of a busy machine it gets what others leave, and it is the first to go when memory runs out."""
    result = await limited(ctx)("nice; cat /proc/self/oom_score_adj")
    assert result.content == "19\n1000\n[exit code 0]"


async def test_computing_time(ctx: ToolContext) -> None:
    """Of each process."""
    result = await limited(ctx, cpu_seconds=1)("bash -c 'while :; do :; done'; echo $?", timeout=50)
    assert result.content.splitlines()[-2] == "137"


async def test_a_file_cannot_grow_beyond_the_limit(ctx: ToolContext, workspace: Path) -> None:
    """Its beginning is there."""
    await limited(ctx, file_mb=1)("head -c 5M /dev/zero > large")
    assert (workspace / "large").stat().st_size == 1 << 20


@NEEDS_PERL
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers here are those of x86-64")
async def test_calls_that_are_refused(ctx: ToolContext) -> None:
    """As if the kernel did not know them, so that programs go another way: memfd_create, shmget, msgget, keyctl,
    io_uring_setup. One that is allowed, getppid, comes first."""
    calls = "for (110, 319, 29, 68, 250, 425) { $! = 0; syscall $_, $a, 0, 0; print 0 + $!, q( ) }"
    result = await limited(ctx)(f"perl -e '$a = q(x); {calls}'")
    assert result.content.split()[:6] == ["0", *["38"] * 5]


@NEEDS_PERL
@pytest.mark.skipif(
    not syscall_filter(), reason="calls to the kernel are not filtered on this kind of machine"
)
async def test_sockets_to_elsewhere_are_refused(ctx: ToolContext) -> None:
    """A namespace of networks does not keep a virtual machine from its host (40)."""
    command = (
        "for family in 1 2 40; do perl -e 'print socket(S, shift, 1, 0) ? 0 : 0 + $!, q( )' $family; done"
    )
    assert (await limited(ctx)(command)).content.split()[:3] == ["0", "0", "97"]
