"""Changing a few values of somebody's file without touching the rest."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from gateway.config.loader import SHIPPED
from gateway.config.yaml_edit import set_values, write_atomically
from gateway.errors import ConfigNotWritten

CHOICE: dict[str, str | None] = {"name": "openai/x", "base_url": None, "api_key": "${KEY}"}


def test_only_the_named_values_change_in_the_shipped_file() -> None:
    """Two lines differ; every comment, blank line and space elsewhere is the same byte for byte."""
    before = SHIPPED.read_text()
    after = set_values(before, "model", CHOICE)
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    changed = [(old, new) for old, new in pairs if old != new]
    assert changed == [
        ("  name: auto", "  name: openai/x"),
        ("  api_key: ${HERMES_API_KEY:-}", "  api_key: ${KEY}"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "model:\n  name: openai/x\n  api_key: ${KEY}\n"),
        ("# mine\n", "# mine\nmodel:\n  name: openai/x\n  api_key: ${KEY}\n"),
        ("logging: {}", "logging: {}\nmodel:\n  name: openai/x\n  api_key: ${KEY}\n"),
        ("model:\n    name:   'a'   # b\n\n\n#c", "model:\n    api_key: ${KEY}\n    name:   openai/x   # b\n\n\n#c"),
        ("model:\n  # its name\n  name: a\n", "model:\n  api_key: ${KEY}\n  # its name\n  name: openai/x\n"),
        ("model:\n  base_url: http://h\n", "model:\n  name: openai/x\n  api_key: ${KEY}\n  base_url: null\n"),
        ("model:\n  name:\n  api_key:   # k\n", "model:\n  name: openai/x\n  api_key: ${KEY}   # k\n"),
        ("model:\n  name: >-\n    a\n  api_key: b\n", "model:\n  name: openai/x\n  api_key: ${KEY}\n"),
        ("model: {name: a} # c\n", 'model: {api_key: "${KEY}", name: "openai/x"} # c\n'),
        ("model:\nlogging:\n", 'model: {name: "openai/x", api_key: "${KEY}"}\nlogging:\n'),
        ("model: null # c\n", 'model: {name: "openai/x", api_key: "${KEY}"} # c\n'),
        ("{logging: {}}\n", '{model: {name: "openai/x", api_key: "${KEY}"}, logging: {}}\n'),
        ("\ufeffmodel:\r\n  name: a\r\n", "\ufeffmodel:\r\n  api_key: ${KEY}\r\n  name: openai/x\r\n"),
    ],
)  # fmt: skip
def test_many_ways_to_write_a_file(before: str, after: str) -> None:
    """Block and flow style, missing keys and sections, comments, quotes, Windows line ends: all are kept."""
    assert set_values(before, "model", CHOICE) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "a:\n  b:\n    c: x\n"),
        ("# mine", "# mine\na:\n  b:\n    c: x\n"),
        ("a:\n    d: 1\n", "a:\n    b:\n      c: x\n    d: 1\n"),
        ("a:  # why\n  b:\n    # its c\n    c: y # z\n", "a:  # why\n  b:\n    # its c\n    c: x # z\n"),
        ("a:\n  b:\n", "a:\n  b: {c: \"x\"}\n"),
        ("a:\n", "a: {b: {c: \"x\"}}\n"),
        ("a: {d: 1}\n", "a: {b: {c: \"x\"}, d: 1}\n"),
        ("a: {b: {d: 1}}\n", "a: {b: {c: \"x\", d: 1}}\n"),
        ("{d: 1}\n", "{a: {b: {c: \"x\"}}, d: 1}\n"),
        ("a:\r\n  d: 1\r\n", "a:\r\n  b:\r\n    c: x\r\n  d: 1\r\n"),
    ],
)  # fmt: skip
def test_a_section_within_a_section(before: str, after: str) -> None:
    """Whichever of them are there already, in whichever style."""
    assert set_values(before, "a.b", {"c": "x"}) == after


@pytest.mark.parametrize("text", ["a: [1]\n", "a: {b: [1]}\n", "a: 5\n", "- a\n"])
def test_a_section_that_is_something_else(text: str) -> None:
    """Nothing is overwritten."""
    with pytest.raises(ConfigNotWritten, match=r"set a\.b\.c by hand"):
        set_values(text, "a.b", {"c": "x"})


def test_awkward_values_survive() -> None:
    """Whatever is written is read back as the same text."""
    for text in ("yes", "12", "a: b", "# c", "'", "Ünïcode", "*x", "", " x "):
        assert yaml.safe_load(set_values("", "model", {"name": text})) == {"model": {"name": text}}


@pytest.mark.parametrize(
    "text",
    ["a: &x b\nmodel: {name: *x}\n", "model: &m {name: a}\nb: *m\n", "model: [a]\n", "- a\n", "model: [\n"],
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    """Shared values would change in two places; the person is told what to set by hand."""
    with pytest.raises(ConfigNotWritten, match=r"set model\.name, model\.base_url, model\.api_key by hand"):
        set_values(text, "model", CHOICE)


def test_writing_keeps_mode_and_follows_links(tmp_path: Path) -> None:
    """A linked file is changed where it is, and stays as readable as it was."""
    real, link = tmp_path / "real.yaml", tmp_path / "hermes.yaml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_atomically(link, "new")
    assert link.is_symlink() and real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hermes.yaml", "real.yaml"]


def test_writing_where_that_is_not_possible(tmp_path: Path) -> None:
    """A sentence, and no draft left behind."""
    (tmp_path / "hermes.yaml").mkdir()
    with pytest.raises(ConfigNotWritten, match="Is a directory"):
        write_atomically(tmp_path / "hermes.yaml", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["hermes.yaml"]
