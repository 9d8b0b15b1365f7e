"""Edits of values and lists of a file; the rest stays."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from gateway.config.loader import SHIPPED
from gateway.config.yaml_edit import add_item, remove_item, set_values, write_atomically
from gateway.errors import ConfigNotWritten

CHOICE: dict[str, str | None] = {"name": "openai/x", "base_url": None, "api_key": "${KEY}"}


def test_only_the_named_values_change_in_the_shipped_file() -> None:
    """Every other byte stays."""
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
    """Block and flow style, missing keys and sections, comments, quotes and Windows line ends stay."""
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
    assert set_values(before, "a.b", {"c": "x"}) == after


@pytest.mark.parametrize("text", ["a: [1]\n", "a: {b: [1]}\n", "a: 5\n", "- a\n"])
def test_a_section_that_is_something_else(text: str) -> None:
    with pytest.raises(ConfigNotWritten, match=r"set a\.b\.c by hand"):
        set_values(text, "a.b", {"c": "x"})


def test_awkward_values_survive() -> None:
    """A value is read back as it was written."""
    for text in ("yes", "12", "a: b", "# c", "'", "Ünïcode", "*x", "", " x "):
        assert yaml.safe_load(set_values("", "model", {"name": text})) == {"model": {"name": text}}


@pytest.mark.parametrize(
    "text",
    ["a: &x b\nmodel: {name: *x}\n", "model: &m {name: a}\nb: *m\n", "model: [a]\n", "- a\n", "model: [\n"],
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    """The message says what to set by hand."""
    with pytest.raises(ConfigNotWritten, match=r"set model\.name, model\.base_url, model\.api_key by hand"):
        set_values(text, "model", CHOICE)


def test_writing_keeps_mode_and_follows_links(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "hermes.yaml"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_atomically(link, "new")
    assert link.is_symlink() and real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hermes.yaml", "real.yaml"]


def test_writing_where_that_is_not_possible(tmp_path: Path) -> None:
    """The error is a sentence, and no draft is left."""
    (tmp_path / "hermes.yaml").mkdir()
    with pytest.raises(ConfigNotWritten, match="Is a directory"):
        write_atomically(tmp_path / "hermes.yaml", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["hermes.yaml"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "plugins:\n  enabled: [b]\n"),
        ("# mine\nlogging: {}\n", "# mine\nlogging: {}\nplugins:\n  enabled: [b]\n"),
        ("plugins:\n  enabled: []   # none\n", "plugins:\n  enabled: [b]   # none\n"),
        ("plugins:\n  enabled:\nlogging:\n", "plugins:\n  enabled: [b]\nlogging:\n"),
        ("plugins: {enabled: [a]} # c\n", "plugins: {enabled: [a, b]} # c\n"),
        ("plugins:\n  enabled:\n    - a  # first\n\n# c\nlogging: {}\n",
         "plugins:\n  enabled:\n    - a  # first\n    - b\n\n# c\nlogging: {}\n"),
        ("plugins:\n  enabled:\n  # why\n  - 'a'", "plugins:\n  enabled:\n  # why\n  - 'a'\n  - b\n"),
        ("\ufeffplugins:\r\n  enabled:\r\n  - a\r\n", "\ufeffplugins:\r\n  enabled:\r\n  - a\r\n  - b\r\n"),
        ("\ufeffplugins: {enabled: []}\n", "\ufeffplugins: {enabled: [b]}\n"),
    ],
)  # fmt: skip
def test_adding_an_item(before: str, after: str) -> None:
    """Block and flow style, an empty list, comments and Windows line ends."""
    assert add_item(before, "plugins", "enabled", "b") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("plugins:\n  enabled: [a, b]\n", "plugins:\n  enabled: [a]\n"),
        ("plugins:\n  enabled:\n    - b\nlogging: {}\n", "plugins:\n  enabled:\n    []\nlogging: {}\n"),
        ("plugins:\n  enabled:\n    # one\n    - a # x\n    - b # y\n    # two\n    - c\n",
         "plugins:\n  enabled:\n    # one\n    - a # x\n    # two\n    - c\n"),
    ],
)  # fmt: skip
def test_removing_an_item(before: str, after: str) -> None:
    """A comment on the line of the item goes with it; all others stay."""
    assert remove_item(before, "plugins", "enabled", "b") == after


def test_ambiguous_items_are_quoted() -> None:
    assert add_item("", "plugins", "enabled", "on").endswith('["on"]\n')
    assert add_item("", "plugins", "enabled", "12").endswith('["12"]\n')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "a:\n  b:\n    ids: [7]\n"),
        ("a:\n  b:\n    ids: []  # none\n", "a:\n  b:\n    ids: [7]  # none\n"),
        ("a: {b: {ids: [5]}}\n", "a: {b: {ids: [5, 7]}}\n"),
        ("a:\n  b:\n    ids:\n      - 5  # me\n", "a:\n  b:\n    ids:\n      - 5  # me\n      - 7\n"),
    ],
)
def test_numbers_in_a_nested_section(before: str, after: str) -> None:
    assert add_item(before, "a.b", "ids", 7) == after
    assert "7" not in remove_item(after, "a.b", "ids", 7)


def test_adding_and_removing_in_the_shipped_file() -> None:
    shipped = SHIPPED.read_text()
    changed = add_item(shipped, "plugins", "enabled", "b")
    pairs = zip(shipped.splitlines(), changed.splitlines(), strict=True)
    assert [new for old, new in pairs if old != new] == ["  enabled: [b]"]
    assert remove_item(changed, "plugins", "enabled", "b") == shipped


@pytest.mark.parametrize(
    "text",
    [
        "plugins:\n  enabled: [a, # why\n    c]\n",
        "plugins: {enabled: a}\n",
        "x: &x [a]\nplugins: {enabled: *x}\n",
    ],
)
def test_lists_that_cannot_be_edited_safely_are_refused(text: str) -> None:
    """The message says what to set by hand."""
    with pytest.raises(ConfigNotWritten, match=r"set plugins\.enabled by hand"):
        add_item(text, "plugins", "enabled", "b")


def test_an_item_from_a_variable_cannot_be_removed() -> None:
    with pytest.raises(ConfigNotWritten, match=r"set plugins\.enabled by hand"):
        remove_item("plugins:\n  enabled:\n  - ${B}\n", "plugins", "enabled", "b")
