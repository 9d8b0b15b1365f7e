"""A command is over when the call is: nothing of it is touched afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from agent.sandbox.process import run_process


async def test_who_is_impatient_waits_as_well(tmp_path: Path) -> None:
    """Cancellations come while the command is being ended. What that needs is closed once the call is over."""
    read_from, write_to = os.pipe()
    ending = asyncio.Event()

    def end() -> bool:
        ending.set()
        return True

    command = ["/bin/sh", "-c", f"echo $$ > /dev/fd/{write_to}; exec sleep 60"]
    # Its time is soon over: to be ended it has to be under way, and a cancellation could come before that.
    running = asyncio.create_task(
        run_process(command, cwd=tmp_path, env={}, seconds=0.1, pass_fds=[write_to], end=end)
    )
    pid = int(await asyncio.to_thread(os.read, read_from, 100))
    await asyncio.wait_for(ending.wait(), 20)
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    done, _ = await asyncio.wait([running], timeout=0.05)
    assert not done
    with suppress(ProcessLookupError):  # a machine that was suspended for seconds has ended it already
        os.kill(pid, signal.SIGKILL)
    await asyncio.wait([running], timeout=20)
    assert running.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    os.close(read_from)
    os.close(write_to)


_COUNT_READS = """
import asyncio, sys
from pathlib import Path
from agent.sandbox.process import run_process

reads = []
sys.addaudithook(lambda event, arguments: event == "open" and reads.append(str(arguments[0])))
asyncio.run(run_process(["/bin/true"], cwd=Path("/"), env={}, seconds=60, OPTIONS))
print(sum(read.startswith("/proc/") and read.endswith("/environ") for read in reads))
"""


@pytest.mark.parametrize(
    ("options", "searches"),
    [("", True), ("starts_processes=False", False), ("end=lambda: True", False)],
    ids=["may leave processes", "starts none", "waits for its own"],
)
async def test_all_processes_are_searched_only_if_one_may_be_left(options: str, searches: bool) -> None:
    """The search reads a file per process of the machine; a daemon can only be left by an unconfined command."""
    program = _COUNT_READS.replace("OPTIONS", options)
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await running.communicate()
    assert (int(output) > 0) is searches
