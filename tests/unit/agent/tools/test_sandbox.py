"""The sandbox limits every command to the workspace.

Where it is harmless, the same command first runs without a sandbox and succeeds, so that each test would notice a
missing defence.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agent.sandbox.sandbox import Sandbox
from agent.tool import ToolContext
from agent.tool_support.workspace import Workspace
from agent.tools.terminal import terminal, terminal_in
from tests.support.sandboxed import NEEDS_PERL, NEEDS_SANDBOX, processes_with
from tests.support.tool_conversation import Run, terminal_of

SECRET = "fake-secret-for-tests"
AS_ROOT = os.geteuid() == 0
REFUSED = "Commands run only in a sandbox, and none is available:"
ROOT = Path(__file__).parents[4]


@pytest.fixture
def boxed(ctx: ToolContext) -> Run:
    return terminal_of(ctx, Sandbox())


@pytest.fixture
def loose(ctx: ToolContext) -> Run:
    return terminal_of(ctx, None)


@pytest.fixture
def belongings(workspace: Path) -> Path:
    """What lies around a workspace: the database, the keys, another conversation's files."""
    home = workspace.parent.parent
    Workspace(workspace).prepare()
    (home / "state.db").write_text(f"SQLite format 3 {SECRET}")
    (home / ".env").write_text(f"OPENAI_API_KEY={SECRET}")
    other = workspace.parent / "two"
    other.mkdir(mode=0o700)
    (other / "diary.txt").write_text(SECRET)
    return home


@NEEDS_SANDBOX
@pytest.mark.parametrize(
    "command",
    [
        "cat {home}/state.db",
        "cat {home}/.env",
        "cat {home}/workspaces/two/diary.txt",
        "cat ../two/diary.txt",
        "cd ..; cat */diary.txt",
        "ln -s {home}/state.db db && cat db",
        "ln {home}/state.db db && cat db",
        "true && cat {home}/state.db; true || cat {home}/.env",
        "true\ncat {home}/state.db\n",
        'echo "$(cat {home}/state.db)" `cat {home}/.env`',
        "cat <<END\n$(cat {home}/state.db)\nEND",
        "bash -c 'cat {home}/state.db'",
        pytest.param("perl -e 'open F, q({home}/state.db); print <F>'", marks=NEEDS_PERL),
        "eval $(echo Y2F0IHtob21lfQ== | base64 -d | sed s,{{home}},{home}/state.db,)",
        "cat /proc/1/root{home}/state.db /proc/self/cwd/../../state.db",
        "tr '\\0' '\\n' < /proc/{pid}/environ; echo; cat /proc/{pid}/cwd/hermes.yaml /proc/{pid}/root{home}/.env",
    ],
)
async def test_nothing_of_the_owners_can_be_read(
    boxed: Run, loose: Run, belongings: Path, command: str
) -> None:
    """However it is written: chained, on lines of its own, substituted, in a here-document, by an interpreter."""
    command = command.format(home=belongings, pid=os.getpid())
    assert SECRET in (await loose(command)).content
    assert SECRET not in (await boxed(command)).content


@NEEDS_SANDBOX
async def test_no_key_of_the_environment(boxed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in its own nor in that of any process it can see."""
    for name in ("OPENAI_API_KEY", "TELEGRAM_BOT_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    content = (await boxed("env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; ls -d /proc/[0-9]*")).content
    assert SECRET not in content
    assert "HERMES" not in content
    assert len([line for line in content.splitlines() if line.startswith("/proc/")]) < 10


@NEEDS_SANDBOX
async def test_nothing_outside_can_be_written(boxed: Run, loose: Run, belongings: Path) -> None:
    """Not the system, not the rest of the disk. What was made for /tmp is gone with the command."""
    mark = f"hermes-{secrets.token_hex(8)}"
    assert "no file" not in (await loose(f"echo x > {belongings}/escaped || echo no file")).content
    assert (belongings / "escaped").read_text() == "x\n"
    places = f"/ /etc /usr /usr/bin /dev /proc /proc/sys/kernel /home /root /var /mnt {belongings} .."
    denied = await boxed(
        f"for place in {places}; do echo x 2>/dev/null > $place/{mark} && echo wrote $place; done"
    )
    assert denied.content == "[exit code 1]"
    assert not (belongings / mark).exists()
    assert "kept" in (await boxed(f"echo x > /tmp/{mark} && echo kept")).content
    assert "No such file" in (await boxed(f"cat /tmp/{mark}")).content
    assert "No such file" in (await loose(f"cat /tmp/{mark}")).content


@NEEDS_SANDBOX
async def test_it_has_no_more_rights_than_it_needs(boxed: Run) -> None:
    """Not root, no capability, none to be had by a setuid program or in a namespace of its own; no terminal."""
    content = (await boxed("id -u; grep -E '^(CapPrm|CapBnd|NoNewPrivs)' /proc/self/status")).content
    assert content.split()[:-3] == [
        "1000", "CapPrm:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"
    ]  # fmt: skip
    assert "reached" not in (await boxed("unshare --user true && echo reached")).content
    assert "reached" not in (await boxed(": < /dev/tty && echo reached")).content
    assert (await boxed("ls /proc/self/fd")).content.split()[:-3] == ["0", "1", "2", "3"]


@asynccontextmanager
async def listener() -> AsyncIterator[tuple[int, list[str]]]:
    """A server on loopback, and who has come."""
    came: list[str] = []

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append("somebody")
        writer.write(b"welcome\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], came
    finally:
        server.close()


@NEEDS_SANDBOX
async def test_the_network_is_not_reached(ctx: ToolContext, boxed: Run) -> None:
    """Not even this machine's own servers, unless the owner says so."""
    async with listener() as (port, came):
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3; cat /proc/net/dev | wc -l"
        assert (await boxed(command)).content.splitlines()[
            -2
        ] == "3"  # two lines of heading, and its own loopback
        assert came == []
        allowed = await terminal_of(ctx, Sandbox(network=True))(command)
        assert allowed.content.startswith("welcome\n")
        assert came == ["somebody"]


@NEEDS_SANDBOX
async def test_names_are_resolved_only_with_a_network(ctx: ToolContext, boxed: Run) -> None:
    """Without network access, the resolver files are hidden too."""
    command = "ls /etc/resolv.conf /etc/hosts"
    assert "No such file" in (await boxed(command)).content
    assert "/etc/hosts\n" in (await terminal_of(ctx, Sandbox(network=True))(command)).content


@pytest.fixture
def neighbour() -> Iterator[subprocess.Popen[bytes]]:
    """A process outside, of the very user that commands run as."""
    options: dict[str, Any] = {"user": 65_534, "group": 65_534, "extra_groups": []} if AS_ROOT else {}
    with subprocess.Popen(["sleep", "60"], cwd="/", **options) as process:
        yield process
        process.kill()


@NEEDS_SANDBOX
async def test_no_process_outside_is_reached(boxed: Run, neighbour: subprocess.Popen[bytes]) -> None:
    """`kill -9 -1` signals every process that the user may kill."""
    result = await boxed("sleep 60 & kill -9 -1; wait 2>/dev/null; echo alone", timeout=20)
    assert result.content.startswith("alone\n")
    assert neighbour.poll() is None


@NEEDS_SANDBOX
async def test_what_it_leaves_can_be_used(run: Run, boxed: Run, workspace: Path) -> None:
    """Files and folders made in the sandbox are read, changed and found by the other tools, and the other way round."""
    assert (await boxed("mkdir -p out && echo one > out/a.txt && umask 077 && echo two > b.txt")).ok
    assert (await run("read_file", path="out/a.txt")).content == "one"
    assert (await run("write_file", path="out/a.txt", content="three\n")).ok
    assert (await run("write_file", path="new/c.txt", content="four\n")).ok
    result = await boxed("cat out/a.txt new/c.txt && echo five >> new/c.txt && rm b.txt && ls")
    assert result.content == "three\nfour\nnew\nout\n[exit code 0]"
    assert (await run("search_files", pattern="five")).content == "new/c.txt:2: five"
    assert (workspace / "new" / "c.txt").stat().st_mode & 0o777 == 0o600


@NEEDS_SANDBOX
@pytest.mark.parametrize("name", ["link", "folder/diary.txt", "folder/link", "swapped/diary.txt"])
async def test_a_link_leads_no_tool_out(run: Run, boxed: Run, belongings: Path, name: str) -> None:
    """The other tools never follow links that a command made, neither to read nor to write."""
    other = belongings / "workspaces" / "two"
    made = await boxed(
        f"ln -s {other}/diary.txt link; ln -s {other} folder; mkdir swapped; rmdir swapped; ln -s ../two swapped"
    )
    assert made.content == "[exit code 0]"
    for tool, arguments in (
        ("read_file", {"path": name}),
        ("write_file", {"path": name, "content": "x"}),
        ("write_file", {"path": name, "content": "x", "mode": "append"}),
        ("send_file", {"path": name}),
    ):
        result = await run(tool, **arguments)
        assert not result.ok, tool
        assert SECRET not in result.content
    found = await run("search_files", pattern=SECRET)
    assert found.content == "Nothing was found."
    assert (other / "diary.txt").read_text() == SECRET


@NEEDS_SANDBOX
async def test_state_below_a_folder_of_the_system_is_hidden(ctx: ToolContext) -> None:
    """HERMES_HOME may be such a place. Folders look empty there, files cannot be read."""
    command = "exec 2>/dev/null; ls -A /usr/share | wc -l; cat /usr/bin/env | wc -c; echo x > /usr/share/x || echo no"
    seen = (await terminal_of(ctx, Sandbox())(command)).content.split()
    assert int(seen[0]) > 0 and int(seen[1]) > 0
    hidden = (Path("/usr/share"), Path("/usr/share/doc"), Path("/usr/share"), Path("/usr/bin/env"))
    masked = await terminal_of(ctx, Sandbox(hidden=hidden))(command)
    assert masked.content == "0\n0\nno\n[exit code 0]"


LIVE_ON = """
import asyncio, sys
from pathlib import Path
from agent.sandbox.sandbox import Sandbox

asyncio.run(Sandbox().run(sys.argv[1], Path(sys.argv[2]), seconds=60))
"""


@pytest.fixture
def barrier(workspace: Path) -> Path:
    """A pipe in the workspace blocks its reader until there is a writer."""
    workspace.mkdir(mode=0o700, parents=True)
    os.mkfifo(workspace / "barrier")
    return workspace / "barrier"


@NEEDS_SANDBOX
def test_it_ends_with_hermes(workspace: Path, barrier: Path) -> None:
    """Also when Hermes is killed and can end nothing any more: daemons in the sandbox do not outlive it."""
    mark = f"1000.{secrets.randbelow(10**9):09}"
    daemon = f"trap '' TERM HUP; echo ready > barrier; sleep {mark}; true"
    command = f'nohup setsid bash -c "{daemon}" >/dev/null 2>&1 & sleep {mark}'
    hermes = subprocess.Popen(
        [sys.executable, "-c", LIVE_ON, command, workspace], env={"PYTHONPATH": str(ROOT)}
    )
    assert barrier.read_text() == "ready\n"
    inside = [os.pidfd_open(pid) for pid in processes_with(mark) if pid != hermes.pid]
    assert len(inside) >= 3  # bubblewrap, its first process, the daemon
    hermes.kill()
    hermes.wait()
    ended = [_has_ended(process, 10_000) for process in inside]
    assert all(ended)


@NEEDS_SANDBOX
@NEEDS_PERL
async def test_all_are_gone_when_it_returns(ctx: ToolContext, barrier: Path) -> None:
    """Not on their way out: who has much memory takes a while."""
    mark = f"1000.{secrets.randbelow(10**9):09}"
    large = "$x = q(x) x 400_000_000; open F, q(>barrier); print F q(ready); close F; sleep 60"
    stopped = asyncio.create_task(
        terminal_of(ctx, Sandbox())(f"setsid perl -e '{large}' {mark} & sleep {mark}")
    )
    assert await asyncio.to_thread(barrier.read_text) == "ready"
    inside = [os.pidfd_open(pid) for pid in processes_with(mark)]
    stopped.cancel()
    await asyncio.wait([stopped])
    ended = [_has_ended(process, 0) for process in inside]
    assert all(ended)


def _has_ended(pidfd: int, milliseconds: int) -> bool:
    """Processes that ignored the signal are killed now."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    ended = bool(poll.poll(milliseconds))
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)
    return ended


@pytest.mark.parametrize("program", ["no-such-bubblewrap", "true", "false"])
async def test_without_a_sandbox_nothing_runs(ctx: ToolContext, workspace: Path, program: str) -> None:
    """Not installed, or it does not do what it should: the sentence says what to install and what to set."""
    result = await terminal_of(ctx, Sandbox(program=program))("touch ran; echo ran")
    assert not result.ok
    assert result.content.startswith("Commands run only in a sandbox, and none is available: bubblewrap ")
    assert ("apt install bubblewrap" if program.startswith("no") else "docs/sandbox.md") in result.content
    assert "`tools.sandbox.mode: off`" in result.content
    assert not (workspace / "ran").exists()


TRY_IT = """
import asyncio, sys
from pathlib import Path
from agent.errors import SandboxNotAvailable
from agent.sandbox.sandbox import Sandbox
from gateway.cli.doctor_checks_agent import sandbox
from gateway.config.loader import load

try:
    asyncio.run(Sandbox().run("touch ran", Path(sys.argv[1]), seconds=20))
except SandboxNotAvailable as error:
    print(error)
for finding in sandbox(load(Path(sys.argv[2]))):
    print(finding.level, finding.text)
"""


@NEEDS_SANDBOX
def test_where_user_namespaces_are_forbidden(workspace: Path, tmp_path: Path, private_home: Path) -> None:
    """As in many containers. Here, bubblewrap itself makes such a place. `hermes doctor` says the same."""
    workspace.mkdir(mode=0o700, parents=True)
    config = tmp_path / "hermes.yaml"
    config.write_text("tools: {enabled: [terminal]}")
    forbidden = ["bwrap", "--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]
    done = subprocess.run(
        [*forbidden, sys.executable, "-c", TRY_IT, workspace, config],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "HERMES_HOME": str(private_home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    refusal, finding = done.stdout.splitlines()
    assert refusal.startswith(
        "Commands run only in a sandbox, and none is available: bubblewrap could not start ("
    )
    assert finding.startswith("fail the sandbox of the terminal does not work: bubblewrap could not start (")
    assert "user namespaces" in refusal
    assert list(workspace.iterdir()) == []


def test_the_model_is_told_what_it_may() -> None:
    """So that it does not try in vain; who wants no sandbox gets no such sentence."""
    assert terminal_in(None).description == terminal.description
    assert terminal_in(Sandbox()).description.endswith("There is no network.")
    assert terminal_in(Sandbox(network=True)).description.endswith("It reaches the network.")
