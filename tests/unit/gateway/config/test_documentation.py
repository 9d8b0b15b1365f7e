"""The shipped file, the reference page and the README agree with the schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config.docs import BEGIN, END, reference, short_table, updated
from gateway.config.loader import SHIPPED, load
from gateway.config.schema import Config
from gateway.config.validate import keys
from gateway.config.yaml_document import parse

ROOT = Path(__file__).parents[4]


def test_the_shipped_file_is_the_default() -> None:
    """It equals the configuration without any file."""
    assert load(SHIPPED).config == Config()


def test_the_shipped_file_shows_every_key() -> None:
    """Each key or its section has a comment."""
    text = SHIPPED.read_text()
    document = parse(text, {})
    shown = {".".join(map(str, place)) for place in document.lines}
    assert [key.name for key in keys() if key.name not in shown] == []
    lines = text.splitlines()
    for key in keys():
        section = tuple(key.name.split("."))[:-1]
        assert any(
            lines[document.lines[place] - 2].lstrip().startswith("#") for place in (section, section[:1])
        )


def test_every_key_is_described() -> None:
    for key in keys():
        assert key.expected and re.search(r"[.!]$", key.description), key.name


@pytest.mark.parametrize(
    ("name", "default", "expected"),
    [
        ("compression.threshold", 0.5, "a number from 0.0 to 1.0"),
        ("compression.target_ratio", 0.2, "a number from 0.1 to 0.8"),
        ("compression.protect_last_n", 20, "a whole number of at least 1"),
        ("compression.enabled", True, "`true` or `false`"),
        ("context.engine", "compressor", "text"),
        ("context.options", {}, "a mapping"),
        ("auxiliary.compression.model", None, "text"),
        ("auxiliary.compression.provider", "auto", "text"),
        ("auxiliary.compression.base_url", None, "an http or https URL without a password"),
        ("prompt_caching.cache_ttl", "5m", "`5m` or `1h`"),
    ],
)
def test_settings_of_the_context_system(name: str, default: object, expected: str) -> None:
    """Engines and files of other people rely on these names, defaults and ranges."""
    (key,) = [key for key in keys() if key.name == name]
    assert (key.default, key.expected) == (default, expected)


@pytest.mark.parametrize(
    ("page", "content"), [("docs/configuration.md", reference), ("README.md", short_table)]
)
def test_tables_are_up_to_date(page: str, content: Callable[[], str]) -> None:
    """If this fails: `make docs`."""
    text = (ROOT / page).read_text()
    assert updated(text, content()) == text


def test_text_outside_the_markers_stays() -> None:
    assert updated(f"a\n{BEGIN}\nold\n{END}\nb", "new\n") == f"a\n{BEGIN}\nnew\n{END}\nb"
