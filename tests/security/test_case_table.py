"""The table in `docs/security-cases.md`: all cases are in it, and what it names exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = 25

_ROW = re.compile(r"\| (?P<case>\w+) \| (?P<tried>.+?) (?<!\\)\| (?P<holds>.+?) \| (?P<tests>.+?) \|")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_FILE = re.compile(r"`((?:agent|gateway)/[\w/]+\.py)`")


def _rows() -> list[re.Match[str]]:
    lines = (ROOT / "docs" / "security-cases.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")][2:]
    rows = [_ROW.fullmatch(line) for line in table]
    assert all(rows), [line for line, row in zip(table, rows, strict=True) if not row]
    return [row for row in rows if row]


@cache
def _source(path: str) -> str:
    return (ROOT / path).read_text() if (ROOT / path).is_file() else ""


def test_every_case_has_its_rows() -> None:
    """None is forgotten."""
    assert {str(number) for number in range(1, CASES + 1)} <= {row["case"] for row in _rows()}


def test_what_the_table_names_exists() -> None:
    """Tests are renamed and files are moved; the table has to come along."""
    for row in _rows():
        tests = _TEST.findall(row["tests"])
        assert len(tests) == row["tests"].count("`") // 2 > 0, row["tried"]
        missing = [name for path, name in tests if f"def {name}(" not in _source(path)]
        missing += [path for path in _FILE.findall(row["holds"]) if not _source(path)]
        assert not missing, row["tried"]
