"""Tables for a phone: neither Telegram nor Discord draws them, and a screen is about 34 characters wide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.text.fences import blocks, opened_by

NARROW = 34
"""Columns of a fixed-width font that a phone shows without breaking the line."""

_LONGEST_CELL = 20 * NARROW
"""Characters of a cell that are measured. A longer one never fits, and the library's cost grows with the square."""

_GAP = "  "
_EMPTY = "–"
_DASHES = re.compile(r"\s*:?-+:?\s*")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ONLY_IN_PROSE = re.compile(r"\]\(|https?://|<br\s*/?>|```", re.IGNORECASE)
"""What would be lost in a code block: links and line breaks."""
_OPENING_MARK = re.compile(r"(\*\*|~~|`)(?=\S)")
_CLOSING_MARKS = {mark: re.compile(rf"(?<=\S){re.escape(mark)}") for mark in ("**", "~~", "`")}


def readable_tables(markdown: str) -> str:
    """The text with each table as an aligned code block if it is narrow, else as a list of its rows."""
    if "|" not in markdown:
        return markdown
    lines: list[str] = []
    for block in blocks(markdown):
        lines += block.lines if block.fence else _with_readable_tables(block.lines)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Table:
    alignments: list[str]
    head: list[str]
    rows: list[list[str]]

    columns: int
    """A row may have more cells than the head; nothing of it is dropped."""


def _with_readable_tables(lines: list[str]) -> Iterator[str]:
    index = 0
    while index < len(lines):
        table, length = _table_at(lines, index)
        if table is None:
            yield lines[index]
            index += 1
            continue
        if index and lines[index - 1].strip():
            yield ""
        yield from _aligned(table) or _listed(table)
        index += length
        if index < len(lines) and lines[index].strip():
            yield ""


def _table_at(lines: list[str], index: int) -> tuple[_Table | None, int]:
    """(the table that begins at this line, how many lines it takes)."""
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
    # Further in, it is a block of code.
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


# -- narrow --------------------------------------------------------------------------------------------------


def _aligned(table: _Table) -> list[str] | None:
    """As a code block; None if that is too wide or would lose something."""
    cells = [cell for row in [table.head, *table.rows] for cell in row]
    if any(_ONLY_IN_PROSE.search(cell) for cell in cells):
        return None
    rows = [[_plain(cell) for cell in row] for row in [table.head, *table.rows]]
    widths = [
        max(_width(row[column]) for row in rows if column < len(row)) for column in range(table.columns)
    ]
    if sum(widths) + len(_GAP) * (len(widths) - 1) > NARROW:
        return None
    alignments = table.alignments + ["<"] * (table.columns - len(table.alignments))
    lines = [
        _GAP.join(map(_padded, row, widths, alignments)).rstrip()
        for row in [rows[0], ["─" * w for w in widths], *rows[1:]]
    ]
    return ["```", *lines, "```"]


def _plain(cell: str) -> str:
    """Remove the marks of emphasis, which a code block would show."""
    parts: list[str] = []
    unclosed: set[str] = set()
    kept = position = 0
    while opening := _OPENING_MARK.search(cell, position):
        mark, begin = opening[1], opening.end()
        # A mark without a closing one has none further on either: each kind is searched in vain only once.
        closing = None if mark in unclosed else _CLOSING_MARKS[mark].search(cell, begin + 1)
        if closing is None:
            unclosed.add(mark)
            position = opening.start() + 1
        else:
            parts += [cell[kept : opening.start()], cell[begin : closing.start()]]
            kept = position = closing.end()
    return "".join([*parts, cell[kept:]])


def _width(text: str) -> int:
    if text.isascii() or len(text) > _LONGEST_CELL:
        return len(text)
    from wcwidth import wcswidth  # noqa: PLC0415  its tables take 45 ms to load, and most cells do without

    width = wcswidth(text)
    return width if width >= 0 else len(text)


def _padded(cell: str, width: int, alignment: str) -> str:
    space = width - _width(cell)
    before = {"<": 0, "^": space // 2, ">": space}[alignment]
    return " " * before + cell + " " * (space - before)


# -- wide ----------------------------------------------------------------------------------------------------


def _listed(table: _Table) -> Iterator[str]:
    """Each row by itself: its first cell as the title, then what the head calls the others."""
    announced = [cell for cell in (table.head[:1] if table.rows else table.head) if cell]
    if announced:
        yield " / ".join(f"*{_plain(cell)}*" for cell in announced)
    for number, row in enumerate(table.rows):
        if number or announced:
            yield ""
        yield f"**{_LINE_BREAK.sub(' ', _plain(row[0])) or _EMPTY}**"
        for column in range(1, table.columns):
            yield from _named_value(_cell(table.head, column), _cell(row, column))


def _cell(row: list[str], column: int) -> str:
    return row[column] if column < len(row) else ""


def _named_value(name: str, value: str) -> list[str]:
    if name:
        value = f"{name}: {value or _EMPTY}"
    lines = _LINE_BREAK.split(value) if value else []
    # A cell of backticks must not open a code block now that it begins a line.
    return [f"• {line}" if opened_by(line) else line for line in lines]
