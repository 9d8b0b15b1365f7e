"""Giving the person a file of the workspace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent.events import FileSent
from agent.messages import ToolCall
from agent.tool import ToolContext
from agent.toolbox import Toolbox, ToolResult
from agent.tools.send_file import send_file


class SentFiles:
    """A toolbox with the one tool, and what it gave."""

    def __init__(self, ctx: ToolContext) -> None:
        self.given: list[FileSent] = []

        async def give(file: FileSent) -> None:
            self.given.append(file)

        self._ctx = replace(ctx, send_file=give)

    async def send(self, path: str, caption: str = "") -> ToolResult:
        arguments = json.dumps({"path": path, "caption": caption})
        return await Toolbox([send_file]).run(ToolCall("c1", "send_file", arguments), self._ctx)


async def test_a_file_is_put_on_its_way(ctx: ToolContext, workspace: Path) -> None:
    """The event has the path in the workspace; the platform reads the content."""
    (workspace / "out").mkdir(parents=True)
    (workspace / "out/report.md").write_text("# Done")
    sent = SentFiles(ctx)
    result = await sent.send("out/report.md", "Here it is")
    assert result.ok and "6 bytes" in result.content
    assert sent.given == [FileSent(str(workspace), "out/report.md", "report.md", "Here it is")]


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "~/.ssh/id_rsa", "missing.txt", "out", "link"])
async def test_nothing_else_can_be_sent(ctx: ToolContext, workspace: Path, path: str) -> None:
    """No path outside the workspace, link or folder is sent, and no event is published."""
    (workspace / "out").mkdir(parents=True)
    (workspace / "link").symlink_to("/etc/passwd")
    sent = SentFiles(ctx)
    assert not (await sent.send(path)).ok
    assert sent.given == []
