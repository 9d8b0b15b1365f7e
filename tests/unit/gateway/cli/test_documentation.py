"""`docs/cli.md` says what the commands say, with an example for everything."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from gateway.cli.docs import all_commands, options_of, page
from gateway.cli.examples import EXAMPLES

ROOT = Path(__file__).parents[4]
EVERY = all_commands()
RUN_BY_THEMSELVES = [
    path for path, command in EVERY.items() if not isinstance(command, click.Group) or path == "hermes"
]


def words_of(example: str) -> list[str]:
    """Of the part that is ours: `git diff | hermes chat -q ... > file` has others'."""
    words = shlex.split(example, comments=True)
    ours = words[words.index("hermes") :]
    return ours[: ours.index(">")] if ">" in ours else ours


def test_the_page_is_what_the_commands_say() -> None:
    """`python -m gateway.cli.docs` writes it."""
    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == page()


def test_every_command_and_option_is_described() -> None:
    """In a sentence that ends."""
    for path, command in EVERY.items():
        assert command.help, path
        for option in options_of(command):
            assert (option.help or "").endswith((".", "exit.")), f"{path} {option.opts}"
            assert f"`{', '.join(option.opts)}" in page(), f"{path} {option.opts}"


@pytest.mark.parametrize("path", RUN_BY_THEMSELVES)
def test_every_command_and_option_has_an_example(path: str) -> None:
    """One that a person could type: it is taken by the command it shows."""
    shown = [words_of(example) for example in EXAMPLES.get(path, [])]
    assert shown, f"gateway/cli/examples.py has none for `{path}`"
    for option in options_of(EVERY[path]):
        assert any(set(option.opts) & set(words) for words in shown), f"{path} {option.opts}"
    for words in shown:
        if path != "hermes":
            depth = len(path.split())
            assert words[:depth] == path.split()
            EVERY[path].make_context(path, words[depth:], resilient_parsing=False).close()


def test_no_example_is_left_over() -> None:
    """Of a command that is gone."""
    assert set(EXAMPLES) <= set(EVERY)
