"""Markdown and plain text: beginning, headings and end. The fallback for every other format."""

from __future__ import annotations

import re

from .source import Findings, Section, Source, one_line, pluralize, verbatim_line

MARKDOWN_EXTENSIONS = frozenset(("md", "markdown", "mdx"))
_SHOWN_HEAD, _SHOWN_TAIL = 60, 30
_MAX_HEADINGS = 2_000
_TAIL = 20_000
"""Characters from which the last lines are taken."""
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.{0,300})")
_UNDERLINE = re.compile(r"(?:={3,200}|-{3,200})\s*")
_NUMBERED = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,2}){0,3}\.?|[IVX]{1,6}\.|(?:Chapter|Part|Section|Article) \w{1,10}[.:]?)[ \t]+[A-Z].{0,80}"
)
_FENCE = re.compile(r" {0,3}(```|~~~)")
_MARKDOWN = re.compile(r" {0,3}(?:[-*+] |\d{1,3}[.)] |> |```|\|)|.{0,300}(?:\]\(|\*\*\w)")
_MAX_HEADING = 90


def read_text(source: Source) -> Findings:
    marks, headings = _markdown_headings(source)
    is_markdown = bool(MARKDOWN_EXTENSIONS & set(source.extensions)) or (
        len(headings) >= 1 and marks >= 2 and "text" not in source.extensions
    )
    if not is_markdown:
        headings = _plain_headings(source)
    facts = pluralize(len(headings), "heading") if headings else ""
    return Findings("Markdown" if is_markdown else "text", facts, plain_sections(source, headings))


def plain_sections(source: Source, outline: list[tuple[int, str]] | None = None) -> list[Section]:
    """Beginning, outline and end of a text."""
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
    fence = ""
    for index, line in enumerate(source.lines):
        if found := _FENCE.match(line):
            fence = "" if fence == found[1] else fence or found[1]
            marks += 1
        elif fence:
            continue
        elif heading := _HEADING.match(line):
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
    return f"{'  ' * indent}{source.line_number(index)}: {one_line(title, _MAX_HEADING)}"
