"""Code: its language, what it imports, and what it declares, with the numbers of the lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from .languages import LANGUAGES, Language
from .prose import plain_sections
from .python_code import parsed
from .room import Findings, Section
from .source import Source
from .values import counted, one_line

_SAMPLE = 600
_MOST_LINES = 60_000
_LOOKED_AT = 300
"""Characters of a line."""
_LEAST_LINES, _LEAST_SHARE = 4, 0.12
"""Lines that only this language has, without a hint."""
_MOST_DECLARATIONS = 2_000
_MOST_IMPORTS = 40
_LONGEST_SIGNATURE = 160
_SIGNATURE_LINES = 8
_BRACKETS = str.maketrans("", "", "".join(chr(code) for code in range(32, 127) if chr(code) not in "()"))
_FENCE = re.compile(r" {0,3}(```|~~~)")
_QUOTED_MODULE = re.compile(r"[\"'<]([^\"'<>\n]{1,100})[\"'>]")
_NAMED_MODULE = re.compile(
    r"\s*(?:from|import|using|use|require|source|\.|static|pub|extern crate)\s+(?:static\s+)?([^\s;({]{1,100})"
)


def read_code(source: Source) -> Findings | None:
    language = _language_of(source)
    if language is None:
        return None
    declared, imports, constants = _contents(source, language)
    facts = counted(len(declared), "declaration") if declared else ""
    if not source.all_read or len(source.lines) > _MOST_LINES:
        facts = f"{facts} in its beginning".strip()
    shown = ", ".join(imports[:_MOST_IMPORTS])
    sections = [
        Section("Declarations:", declared),
        Section.flat("", [one_line(f"Imports: {shown}", 400)] if imports else []),
        Section.flat("", [one_line(f"Names at the top: {', '.join(constants)}", 300)] if constants else []),
    ]
    # Without declarations, or where they are few, the code itself says more.
    few = len(declared) * 20 < source.line_count
    return Findings(f"code ({language.name})", facts, [*sections, *(plain_sections(source) if few else ())])


def _language_of(source: Source) -> Language | None:
    lines = list(_outside_fences(source.lines[:_SAMPLE]))
    if not lines:
        return None
    scores = [(_score(lines, language), language) for language in LANGUAGES]
    for extension in source.extensions:
        for score, language in scores:
            if extension in language.extensions and score >= max(1, len(lines) * 0.02):
                return language
    best, language = max(scores, key=lambda scored: scored[0])
    return language if best >= max(_LEAST_LINES, len(lines) * _LEAST_SHARE) else None


def _outside_fences(lines: list[str]) -> Iterator[str]:
    """Code between fences is part of a text about it."""
    fence = ""
    for line in lines:
        if found := _FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
        elif not fence and line.strip():
            yield line[:_LOOKED_AT].rstrip()


def _score(lines: list[str], language: Language) -> int:
    patterns = (language.declares, language.imports, language.tells)
    return sum(any(pattern.match(line) for pattern in patterns) for line in lines)


def _contents(source: Source, language: Language) -> tuple[list[tuple[int, str]], list[str], list[str]]:
    if language.name == "Python" and (module := parsed(source.text)):
        lines = source.text.split("\n")
        declared = [
            (each.depth, _entry(source, lines, each.line, each.depth))
            for each in islice(module.definitions, _MOST_DECLARATIONS)
        ]
        return declared, module.imports, module.constants
    return *_by_pattern(source, language), []


def _by_pattern(source: Source, language: Language) -> tuple[list[tuple[int, str]], list[str]]:
    lines = source.lines
    declared: list[tuple[int, str]] = []
    imports: dict[str, None] = {}
    for index, whole in enumerate(islice(lines, _MOST_LINES)):
        line = whole[:_LOOKED_AT].rstrip()
        if not line.strip() or line.lstrip().startswith((language.comment, "*", "/*")):
            continue
        if language.imports.match(line):
            imports[_module(line)] = None
        elif language.declares.match(line) and len(declared) < _MOST_DECLARATIONS:
            depth = min(4, _indent(line))
            declared.append((depth, _entry(source, lines, index, depth)))
    return declared, [name for name in imports if name]


def _indent(line: str) -> int:
    space = line[: len(line) - len(line.lstrip())]
    return space.count("\t") + (space.count(" ") + 2) // 4


def _module(line: str) -> str:
    found = _QUOTED_MODULE.search(line) or _NAMED_MODULE.match(line)
    return found[1] if found else ""


def _entry(source: Source, lines: list[str], index: int, depth: int) -> str:
    return f"{'  ' * depth}{source.line_number(index)}: {_signature(lines, index)}"


def _signature(lines: list[str], index: int) -> str:
    """To the end of its arguments, which may stand on several lines."""
    taken: list[str] = []
    open_brackets = 0
    for line in lines[index : index + _SIGNATURE_LINES]:
        line = line[:_LOOKED_AT]
        taken.append(line.strip())
        brackets = line.translate(_BRACKETS)
        open_brackets += brackets.count("(") - brackets.count(")")
        if open_brackets <= 0:
            break
    signature = one_line(" ".join(taken).replace("( ", "(").replace(", )", ")"), _LONGEST_SIGNATURE)
    return signature.removesuffix("{").rstrip().removesuffix(":")
