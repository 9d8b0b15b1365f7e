"""The page System: engine, tools, plugins, configuration, versions and paths."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

from agent.redaction import redact
from agent.tool import Tool
from gateway.config.secrets import ConfigLine, effective_lines
from gateway.platforms.web.dashboard.page import DashboardContext, PageRenderer
from gateway.plugins.engines import available_engines

_PACKAGES = ("hermes-gateway", "litellm", "aiohttp", "aiosqlite", "python-telegram-bot", "discord.py")
_DATABASE_SUFFIXES = ("", "-wal")


def routes(context: DashboardContext, page: PageRenderer) -> list[web.RouteDef]:
    async def show(request: web.Request) -> web.Response:
        # In a thread: manifests, versions and sizes are read from files.
        return page.render(request, "dashboard/system.html", await asyncio.to_thread(_variables, context))

    return [web.get("/dashboard/system", show)]


def _variables(context: DashboardContext) -> dict[str, Any]:
    loaded, gateway = context.loaded, context.gateway
    # Redacted again: a secret may be in an unexpected key.
    lines = [replace(line, value=redact(line.value)) for line in effective_lines(loaded)]
    return {
        "engines": available_engines(loaded.home, gateway.plugins, active=context.engine, test=False),
        "options": [line for line in lines if line.key.startswith("context.options.")],
        "tools": _tools(context),
        "approval": loaded.config.tools.approval,
        "plugins": gateway.plugins,
        "sections": _sections(lines),
        "model": context.model,
        "caching": gateway.agent.caching.status(gateway.agent.models.default_name),
        "models": gateway.agent.models.choices,
        "versions": _versions(),
        "paths": {
            "Configuration": loaded.source,
            "State directory": loaded.home,
            "Database": loaded.store_name,
            "Workspaces": loaded.workspaces,
        },
        "database_bytes": sum(_size(Path(f"{loaded.database}{suffix}")) for suffix in _DATABASE_SUFFIXES),
    }


def _sections(lines: Sequence[ConfigLine]) -> dict[str, list[ConfigLine]]:
    """Group the values by the first word of their key."""
    sections: dict[str, list[ConfigLine]] = {}
    for line in lines:
        if line.origin:
            sections.setdefault(line.key.partition(".")[0], []).append(line)
    return sections


def _tools(context: DashboardContext) -> list[tuple[Tool, list[str]]]:
    """Return each tool with the platforms that offer it; without names if all of them do."""
    names = [each.name for each in context.platforms] or ["web"]
    boxes = {name: context.gateway.agent.toolbox_for(name) for name in dict.fromkeys([*names, "terminal"])}
    every = {tool.name: tool for box in boxes.values() for tool in box.all}
    offered = {name: [platform for platform, box in boxes.items() if box.get(name)] for name in sorted(every)}
    return [(every[name], on if len(on) < len(boxes) else []) for name, on in offered.items()]


@cache
def _versions() -> dict[str, str]:
    """Return the versions at the start; a later upgrade does not change them."""
    return {"Python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
