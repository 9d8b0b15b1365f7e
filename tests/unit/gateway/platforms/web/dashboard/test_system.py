"""What Hermes consists of, and that no secret is shown with it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.config.loader import LoadedConfig, load
from gateway.config.schema import Config
from tests.support.dashboard_harness import SCRIPT, DashboardHarness, running_dashboard

SECRET = "sk-ant-api03-Zk3vQ9xW2mT7bR5nL8cJ4hF6dS1pG0aYqqqq"


async def test_engines_tools_and_paths(dashboard: DashboardHarness, tmp_path: Path) -> None:
    """The engine in use, the others, and which tools a person has to approve."""
    page = await dashboard.page("/dashboard/system")
    for text in ("compressor", "in use", "lcm", "sliding_window", "available", "look_up", "dangerous"):
        assert text in page, text
    assert str(tmp_path / "state.db") in page
    assert "hermes-gateway" in page and "Prompt caching" in page


async def test_no_secret_is_shown(tmp_path: Path, private_home: Path) -> None:
    """Neither one from a variable nor one in the file, wherever it stands; each key says where it comes from."""
    file = tmp_path / "hermes.yaml"
    file.write_text(
        f"model:\n  name: x/y\n  api_key: {SECRET}\ncontext:\n  engine: lcm\n  options:\n    note: {SECRET}\n"
        f"agent:\n  system_prompt: {SCRIPT!r}\n"
    )
    loaded = await asyncio.to_thread(load, file)
    async with running_dashboard(tmp_path, loaded=loaded) as dashboard:
        page = await dashboard.page("/dashboard/system")
    assert "qqqq" not in page
    assert "*****" in page and "line 2" in page and "default" in page
    assert "<script>alert" not in page and "&lt;script&gt;" in page


async def test_without_a_database(tmp_path: Path) -> None:
    """A file that cannot be looked at has no size, and the page is there all the same."""
    loaded = LoadedConfig(Config.model_validate({"storage": {"path": "gone/state.db"}}), None, tmp_path)
    async with running_dashboard(tmp_path, loaded=loaded) as dashboard:
        assert "0 Bytes" in await dashboard.page("/dashboard/system")
