"""Python code: imports and definitions with line numbers, found line by line, so cut code is described, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from .source import Findings, Section, Source, one_line, pluralize
from .text import plain_sections

_SAMPLE_LINES = 600
_MAX_LINES = 60_000
_MAX_LINE_CHARACTERS = 300
_MIN_LINES, _MIN_SHARE = 4, 0.12
"""Lines that only Python has, where no file name says that it is Python."""
_MIN_HINTED_SHARE = 0.02
_MAX_DEFINITIONS = 2_000
_MAX_IMPORTS = 40
_SIGNATURE_LINES, _SIGNATURE_CHARACTERS = 8, 160
_MAX_DEPTH = 4
_DEFINES = re.compile(
    r"\s{0,40}(?:async\s+)?def\s+\w{1,80}\s*[(\[]|\s{0,40}class\s+\w{1,80}(?:\([^;]*|\[[^;]*)?:?$"
)
_IMPORTS = re.compile(r"(?:from\s+([\w.]{1,100})\s+import\s+[\w(*]|import\s+([\w.]{1,100}))")
_TELLS = re.compile(
    r"\s{0,40}@[\w.]{1,80}(?:\(.*\))?$|\s{0,40}(?:if|elif|for|while|with|try|except|else)\b.*:$"
    r"|\s{0,40}self\.\w+\s*=|\s{1,40}return\b[^;]*$"
)
_NOT_PYTHON = re.compile(r"[{;]\s*$")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_EXTENSIONS = frozenset(("py", "pyi", "pyw"))


def read_python(source: Source) -> Findings | None:
    if not _is_python(source):
        return None
    definitions = islice(_definitions(source.lines), _MAX_DEFINITIONS)
    imports = list(dict.fromkeys(_imports(source.lines)))
    entries = [
        (depth, f"{'  ' * depth}{source.line_number(index)}: {_signature(source.lines, index)}")
        for index, depth in definitions
    ]
    sections = [
        Section("Definitions:", entries),
        Section.flat("", [one_line(f"Imports: {', '.join(imports[:_MAX_IMPORTS])}", 400)] if imports else []),
    ]
    facts = pluralize(len(entries), "definition") if entries else ""
    if not source.is_fully_read:
        facts = f"{facts} in its beginning".strip()
    # Where definitions are few, the code itself says more.
    few = len(entries) * 20 < source.line_count
    return Findings("code (Python)", facts, [*sections, *(plain_sections(source) if few else ())])


def _is_python(source: Source) -> bool:
    lines = list(_outside_fences(source.lines[:_SAMPLE_LINES]))
    score = sum(_has_python_syntax(line) for line in lines) - sum(
        bool(_NOT_PYTHON.search(line)) for line in lines
    )
    if not _EXTENSIONS.isdisjoint(source.extensions):
        return score >= max(1, len(lines) * _MIN_HINTED_SHARE)
    return score >= max(_MIN_LINES, len(lines) * _MIN_SHARE)


def _has_python_syntax(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_DEFINES, _IMPORTS, _TELLS))


def _outside_fences(lines: list[str]) -> Iterator[str]:
    """Skip code between fences: it is part of a text about code."""
    fence = ""
    for line in lines:
        if found := _FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
        elif not fence and line.strip():
            yield line[:_MAX_LINE_CHARACTERS].rstrip()


def _definitions(lines: list[str]) -> Iterator[tuple[int, int]]:
    for index, line in enumerate(islice(lines, _MAX_LINES)):
        if _DEFINES.match(line[:_MAX_LINE_CHARACTERS].rstrip()):
            yield index, min(_MAX_DEPTH, (len(line) - len(line.lstrip())) // 4)


def _imports(lines: list[str]) -> Iterator[str]:
    for line in islice(lines, _MAX_LINES):
        if found := _IMPORTS.match(line[:_MAX_LINE_CHARACTERS]):
            yield found[1] or found[2]


def _signature(lines: list[str], index: int) -> str:
    """Return a signature up to the end of its arguments, which may take several lines."""
    taken: list[str] = []
    open_brackets = 0
    for line in (each[:_MAX_LINE_CHARACTERS] for each in lines[index : index + _SIGNATURE_LINES]):
        taken.append(line.strip())
        open_brackets += line.count("(") - line.count(")")
        if open_brackets <= 0:
            break
    joined = " ".join(taken).replace("( ", "(").replace(", )", ")")
    return one_line(joined, _SIGNATURE_CHARACTERS).removesuffix(":")
