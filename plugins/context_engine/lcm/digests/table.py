"""CSV and other delimited tables: columns with their types, the number of rows, and the first rows.

The delimiter is the one that splits the lines into equally many cells; `csv.Sniffer` guesses by letters.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator

from ..formatting import pluralize
from .source import Findings, Section, Source, one_line, short_value

_MAX_COLUMNS = 300
_SHOWN_ROWS = 5
_NAMES = {",": "CSV", "\t": "TSV", ";": "CSV (semicolons)", "|": "CSV (bars)"}
_MIN_SAME_WIDTH = 0.95
_MAX_AVERAGE_CELL = 40
_MAX_NAME = 60
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,18}[.,]\d{0,18}|\.\d{1,18}|\d{1,18})(?:[eE][+-]?\d{1,3})?%?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?[\d.,:+Z -]{0,16}")
_BOOLEANS = frozenset({"true", "false", "yes", "no", "t", "f"})


def read_table(source: Source) -> Findings | None:
    best: tuple[int, str, list[list[str]]] = (1, "", [])
    for delimiter in _NAMES:
        rows = list(_rows(source.text, delimiter)) if delimiter in source.text else []
        width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
        if width > best[0] and _fits(rows, width, delimiter):
            best = (width, delimiter, rows)
    return _findings(source, *best) if best[1] else None


def _findings(source: Source, width: int, delimiter: str, rows: list[list[str]]) -> Findings:
    has_header = _is_header(rows, width)
    names = rows[0] if has_header else [f"column {number}" for number in range(1, width + 1)]
    body = [row for row in rows[has_header:] if len(row) == width]
    count = source.line_count if source.is_cut else len(rows)
    facts = [
        f"{'about ' if source.is_cut else ''}{pluralize(count - has_header, 'row')}",
        pluralize(width, "column"),
        *([] if has_header else ["no header"]),
    ]
    columns = [_column(name, [row[index] for row in body]) for index, name in enumerate(names[:_MAX_COLUMNS])]
    first = Section.flat("First rows:", [_row(names, row, delimiter) for row in body[:_SHOWN_ROWS]])
    detailed = Section.flat("Columns:", columns, more=max(0, len(names) - _MAX_COLUMNS))
    in_short = ", ".join(one_line(name, _MAX_NAME) for name in names[:_MAX_COLUMNS])
    is_long = width > 12 or sum(map(len, columns)) > 20 * len(in_short)
    brief = [Section.flat("", [f"Columns: {in_short}"]), first] if is_long else []
    return Findings(_NAMES[delimiter], ", ".join(facts), [detailed, first], brief)


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    try:
        yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        return  # a cell without an end


def _fits(rows: list[list[str]], width: int, delimiter: str) -> bool:
    same = sum(len(row) == width for row in rows)
    if len(rows) < 3 or len(rows[0]) != width or same < len(rows) * _MIN_SAME_WIDTH:
        return False
    if not any(row[-1].strip() for row in rows):
        return False
    cells = [cell for row in rows for cell in row]
    if sum(map(len, cells)) > len(cells) * _MAX_AVERAGE_CELL or max(map(len, rows[0])) > _MAX_NAME:
        return False
    # Sentences and code have a space after a comma; a leading bar is a Markdown table.
    spaced = sum(cell.startswith(" ") for row in rows for cell in row[1:])
    if delimiter == "," and spaced > len(cells) / 4:
        return False
    return delimiter != "|" or (width >= 3 and rows[0][0].strip() != "")


def _is_header(rows: list[list[str]], width: int) -> bool:
    first = [cell.strip() for cell in rows[0]]
    if len(set(first)) < len(first) or not all(first) or any(map(_is_data, first)):
        return False
    below = [row for row in rows[1:] if len(row) == width]
    typed = any(_is_data(row[index]) for row in below[:50] for index in range(width))
    return typed or all(re.fullmatch(r"[^\W\d][\w .()/#%-]{0,58}", cell) for cell in first)


def _is_data(cell: str) -> bool:
    cell = cell.strip()
    return any(pattern.fullmatch(cell) for pattern in (_NUMBER, _DATE, _TIME))


def _column(name: str, cells: list[str]) -> str:
    filled = [cell.strip() for cell in cells if cell.strip()]
    kind = _type(filled)
    title = one_line(name, _MAX_NAME)
    empty = f", {len(cells) - len(filled):,} of {len(cells):,} empty" if len(filled) < len(cells) else ""
    return f"{title}: {kind}{_range(name, kind, filled)}{empty}"


def _type(cells: list[str]) -> str:
    if not cells:
        return "empty"
    if all(cell.lower() in _BOOLEANS for cell in cells):
        return "boolean"
    patterns = (("whole number", _WHOLE), ("number", _NUMBER), ("date", _DATE), ("time", _TIME))
    return next((kind for kind, pattern in patterns if all(map(pattern.fullmatch, cells))), "text")


def _range(name: str, kind: str, cells: list[str]) -> str:
    if not cells or kind == "boolean":
        return ""
    distinct = Counter(cells)
    if kind == "text" or len(distinct) == 1:
        few = len(distinct) <= 6 and len(cells) >= 2 * len(distinct)
        shown = [short_value(name, cell, 30) for cell, _ in distinct.most_common(6 if few else 2)]
        return f", {'only' if few else 'e.g.'} {', '.join(shown)}"
    if kind == "number" and any("," in cell or "%" in cell for cell in cells):
        return f", e.g. {short_value(name, cells[0])}"
    if kind in ("whole number", "number"):
        ends = (min(cells, key=float), max(cells, key=float))
    else:
        ends = (min(cells), max(cells))
    return f", {short_value(name, ends[0])} to {short_value(name, ends[1])}"


def _row(names: list[str], row: list[str], delimiter: str) -> str:
    cells = [short_value(name, cell, 30) for name, cell in zip(names, row[:_MAX_COLUMNS], strict=False)]
    return one_line((f" {delimiter} " if delimiter == "|" else delimiter).join(cells), 300)
