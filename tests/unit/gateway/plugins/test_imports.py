"""The engines of Hermes import only modules that `docs/context-engines.md` offers to every engine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.context_engine import ContextEngine
from gateway.plugins.engines import project_engine_folders

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "context-engines.md").read_text(encoding="utf-8")
HOST = ("agent", "gateway", "plugins", "tests", "bench")
ONLY_FOR_COMMANDS = "gateway.commands"
ENGINES = sorted(
    folder
    for parent in project_engine_folders()
    if parent.is_relative_to(ROOT)
    for folder in parent.iterdir()
    if (folder / "plugin.yaml").exists()
)


def offered() -> set[str]:
    """Return the modules in the table of the page."""
    section = PAGE.partition("\n## What an engine may import\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE))


def imported(code: str) -> Iterator[str]:
    """Return the modules of Hermes that an engine imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names] if "." not in module else [module]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] in HOST)


def not_offered(code: str) -> list[str]:
    allowed = offered()
    return [
        name
        for name in imported(code)
        if not any(name == module or name.startswith(f"{module}.") for module in allowed)
    ]


def test_the_table_names_modules_that_exist() -> None:
    assert ContextEngine.__module__ in offered()
    for module in offered():
        place = ROOT.joinpath(*module.split("."))
        assert place.is_dir() or place.with_suffix(".py").is_file(), module


@pytest.mark.parametrize("folder", ENGINES, ids=lambda folder: folder.name)
def test_an_engine_imports_only_what_is_offered(folder: Path) -> None:
    files = sorted(folder.rglob("*.py"))
    assert files
    for file in files:
        code = file.read_text(encoding="utf-8")
        where = file.relative_to(folder)
        assert not_offered(code) == [], where
        if any(name.startswith(ONLY_FOR_COMMANDS) for name in imported(code)):
            assert "Command" in code, f"{where} has no command to add"


@pytest.mark.parametrize(
    "line",
    [
        "from agent.store import SessionStore",
        "import gateway.store.sqlite.store",
        "from agent import loop",
        "def late():\n    from gateway.config.loader import load",
        "from agent.tools.todo import todo",
        "import plugins.context_engine.lcm",
    ],
)
def test_other_modules_are_noticed(line: str) -> None:
    assert len(not_offered(line)) == 1


def test_what_is_offered_is_accepted() -> None:
    lines = "from agent import tokens\nimport agent.compression.ledger\nfrom .engine import E\nimport json"
    assert not_offered(lines) == []
