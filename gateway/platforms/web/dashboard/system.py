"""What Hermes consists of here: engine, tools, plugins, configuration, versions, places."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

from agent.redaction import redact
from agent.tool import Tool
from gateway.config.effective_config import Line, shown
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.plugins import listed_engines

_PACKAGES = ("hermes-gateway", "litellm", "aiohttp", "aiosqlite", "python-telegram-bot", "discord.py")
_BESIDE = ("", "-wal")
"""What a database consists of on the disk."""


@dataclass(frozen=True, slots=True)
class ToolRow:
    tool: Tool
    summary: str
    on: Sequence[str]
    """The platforms that have it."""
    everywhere: bool


def routes(house: DashboardContext, frame: PageRenderer) -> list[web.RouteDef]:
    async def show(request: web.Request) -> web.Response:
        # Manifests, versions and sizes are read from files.
        return frame.answer(request, "dashboard/system.html", await asyncio.to_thread(_gathered, house))

    return [web.get("/dashboard/system", show)]


def _gathered(house: DashboardContext) -> dict[str, Any]:
    loaded, gateway = house.loaded, house.gateway
    lines = [_discreet(line) for line in shown(loaded)]
    return {
        "engines": listed_engines(loaded.home, gateway.plugins, active=house.engine),
        "options": [line for line in lines if line.key.startswith("context.options.")],
        "tools": _tools(house),
        "approval": loaded.config.tools.approval,
        "plugins": gateway.plugins,
        "sections": _sections(lines),
        "model": house.model,
        "caching": gateway.agent.caching_line(gateway.agent.models.default_name),
        "models": gateway.agent.models.choices,
        "versions": _versions(),
        "paths": _paths(house),
        "database_bytes": sum(_size(Path(f"{loaded.database}{suffix}")) for suffix in _BESIDE),
    }


def _sections(lines: Sequence[Line]) -> dict[str, list[Line]]:
    """The values, under the first word of their key."""
    sections: dict[str, list[Line]] = {}
    for line in lines:
        if line.origin:
            sections.setdefault(line.key.partition(".")[0], []).append(line)
    return sections


def _discreet(line: Line) -> Line:
    """Masked a second time: a secret may stand where nobody expects one."""
    return replace(line, value=redact(line.value))


def _tools(house: DashboardContext) -> list[ToolRow]:
    names = [each.name for each in house.platforms] or ["web"]
    boxes = {name: house.gateway.agent.tools_on(name) for name in dict.fromkeys([*names, "terminal"])}
    every = {tool.name: tool for box in boxes.values() for tool in box.all}
    rows = []
    for name in sorted(every):
        on = [platform for platform, box in boxes.items() if box.get(name)]
        summary = every[name].description.strip().partition("\n")[0]
        rows.append(ToolRow(every[name], summary, on, everywhere=len(on) == len(boxes)))
    return rows


@cache
def _versions() -> list[tuple[str, str]]:
    """Of what was loaded at the start, whatever was installed since."""
    return [("Python", platform.python_version()), *((name, _version(name)) for name in _PACKAGES)]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _paths(house: DashboardContext) -> list[tuple[str, str]]:
    loaded = house.loaded
    return [
        ("Configuration", loaded.source),
        ("State directory", str(loaded.home)),
        ("Database", str(loaded.database)),
        ("Workspaces", str(loaded.workspaces)),
    ]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
