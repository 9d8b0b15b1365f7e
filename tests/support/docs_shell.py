"""Shell lines on documentation pages: finds ours, fills placeholders, checks the arguments of `hermes`."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator

import click

from gateway.cli import cli
from tests.support.docs_pages import Block

PROGRAMS = ("hermes", ".venv/bin/hermes")
_OPERATORS = re.compile(r"^[|&;<>()]+$")
_STREAMS = re.compile(r"\b\d>&\d\b|\b\d(?=>)")
_ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)")


def lines(block: Block) -> list[str]:
    """Without comments and with continued lines joined."""
    joined = block.text.replace("\\\n", " ")
    return [line for line in map(str.strip, joined.splitlines()) if line and not line.startswith("#")]


def words(line: str) -> list[str]:
    """Split into shell words and operators, without stream numbers."""
    lexer = shlex.shlex(_STREAMS.sub("", line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def is_plain(line: str) -> bool:
    """One program, started once."""
    return not any(_OPERATORS.match(word) for word in words(line))


def programs(line: str) -> list[list[str]]:
    """Return the commands of a pipeline or list, without redirections and leading `NAME=value`."""
    started: list[list[str]] = [[]]
    skip = False
    for word in words(line):
        if _OPERATORS.match(word):
            skip = word.startswith((">", "<"))
            if not skip:
                started.append([])
        elif skip:
            skip = False
        elif started[-1] or not _ASSIGNMENT.match(word):
            started[-1].append(word)
    return [command for command in started if command]


def calls_hermes(line: str) -> bool:
    return any(command[0] in PROGRAMS for command in programs(line))


def is_shell(block: Block) -> bool:
    if block.language == "sh":
        return True
    return block.language == "" and any(line.split()[0] in PROGRAMS for line in lines(block))


def assignments(line: str) -> dict[str, str]:
    """The `NAME=value` in front of a command."""
    front = itertools.takewhile(bool, map(_ASSIGNMENT.match, words(line)))
    return {found[1]: found[2] for found in front if found}


def refusal(arguments: list[str], *, whole: bool) -> str:
    """Return why `hermes` rejects these arguments, or an empty string. Runs nothing.

    `whole`: the list is complete, without omissions or placeholders.
    """
    command: click.Command = cli
    context = click.Context(cli, info_name="hermes")
    rest = list(arguments)
    try:
        while isinstance(command, click.Group):
            parser = command.make_parser(context)
            parser.allow_interspersed_args = False
            _, rest, _ = parser.parse_args(rest)
            if not rest:
                return ""
            name = rest.pop(0)
            if not whole and name.strip("[]").isupper():
                return ""  # it is a placeholder
            found = command.get_command(context, name)
            if found is None:
                return f"there is no command {context.command_path} {name}"
            command, context = found, click.Context(found, info_name=name, parent=context)
        if whole:
            command.make_context(context.info_name, rest, parent=context.parent)
        else:
            command.make_parser(context).parse_args(rest)
    except click.exceptions.Exit:
        return ""  # --help, --version
    except click.MissingParameter as error:
        return f"an argument is missing: {error.param.name if error.param else ''}" if whole else ""
    except click.UsageError as error:
        return error.format_message()
    return ""


def alternatives(text: str) -> Iterator[str]:
    """`hermes sessions list|show` as two."""
    found = re.search(r"\S+(?:\|\S+)+", text)
    if not found:
        yield text
        return
    for choice in found[0].split("|"):
        yield from alternatives(text[: found.start()] + choice + text[found.end() :])


def leaf_commands() -> list[str]:
    """Every command that does something, as it is typed."""

    def below(command: click.Command, path: str) -> Iterator[str]:
        if not isinstance(command, click.Group):
            yield path
            return
        if command.invoke_without_command:
            yield path
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            if not child.hidden:
                yield from below(child, f"{path} {name}")

    return list(below(cli, "hermes"))
