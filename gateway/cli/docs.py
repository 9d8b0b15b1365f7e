"""Updates `docs/cli.md` from the commands: `python -m gateway.cli.docs`.

The commands give the headings, descriptions and options. The rest is written in the page and stays: the introduction,
the last section, and the examples, which are the code block of each command.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click

from gateway.cli import COMMANDS, cli

PAGE = Path(__file__).parents[2] / "docs/cli.md"
_FIRST_SECTION, _LAST_SECTION = "## Before the command\n", "## Imported conversations\n"


def updated(page: str) -> str:
    """Return the page with the current commands."""
    introduction, _, _ = page.partition(_FIRST_SECTION)
    _, _, ending = page.partition(_LAST_SECTION)
    examples = examples_in(page)
    parts = [f"{introduction}{_FIRST_SECTION}", _described(cli, examples["hermes"])]
    for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
        parts.append(f"## {section}\n")
        for name, entry in COMMANDS.items():
            if entry.section == section:
                for path, command in _commands_below(f"hermes {name}", _named(name)):
                    parts += [f"### `{_usage(path, command)}`\n", _described(command, examples.get(path, ""))]
    return "\n".join([*parts, f"{_LAST_SECTION}{ending}"])


def examples_in(page: str) -> dict[str, str]:
    """Return the code block of each command."""
    found: dict[str, str] = {}
    longest_first = sorted(all_commands(), key=len, reverse=True)
    for section in re.split(r"^##+ `?", page, flags=re.MULTILINE):
        path = next((path for path in longest_first if section.startswith(path)), "hermes")
        if block := re.search(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
            found[path] = block[1]
    return found


def all_commands() -> dict[str, click.Command]:
    every: dict[str, click.Command] = {"hermes": cli}
    for name in COMMANDS:
        every |= dict(_commands_below(f"hermes {name}", _named(name)))
    return every


def options_of(command: click.Command) -> list[click.Option]:
    """Return the options except `--config`, which is described once, for `hermes`."""
    return [
        each
        for each in command.params
        if isinstance(each, click.Option) and (command is cli or "--config" not in each.opts)
    ]


def _named(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def _commands_below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield the command and its subcommands with their full names."""
    yield path, command
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            yield from _commands_below(f"{path} {name}", below)


def _usage(path: str, command: click.Command) -> str:
    pieces = command.collect_usage_pieces(click.Context(command))
    return " ".join([path, *(piece for piece in pieces if piece != "[OPTIONS]")])


def _described(command: click.Command, examples: str) -> str:
    parts = [inspect.cleandoc(command.help or "").replace("\b\n", "")]
    if options := options_of(command):
        rows = (f"| `{_spelled(option, command)}` | {_help(option)} |" for option in options)
        parts.append("\n".join(["| option | |", "|---|---|", *rows]))
    if examples:
        parts.append(f"```\n{examples}```")
    return "\n\n".join(parts) + "\n"


def _spelled(option: click.Option, command: click.Command) -> str:
    names = ", ".join(option.opts)
    value = "" if option.is_flag or option.count else option.make_metavar(click.Context(command))
    value = "N" if isinstance(option.type, click.IntRange) else value
    return f"{names} {value}".strip().replace("|", "\\|")


def _help(option: click.Option) -> str:
    default = f" Without it: {option.default}." if option.show_default else ""
    return f"{option.help or ''}{default}".replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
