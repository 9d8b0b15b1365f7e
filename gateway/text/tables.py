"""Renders Markdown tables for phones: Telegram and Discord show no tables, and a phone shows about 34 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.text.code_blocks import markdown_blocks, opening_fence

PHONE_COLUMNS = 34
"""Columns of a fixed-width font that a phone shows without wrapping the line."""

_MAX_MEASURED_CELL = 20 * PHONE_COLUMNS
"""Longer cells never fit and are not measured: the cost of wcwidth is quadratic."""

_GAP = "  "
_EMPTY_CELL = "–"
_DASHES = re.compile(r"\s*:?-+:?\s*")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_LOST_IN_CODE = re.compile(r"\]\(|https?://|<br\s*/?>|```", re.IGNORECASE)
"""Links, line breaks and fences do not work in a code block."""
_OPENING_MARK = re.compile(r"(\*\*|~~|`)(?=\S)")
_CLOSING_MARKS = {mark: re.compile(rf"(?<=\S){re.escape(mark)}") for mark in ("**", "~~", "`")}


def render_tables(markdown: str) -> str:
    """Render each narrow table as an aligned code block and each wide one as a list of its rows."""
    if "|" not in markdown:
        return markdown
    lines: list[str] = []
    for block in markdown_blocks(markdown):
        lines += block.lines if block.fence else _render_prose(block.lines)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Table:
    alignments: list[str]
    head: list[str]
    rows: list[list[str]]

    columns: int
    """Cells of the longest row, which may be longer than the head."""


def _render_prose(lines: list[str]) -> Iterator[str]:
    index = 0
    while index < len(lines):
        table, length = _parse_table(lines, index)
        if table is None:
            yield lines[index]
            index += 1
            continue
        if index and lines[index - 1].strip():
            yield ""
        yield from _render_as_code(table) or _render_as_list(table)
        index += length
        if index < len(lines) and lines[index].strip():
            yield ""


def _parse_table(lines: list[str], index: int) -> tuple[_Table | None, int]:
    """Return the table that begins at this line, or None, and its number of lines."""
    if index + 1 >= len(lines) or not all(_may_be_row(line) for line in lines[index : index + 2]):
        return None, 0
    head, dashes = _cells(lines[index]), _cells(lines[index + 1])
    if len(head) != len(dashes) or not all(_DASHES.fullmatch(cell) for cell in dashes):
        return None, 0
    end = index + 2
    while end < len(lines) and _may_be_row(lines[end]):
        end += 1
    rows = [_cells(line) for line in lines[index + 2 : end]]
    columns = max(map(len, [head, *rows]))
    return _Table([_alignment(cell) for cell in dashes], head, rows, columns), end - index


def _may_be_row(line: str) -> bool:
    # A line with more indentation is code.
    return "|" in line and not line.startswith(("    ", "\t"))


def _cells(line: str) -> list[str]:
    line = line.strip().removeprefix("|")
    cells = re.split(r"(?<!\\)\|", line)
    if len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _alignment(dashes: str) -> str:
    if dashes.endswith(":"):
        return "^" if dashes.startswith(":") else ">"
    return "<"


def _render_as_code(table: _Table) -> list[str] | None:
    """Return the table as a code block, or None if that is too wide or loses a link or line break."""
    cells = [cell for row in [table.head, *table.rows] for cell in row]
    if any(_LOST_IN_CODE.search(cell) for cell in cells):
        return None
    rows = [[_strip_emphasis(cell) for cell in row] for row in [table.head, *table.rows]]
    widths = [
        max(_width(row[column]) for row in rows if column < len(row)) for column in range(table.columns)
    ]
    if sum(widths) + len(_GAP) * (len(widths) - 1) > PHONE_COLUMNS:
        return None
    alignments = table.alignments + ["<"] * (table.columns - len(table.alignments))
    lines = [
        _GAP.join(map(_padded, row, widths, alignments)).rstrip()
        for row in [rows[0], ["─" * w for w in widths], *rows[1:]]
    ]
    return ["```", *lines, "```"]


def _strip_emphasis(cell: str) -> str:
    """Remove the marks of bold, strikethrough and inline code."""
    parts: list[str] = []
    unclosed: set[str] = set()
    kept = position = 0
    while opening := _OPENING_MARK.search(cell, position):
        mark, begin = opening[1], opening.end()
        # If one mark has no closing mark after it, later marks of its kind have none either.
        closing = None if mark in unclosed else _CLOSING_MARKS[mark].search(cell, begin + 1)
        if closing is None:
            unclosed.add(mark)
            position = opening.start() + 1
        else:
            parts += [cell[kept : opening.start()], cell[begin : closing.start()]]
            kept = position = closing.end()
    return "".join([*parts, cell[kept:]])


def _width(text: str) -> int:
    if text.isascii() or len(text) > _MAX_MEASURED_CELL:
        return len(text)
    from wcwidth import wcswidth  # noqa: PLC0415  the import takes 45 ms, and most cells are ASCII

    width = wcswidth(text)
    return width if width >= 0 else len(text)


def _padded(cell: str, width: int, alignment: str) -> str:
    space = width - _width(cell)
    before = {"<": 0, "^": space // 2, ">": space}[alignment]
    return " " * before + cell + " " * (space - before)


def _render_as_list(table: _Table) -> Iterator[str]:
    """Yield each row as a paragraph: the first cell as its title, then `head: cell` lines."""
    titles = [cell for cell in (table.head[:1] if table.rows else table.head) if cell]
    if titles:
        yield " / ".join(f"*{_strip_emphasis(cell)}*" for cell in titles)
    for number, row in enumerate(table.rows):
        if number or titles:
            yield ""
        yield f"**{_LINE_BREAK.sub(' ', _strip_emphasis(row[0])) or _EMPTY_CELL}**"
        for column in range(1, table.columns):
            yield from _value_lines(_cell(table.head, column), _cell(row, column))


def _cell(row: list[str], column: int) -> str:
    return row[column] if column < len(row) else ""


def _value_lines(name: str, value: str) -> list[str]:
    if name:
        value = f"{name}: {value or _EMPTY_CELL}"
    lines = _LINE_BREAK.split(value) if value else []
    # A cell of backticks at the start of a line must not open a code block.
    return [f"• {line}" if opening_fence(line) else line for line in lines]
