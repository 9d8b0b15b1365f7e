"""`docs/cli.md` describes every command and option, with an example of each."""

from __future__ import annotations

import shlex

import click
import pytest

from gateway.cli.docs import PAGE, all_commands, examples_in, options_of, updated

EVERY = all_commands()
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = examples_in(TEXT)
RUN_BY_THEMSELVES = [
    path for path, command in EVERY.items() if not isinstance(command, click.Group) or path == "hermes"
]


def words_of(example: str) -> list[str]:
    """Return the words of the `hermes` part of a command line with pipes."""
    words = shlex.split(example, comments=True)
    ours = words[words.index("hermes") :]
    return ours[: ours.index(">")] if ">" in ours else ours


def test_the_page_is_up_to_date() -> None:
    """`python -m gateway.cli.docs` changes nothing."""
    assert updated(TEXT) == TEXT


def test_updating_keeps_text_and_examples() -> None:
    """A changed description is replaced; the introduction, the examples and the last section stay."""
    assert TEXT.count("Print the completion script for your shell.") == 1
    outdated = TEXT.replace("Print the completion script for your shell.", "Outdated.")
    assert updated(outdated) == TEXT


def test_every_command_and_option_is_described() -> None:
    """Each description ends with a full stop."""
    for path, command in EVERY.items():
        assert command.help, path
        for option in options_of(command):
            assert (option.help or "").endswith((".", "exit.")), f"{path} {option.opts}"
            assert f"`{', '.join(option.opts)}" in TEXT, f"{path} {option.opts}"


@pytest.mark.parametrize("path", RUN_BY_THEMSELVES)
def test_every_command_and_option_has_an_example(path: str) -> None:
    """The command accepts each of its examples."""
    shown = [words_of(example) for example in EXAMPLES.get(path, "").splitlines()]
    assert shown, f"docs/cli.md has no example for `{path}`"
    for option in options_of(EVERY[path]):
        assert any(set(option.opts) & set(words) for words in shown), f"{path} {option.opts}"
    for words in shown:
        if path != "hermes":
            depth = len(path.split())
            assert words[:depth] == path.split()
            EVERY[path].make_context(path, words[depth:], resilient_parsing=False).close()
