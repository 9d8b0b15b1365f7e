"""Digests of large texts: each kind is known by how it looks, and told by how it is built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plugins.context_engine.lcm.digests import digest
from tests.support.lcm_digest_samples import ORDERS, PYTHON

ROOT = Path(__file__).parents[4]


def test_json_shows_keys_types_and_lengths() -> None:
    """And which keys are not always there."""
    made = digest(json.dumps(ORDERS), tokens=400)
    assert made.kind == "JSON"
    for line in (
        "list of 300: object",
        "  id: whole number, 0 to 299",
        '      city: text, e.g. "London"',
        "  items: list of 0 to 3: object",
        '    sku: text, e.g. "A-0", "A-1"',
        "  total: number, 0 to 448.5",
        "  gift: boolean",
        "(in 200 of 300)",
    ):
        assert line in made.text


def test_outer_keys_stay_where_there_is_little_room() -> None:
    made = digest(json.dumps({"data": {"orders": ORDERS}, "next_page": 2, "errors": []}), tokens=60)
    assert "data: object" in made.text and "next_page" in made.text and "errors: empty list" in made.text
    assert "sku" not in made.text


def test_json_with_words_around_it() -> None:
    """Those of our own tools, which say how to go on, and those of a program."""
    page = f"https://example.org/a (HTTP 200, application/json)\n{json.dumps(ORDERS)}\n[exit code 0]"
    made = digest(page, tokens=400)
    assert made.kind == "JSON" and "list of 300" in made.text
    assert "https://example.org/a (HTTP 200" in made.text and "[exit code 0]" in made.text
    program = digest(f"Fetching orders ...\n{json.dumps(ORDERS, indent=2)}\nDone in 3 s.", tokens=400)
    assert program.kind == "JSON" and "list of 300" in program.text
    assert "Before it: Fetching orders ..." in program.text and "After it: Done in 3 s." in program.text


@pytest.mark.parametrize("keep", [0.3, 0.77, 0.9999])
def test_json_that_was_cut(keep: float) -> None:
    whole = json.dumps(ORDERS)
    made = digest(whole[: int(len(whole) * keep)], tokens=300)
    assert made.kind == "JSON" and "incomplete" in made.text and "sku: text" in made.text


def test_json_that_the_host_has_cut_in_the_middle() -> None:
    whole = json.dumps(ORDERS)
    note = "[… 30,000 of 50,000 characters left out here. The full text is in `.outputs/c1.txt` …]"
    made = digest(f"{whole[:9_000]}\n\n{note}\n\n{whole[-4_000:]}", tokens=300)
    assert made.kind == "JSON" and "cut off" in made.text and note in made.text


def test_json_lines() -> None:
    made = digest("\n".join(map(json.dumps, ORDERS)), tokens=300)
    assert made.kind == "JSON lines" and "300 values" in made.text and "sku: text" in made.text


def test_an_object_whose_keys_are_data() -> None:
    made = digest(json.dumps({f"user-{n}": {"age": n} for n in range(5_000)}), tokens=200)
    assert "object with 5,000 keys" in made.text and "4,995 more keys" in made.text


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_tables(delimiter: str) -> None:
    """A quoted cell may hold the delimiter and line breaks; neither makes a column or a row."""
    head = delimiter.join(("id", "name", "day", "price", "state"))
    rows = [
        delimiter.join(
            (
                str(n),
                f'"Smith{delimiter} {n}\nor so"',
                f"2024-01-{n % 28 + 1:02}",
                f"{n / 4}",
                "ab"[n % 2] * 3,
            )
        )
        for n in range(400)
    ]
    made = digest("\n".join([head, *rows]), tokens=400)
    assert made.kind.startswith("TSV" if delimiter == "\t" else "CSV")
    assert "400 rows, 5 columns" in made.text
    assert "id: whole number, 0 to 399" in made.text and "day: date, 2024-01-01 to 2024-01-28" in made.text
    assert "price: number, 0.0 to 99.75" in made.text and "state: text, only aaa, bbb" in made.text


def test_a_table_without_a_header() -> None:
    made = digest("\n".join(f"{n},{n * n},x{n}" for n in range(50)), tokens=200)
    assert made.kind == "CSV" and "50 rows, 3 columns, no header" in made.text


def test_prose_with_commas_is_no_table() -> None:
    text = "\n".join(f"In the year {n}, the winter was long, and nobody knew why." for n in range(50))
    assert digest(text, tokens=200).kind == "text"


def test_python() -> None:
    """Definitions with their line numbers, as written. A string is not a definition."""
    made = digest(PYTHON, tokens=300)
    assert made.kind == "code (Python)"
    assert "11: class Keeper" in made.text
    assert '  14: def keep(self, thing: str, sep: str = "\\n") -> None' in made.text
    assert "25: async def main(*names: str) -> int" in made.text
    assert "not_a_function" not in made.text
    assert "Imports: re, dataclasses" in made.text


def test_python_that_was_cut() -> None:
    """Code that cannot be parsed is described, too."""
    made = digest(PYTHON + "\nx = (", tokens=300)
    assert made.kind == "code (Python)"
    assert "class Keeper" in made.text and "async def main(*names: str) -> int" in made.text


def test_python_printed_with_numbers() -> None:
    """The numbers of the file are told, not those of the piece."""
    numbered = "\n".join(f"{number:>6}  {line}" for number, line in enumerate(PYTHON.split("\n"), start=401))
    made = digest(numbered, tokens=300)
    assert made.kind == "code (Python)" and "411: class Keeper" in made.text


def test_names_of_python_files_are_text() -> None:
    listing = "\n".join(f"src/module_{n}.py" for n in range(50))
    assert digest(listing, tokens=200).kind == "text"


def test_markdown_with_its_outline() -> None:
    """Comments in fenced code are not headings."""
    text = (
        "# Guide\n\nSee [this](x).\n\n```sh\n# a comment\nls\n```\n\n"
        + "Words.\n\n" * 50
        + "## Last part\n\nThe end."
    )
    made = digest(text, tokens=200)
    assert made.kind == "Markdown" and "1: Guide" in made.text and "110: Last part" in made.text
    assert "2 headings" in made.text and "The end." in made.text
    assert digest((ROOT / "README.md").read_text(encoding="utf-8"), tokens=200).kind == "Markdown"


def test_plain_text_keeps_beginning_outline_and_end() -> None:
    text = "\n\n".join(f"CHAPTER {n}\n\nIt was a dark and stormy night, number {n}." for n in range(90))
    made = digest(text, tokens=250)
    assert made.kind == "text" and "90 headings" in made.text
    assert "number 0." in made.text and "5: CHAPTER 1" in made.text and "number 89." in made.text


def test_code_in_other_languages_is_text() -> None:
    go = "func main() {\n\tif err := run(); err != nil {\n\t\treturn\n\t}\n}\n" * 20
    assert digest(go, tokens=200).kind == "text"
