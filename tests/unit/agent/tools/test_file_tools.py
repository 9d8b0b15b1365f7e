"""read_file, write_file and search_files, as the model uses them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.redaction import REDACTED
from agent.tool import ToolContext
from agent.tool_support.workspace import Workspace
from agent.tools.search_files import search_folder
from tests.support.tool_conversation import Run


@pytest.fixture
def root(workspace: Path) -> Path:
    Workspace(workspace).prepare()
    return workspace


async def test_written_text_is_read_back(run: Run) -> None:
    """Folders are made, appending appends."""
    written = await run("write_file", path="notes/today.md", content="Grüße\n世界\n")
    assert written.content == "Wrote 9 characters in 2 lines to `notes/today.md`."
    added = await run("write_file", path="notes/today.md", content="more", mode="append")
    assert added.content == "Added 4 characters in 1 lines to `notes/today.md`."
    assert (await run("read_file", path="notes/today.md")).content == "Grüße\n世界\nmore"


async def test_lines_can_be_numbered(run: Run, root: Path) -> None:
    """With the numbers they have in the file."""
    (root / "a").write_text("one\ntwo\nthree\n")
    assert (await run("read_file", path="a", offset=2, numbered=True)).content == "     2  two\n     3  three"


async def test_a_file_is_read_in_pieces(run: Run, root: Path) -> None:
    """Following the hints gives every line once, in order."""
    lines = [f"{number}: {'x' * (number % 90)}" for number in range(1, 2_001)]
    (root / "long").write_text("\n".join(lines))
    offset, seen = 1, list[str]()
    while True:
        text = (await run("read_file", path="long", offset=offset, limit=150)).content
        piece, _, hint = text.partition("\n\n[2,000 lines in all; continue with offset=")
        seen += piece.split("\n")
        if not hint:
            break
        offset = int(hint.rstrip("]"))
    assert seen == lines


async def test_a_line_too_long_is_read_in_pieces(run: Run, root: Path) -> None:
    """A single line of any length can be read to its end."""
    line = "".join(f"{number} " for number in range(6_000))
    (root / "wide").write_text(line)
    column, seen = 1, ""
    while True:
        text = (await run("read_file", path="wide", column=column)).content
        assert len(text) < 12_000
        piece, _, hint = text.partition("\n\n[1 lines in all; line 1 goes on: offset=1, column=")
        seen += piece
        if not hint:
            break
        column = int(hint.rstrip("]"))
    assert seen == line


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "`file` is empty."),
        (b"\xef\xbb\xbfmarked", "marked"),
        ("wide ü".encode("utf-16"), "wide ü"),
        (b"caf\xe9", "caf\N{REPLACEMENT CHARACTER}"),
        (b"\x7fELF\0\0", "The tool could not do that: `file` is a binary file of 6 bytes, not text."),
    ],
)
async def test_what_is_in_a_file(run: Run, root: Path, data: bytes, expected: str) -> None:
    """Text in several encodings is shown, anything else is named."""
    (root / "file").write_bytes(data)
    assert (await run("read_file", path="file")).content == expected


async def test_reading_past_the_end(run: Run, root: Path) -> None:
    """The answer says how long the file is."""
    (root / "file").write_text("one\ntwo\n")
    result = await run("read_file", path="file", offset=3)
    assert not result.ok
    assert result.content.endswith("`file` has only 2 lines.")


@pytest.mark.parametrize("name", ["read_file", "write_file"])
async def test_tools_stay_in_the_workspace(run: Run, name: str) -> None:
    """The refusal reaches the model as a sentence."""
    result = await run(name, path="../x", **({"content": "x"} if name == "write_file" else {}))
    assert not result.ok
    assert "paths start at the workspace" in result.content


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Path:
    """Some files, and things that must not be looked into."""
    (root / "notes").mkdir()
    (root / "notes" / "a.md").write_text("Alpha\nbeta alpha\n")
    (root / "notes" / "b.txt").write_text("alpha")
    (root / "top.md").write_text("nothing")
    (root / "binary").write_bytes(b"alpha\0")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("alpha")
    outside = tmp_path / "outside.txt"
    outside.write_text("alpha")
    (root / "link.txt").symlink_to(outside)
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "binary\ntop.md\nnotes/a.md\nnotes/b.txt"),
        ({"glob": "*.md"}, "top.md\nnotes/a.md"),
        ({"glob": "notes/*"}, "notes/a.md\nnotes/b.txt"),
        ({"pattern": "^alpha"}, "notes/b.txt:1: alpha"),
        (
            {"pattern": "ALPHA", "ignore_case": True, "glob": "*.md"},
            "notes/a.md:1: Alpha\nnotes/a.md:2: beta alpha",
        ),
        ({"pattern": "alpha", "path": "./notes/"}, "notes/a.md:2: beta alpha\nnotes/b.txt:1: alpha"),
        ({"pattern": "gamma"}, "Nothing was found."),
        ({"glob": "*", "limit": 2}, "binary\ntop.md\n[there is more; narrow the search or raise the limit]"),
    ],
)
async def test_searching(run: Run, library: Path, arguments: dict[str, object], expected: str) -> None:
    """By content, by name, in a folder; links, pipes, binaries and .git are left alone."""
    result = await run("search_files", **arguments)
    assert (result.ok, result.content) == (True, expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"pattern": "("},
            "not a valid regular expression: missing ), unterminated subpattern at position 0.",
        ),
        ({"pattern": "a{99999999999}"}, "the pattern is too large."),
        ({"path": ".."}, "holds `..`"),
        ({"path": "folder"}, "symbolic link"),
        ({"path": "missing"}, "`missing` does not exist."),
    ],
)
async def test_searches_that_are_refused(
    run: Run, library: Path, arguments: dict[str, object], expected: str
) -> None:
    """Each with a sentence."""
    result = await run("search_files", **arguments)
    assert not result.ok
    assert expected in result.content


async def test_a_long_line_is_shown_around_the_match(run: Run, root: Path) -> None:
    """Two hundred characters of it."""
    (root / "file").write_text("a" * 1_000 + "needle" + "b" * 1_000)
    content = (await run("search_files", pattern="needle")).content
    assert content == f"file:1: …{'a' * 50}needle{'b' * 144}…"


async def test_files_too_large_are_counted(run: Run, root: Path) -> None:
    """What was not searched is not passed over in silence."""
    (root / "big").write_bytes(b"x" * 5_000_001)
    content = (await run("search_files", pattern="x")).content
    assert content == "Nothing was found.\n[1 files were too large to be searched]"


async def test_a_pattern_that_explodes_is_stopped(ctx: ToolContext, root: Path) -> None:
    """The search would never end, so it returns the matches up to the deadline."""
    (root / "a").write_text("aab")
    (root / "b").write_text("a" * 60 + "c")
    folder = os.open(root, os.O_RDONLY)
    try:
        query = {"pattern": "^(a+)+b", "glob": "", "ignore_case": False, "limit": 50}
        found = await search_folder(folder, query, seconds=0.5)
    finally:
        os.close(folder)
    assert (found.hits, found.in_time) == (["a:1: aab"], False)


async def test_a_file_is_not_written_back_with_its_secrets_left_out(run: Run, root: Path) -> None:
    """The model cannot write a redacted value; a value that was in the file may stay."""
    secret = "DB_PASSWORD=correcthorse\n"
    (root / "app.env").write_text(f"{secret}DEBUG=no\n")
    shown = (await run("read_file", path="app.env")).content
    assert REDACTED in shown
    refused = await run("write_file", path="app.env", content=shown.replace("no", "yes"))
    assert not refused.ok and "was not changed" in refused.content and "terminal" in refused.content
    assert (root / "app.env").read_text().startswith(secret)
    for arguments in (
        {"path": "notes", "content": f"It says {REDACTED}."},
        {"path": "notes", "content": f"There it says {REDACTED}."},
        {"path": "app.env", "content": f"# {REDACTED}\n", "mode": "append"},
        {"path": "app.env", "content": "DEBUG=yes\n"},
    ):
        assert (await run("write_file", **arguments)).ok
