"""What `hermes run` shows at a terminal when it starts."""

from __future__ import annotations

from pathlib import Path

from tests.support.hermes_process import environment
from tests.support.terminal import Terminal
from tests.support.warm import HERMES


async def test_long_lines_are_wrapped_beneath_themselves(tmp_path: Path) -> None:
    """The labels stay in a separate column, and an invalid token is reported."""
    (tmp_path / "hermes.yaml").write_text("platforms: {web: {port: 0}}\nlogging: {level: error}\n")
    env = environment(tmp_path, TELEGRAM_BOT_TOKEN="abc")
    command = (*HERMES, "--config", str(tmp_path / "hermes.yaml"), "run")
    async with Terminal.run(*command, env=env, rows=40, columns=150) as window:
        await window.until("Ctrl-C stops Hermes")
        shown = window.screen.text
    told = shown[shown.index("Web   ") : shown.index("Ctrl-C")].rstrip().splitlines()
    said = " ".join(line[10:].strip() for line in told)
    assert "expected a token as BotFather gives it" in said
    assert "or point `model.base_url` at Ollama or any OpenAI-compatible server." in said
    labels = [line[:10].strip() for line in told]
    assert list(filter(None, labels)) == [
        *("Web", "Telegram", "Discord", "Dashboard", "Model", "Context", "Store", "Settings", "Terminal"),
    ]
