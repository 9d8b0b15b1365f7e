"""Tables on a phone."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.text.tables import PHONE_COLUMNS, render_tables

NARROW_TABLE = "| Name | Age |\n|:-----|----:|\n| Ann | 7 |\n| Robert | 42 |"
WIDE_TABLE = """\
| Plan | Storage | What it is for |
|---|---|---|
| Free | 5 GB | trying it out for a while |
| **Pro** | 1 TB | [everything](https://example.com) |"""


def test_a_narrow_table_is_aligned() -> None:
    """A narrow table becomes an aligned code block; numbers are right-aligned where the author says so."""
    assert render_tables(NARROW_TABLE) == ("```\nName    Age\n──────  ───\nAnn       7\nRobert   42\n```")


def test_wide_characters_count_double() -> None:
    """Columns with Chinese or emoji are aligned."""
    table = "| 城市 | x |\n|---|---|\n| 北京市 | 1 |\n| 👍 | 2 |"
    assert render_tables(table).split("\n")[1:-1] == ["城市    x", "──────  ─", "北京市  1", "👍      2"]


def test_a_wide_table_becomes_a_list() -> None:
    """Each row becomes one entry, and each value has the name of its column."""
    assert render_tables(WIDE_TABLE) == (
        "*Plan*\n\n"
        "**Free**\nStorage: 5 GB\nWhat it is for: trying it out for a while\n\n"
        "**Pro**\nStorage: 1 TB\nWhat it is for: [everything](https://example.com)"
    )


def test_the_limit_is_34_columns() -> None:
    """A table of 34 columns is aligned; a wider one becomes a list."""
    fits = f"| a | b |\n|---|---|\n| {'x' * (PHONE_COLUMNS - 3)} | y |"
    assert render_tables(fits).startswith("```")
    assert render_tables(fits.replace("y", "yy")).startswith("*a*")


def test_links_and_line_breaks_are_kept() -> None:
    """Even a narrow table with links or line breaks becomes a list, because a code block would show their source."""
    table = "| a | b |\n|---|---|\n| 1 | [x](https://e.x) |\n| 2 | one<br>two |"
    assert render_tables(table) == "*a*\n\n**1**\nb: [x](https://e.x)\n\n**2**\nb: one\ntwo"


def test_ragged_rows() -> None:
    """Missing cells are marked, extra ones are shown, and a pipe can be escaped."""
    table = f"| head | second |\n|---|---|\n| {'long ' * 9}|\n| a \\| b | c | surplus |"
    assert render_tables(table) == (
        f"*head*\n\n**{('long ' * 9).strip()}**\nsecond: –\n\n**a | b**\nsecond: c\nsurplus"
    )


def test_a_cell_does_not_open_a_code_block() -> None:
    """Backticks at the beginning of a line do not turn the text after the table into code."""
    table = "| a | b |\n|---|---|\n| 1 | x<br>```sh | ```python |"
    assert render_tables(table) == "*a*\n\n**1**\nb: x\n• ```sh\n• ```python"


def test_marks_are_not_shown_in_code() -> None:
    """A code block shows no emphasis marks and no backticks."""
    shown = render_tables("| `a` | b |\n|---|---|\n| **x** | y |")
    assert shown == "```\na  b\n─  ─\nx  y\n```"


def test_tables_in_code_are_unchanged() -> None:
    """Fenced and indented code is unchanged."""
    for before, after in [("```\n", "\n```"), ("~~~md\n", "\n~~~"), ("````\n```\n", "\n````")]:
        assert render_tables(before + NARROW_TABLE + after) == before + NARROW_TABLE + after
    indented = "    " + NARROW_TABLE.replace("\n", "\n    ")
    assert render_tables(indented) == indented


def test_text_around_a_table_stays_apart() -> None:
    """A blank line separates a table from the text; nothing else changes."""
    text = render_tables(f"Before it.\n{WIDE_TABLE}\nAfter it.")
    assert text.startswith("Before it.\n\n*Plan*")
    assert text.endswith("(https://example.com)\n\nAfter it.")


def test_text_that_is_not_a_table() -> None:
    """Pipes alone, and rows that do not match the delimiter row, are text."""
    for text in ["a | b\nc | d", "| a |\n|---|---|\n| b |", "a || b", "Title\n---\ntext | text"]:
        assert render_tables(text) == text


def test_a_table_without_rows() -> None:
    """The head is still shown."""
    assert "one" in render_tables("| one | two |\n|---|---|")
    head = "| " + "a rather long name | " * 3 + "\n|---|---|---|"
    assert render_tables(head) == " / ".join(["*a rather long name*"] * 3)


_cell = st.text(alphabet="abcXYZ019 .,城é👍-", max_size=20).map(str.strip)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(_cell, min_size=n, max_size=n), min_size=2, max_size=6)
    )
)
@settings(max_examples=60, deadline=None)
def test_every_cell_survives(rows: list[list[str]]) -> None:
    """The result contains all text of a table, for any shape."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    shown = render_tables("\n".join(lines))
    assert not re.search(r"\|\s*-", shown)
    for row in rows:
        assert all(cell in shown for cell in row)
