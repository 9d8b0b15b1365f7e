"""`kill -9` at any moment: nothing is stored twice, nothing is lost, and the graph is whole."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from plugins.context_engine.lcm.search.semantic import is_installed
from tests.support.lcm_chats import Host, plain_chat, stored_in, vectors_are_right
from tests.support.lcm_conversation import WINDOW, load, turn

KILLS = 6


def test_killed_again_and_again(tmp_path: Path) -> None:
    """While it stores, while a model is asked, between the engine's commit and the host's."""
    choose = random.Random(11)
    for _ in range(KILLS):
        killed_after(tmp_path, choose.randint(2, 30))
    host = Host(tmp_path, WINDOW)
    turns = load(tmp_path, host)
    host.look()
    said = [plain_chat(message) for number in range(turns) for message in turn(number)]
    assert turns > KILLS
    assert stored_in(tmp_path) == said
    assert "All is well" in host.tool("lcm_doctor")
    assert "[LCM RECORD]" in str(host.messages)
    host.tool("lcm_grep", query="answers and lines")
    assert not is_installed() or vectors_are_right(tmp_path) == len(said)
    host.close()


def killed_after(home: Path, lines: int) -> None:
    command = [sys.executable, "-m", "tests.support.lcm_conversation", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[4]) as talker:
        assert talker.stdout
        for _ in range(lines):
            assert talker.stdout.readline(), "it ended by itself"
        talker.kill()
