"""Text: beginning, outline and end. The outline has headings, or the definitions of Python code with line numbers.

Python is read line by line, so cut code is described, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from ..formatting import pluralize
from .source import Findings, Section, Source, one_line, verbatim_line

_SHOWN_HEAD, _SHOWN_TAIL = 60, 30
_MAX_HEADINGS = 2_000
_TAIL = 20_000
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.{0,300})")
_UNDERLINE = re.compile(r"(?:={3,200}|-{3,200})\s*")
_NUMBERED = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,6}\.|(?:Chapter|Part|Section|Article) \w{1,10}[.:]?)[ \t]+[A-Z].{0,80}"
)
_FENCE = re.compile(r" {0,3}(```|~~~)")
_MARKDOWN = re.compile(r" {0,3}(?:[-*+] |\d{1,3}[.)] |> |```|~~~|\|)|.{0,300}(?:\]\(|\*\*\w)")
_MAX_HEADING = 90


def read_text(source: Source) -> Findings:
    marks, headings = _markdown_headings(source)
    is_markdown = bool(headings) and marks >= 2
    if not is_markdown:
        headings = _plain_headings(source)
    facts = pluralize(len(headings), "heading") if headings else ""
    return Findings("Markdown" if is_markdown else "text", facts, plain_sections(source, headings))


def plain_sections(source: Source, outline: list[tuple[int, str]] | None = None) -> list[Section]:
    lines = source.lines
    head = [verbatim_line(line) for line in lines[:_SHOWN_HEAD] if line.strip()]
    sections = [
        Section.flat("Beginning:", _long_lines(head, source), more=None),
        Section("Outline:", outline or []),
    ]
    if source.line_count > _SHOWN_HEAD:
        last = source.text[-_TAIL:].rstrip().split("\n")[-_SHOWN_TAIL:]
        last = last[-min(len(last), source.line_count - _SHOWN_HEAD) :]
        tail = [verbatim_line(line) for line in last if line.strip()]
        sections.append(Section.flat("End:", tail, from_end=True, more=None))
    elif len(source.text) > 2 * _TAIL:
        sections.append(
            Section.flat("End:", [f"…{one_line(source.text[-600:], 600)}"], from_end=True, more=None)
        )
    return sections


def _long_lines(head: list[str], source: Source) -> list[str]:
    """Show more of each line where lines are few: a paragraph is often one line."""
    if len(head) > 5:
        return head
    return [verbatim_line(line, 1_500) for line in source.lines[:_SHOWN_HEAD] if line.strip()]


def _markdown_headings(source: Source) -> tuple[int, list[tuple[int, str]]]:
    """Count the lines with other Markdown syntax, and find the headings."""
    marks, headings = 0, list[tuple[int, str]]()
    for index, line in _outside_fences(source.lines):
        if heading := _HEADING.match(line):
            depth = len(heading[1])
            headings.append((depth, _entry(source, index, heading[2].rstrip("# \r"), depth - 1)))
        elif index and _UNDERLINE.fullmatch(line) and _is_title(source.lines[index - 1]):
            depth = 1 if line[0] == "=" else 2
            headings.append((depth, _entry(source, index - 1, source.lines[index - 1], depth - 1)))
        elif marks < 5 and _MARKDOWN.match(line):
            marks += 1
        if len(headings) >= _MAX_HEADINGS:
            break
    return marks, headings


def _outside_fences(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield numbered lines without the code between fences, but with the fences themselves."""
    fence = ""
    for index, line in enumerate(lines):
        if found := _FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
            yield index, line
        elif not fence:
            yield index, line


def _plain_headings(source: Source) -> list[tuple[int, str]]:
    """Find lines alone in capitals, with a number, or above a line of dashes."""
    headings: list[tuple[int, str]] = []
    lines = source.lines
    for index, line in enumerate(lines):
        if not line or line[0].isspace() or len(line) > _MAX_HEADING:
            continue
        after = lines[index + 1] if index + 1 < len(lines) else ""
        alone = (index == 0 or not lines[index - 1].strip()) and not after.strip()
        in_capitals = line.isupper() and len(line.split()) < 12 and sum(map(str.isalpha, line)) >= 4
        if (alone and (in_capitals or _NUMBERED.fullmatch(line))) or (
            _UNDERLINE.fullmatch(after) and _is_title(line)
        ):
            headings.append((0, _entry(source, index, line, 0)))
        if len(headings) >= _MAX_HEADINGS:
            break
    return headings


def _is_title(line: str) -> bool:
    return 0 < len(line.strip()) <= _MAX_HEADING and line[0].isalnum()


def _entry(source: Source, index: int, title: str, indent: int) -> str:
    return f"{'  ' * indent}{source.first_line + index}: {one_line(title, _MAX_HEADING)}"


_SAMPLE_LINES = 600
_MAX_LINE_CHARACTERS = 300
_MIN_LINES, _MIN_SHARE = 4, 0.12
"""Lines that only Python has."""
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


def read_python(source: Source) -> Findings | None:
    if not _is_python(source):
        return None
    lines = [line[:_MAX_LINE_CHARACTERS].rstrip() for line in source.lines]
    defined = (index for index, line in enumerate(lines) if _DEFINES.match(line))
    entries = [_definition(source, lines, index) for index in islice(defined, _MAX_DEFINITIONS)]
    imports = list(dict.fromkeys(found[1] or found[2] for found in map(_IMPORTS.match, lines) if found))
    sections = [
        Section("Definitions:", entries),
        Section.flat("", [one_line(f"Imports: {', '.join(imports[:_MAX_IMPORTS])}", 400)] if imports else []),
    ]
    facts = pluralize(len(entries), "definition") if entries else ""
    # Where definitions are few, the code itself says more.
    few = len(entries) * 20 < source.line_count
    return Findings("code (Python)", facts, [*sections, *(plain_sections(source) if few else ())])


def _is_python(source: Source) -> bool:
    sample = _outside_fences(source.lines[:_SAMPLE_LINES])
    lines = [line[:_MAX_LINE_CHARACTERS].rstrip() for _, line in sample if line.strip()]
    alike = sum(any(pattern.match(line) for pattern in (_DEFINES, _IMPORTS, _TELLS)) for line in lines)
    score = alike - sum(bool(_NOT_PYTHON.search(line)) for line in lines)
    return score >= max(_MIN_LINES, len(lines) * _MIN_SHARE)


def _definition(source: Source, lines: Sequence[str], index: int) -> tuple[int, str]:
    """Return depth and signature, which may take several lines."""
    depth = min(_MAX_DEPTH, (len(lines[index]) - len(lines[index].lstrip())) // 4)
    taken: list[str] = []
    open_brackets = 0
    for line in lines[index : index + _SIGNATURE_LINES]:
        taken.append(line.strip())
        open_brackets += line.count("(") - line.count(")")
        if open_brackets <= 0:
            break
    joined = " ".join(taken).replace("( ", "(").replace(", )", ")")
    signature = one_line(joined, _SIGNATURE_CHARACTERS).removesuffix(":")
    return depth, f"{'  ' * depth}{source.first_line + index}: {signature}"
