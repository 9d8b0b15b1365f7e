"""A name goes into a list of somebody's file, or out of it, and the rest stays byte for byte."""

from __future__ import annotations

import pytest

from gateway.config.loader import SHIPPED
from gateway.config.yaml_edit import add_item, remove_item
from gateway.errors import ConfigNotWritten


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
def test_adding(before: str, after: str) -> None:
    """Block and flow style, nothing there yet, comments, Windows line ends."""
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
def test_taking_out(before: str, after: str) -> None:
    """A comment on the item's own line goes along; all others stay."""
    assert remove_item(before, "plugins", "enabled", "b") == after


def test_names_that_yaml_would_read_otherwise() -> None:
    """They are quoted."""
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
def test_numbers_in_a_section_within_a_section(before: str, after: str) -> None:
    """They are written as numbers, and taken out again."""
    assert add_item(before, "a.b", "ids", 7) == after
    assert "7" not in remove_item(after, "a.b", "ids", 7)


def test_the_shipped_file_there_and_back() -> None:
    """One line changes, and changes back."""
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
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    """Comments inside brackets and shared values: the person is told what to set by hand."""
    with pytest.raises(ConfigNotWritten, match=r"set plugins\.enabled by hand"):
        add_item(text, "plugins", "enabled", "b")


def test_an_item_from_a_variable_is_not_ours_to_take_out() -> None:
    """The file does not hold the name, so there is nothing to edit."""
    with pytest.raises(ConfigNotWritten, match=r"set plugins\.enabled by hand"):
        remove_item("plugins:\n  enabled:\n  - ${B}\n", "plugins", "enabled", "b")
