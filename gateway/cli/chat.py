"""`hermes chat`: chat in the terminal, or ask one question."""

from __future__ import annotations

import sys

import click

from gateway.cli import Options

_NO_QUESTION = "There is no question: pass one with -q or on standard input."
_NO_TERMINAL = 'The output is not a terminal; use `hermes chat -q "..."`.'


@click.command()
@click.option(
    "-q", "--query", metavar="TEXT", help="Ask this, print the answer and exit. `-` reads standard input."
)
@click.option(
    "--chat", "name", metavar="NAME", help="The chat to continue (default: main; with -q a new one)."
)
@click.option("--new", "new_session", is_flag=True, help="Start a new session; the old one stays searchable.")
@click.pass_obj
def chat(options: Options, query: str | None, name: str | None, new_session: bool) -> None:
    """Talk to the agent in this terminal, or ask once with -q.

    Text from a pipe is the question, or is appended to the question of -q:

    \b
      git diff | hermes chat -q "Write a commit message for this."
    """
    question = _question(query)
    from gateway.cli import chat_start  # noqa: PLC0415 - slow to import; not for `--help`

    if question is None:
        chat_start.run_chat(options.config_path, name, new_session=new_session)
    else:
        chat_start.run_single_question(options.config_path, name, question, new_session=new_session)


def _question(query: str | None) -> str | None:
    """Return the single question; None for an interactive chat."""
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if query is None and at_terminal:
        if not sys.stdout.isatty():
            raise click.UsageError(_NO_TERMINAL)
        return None
    given = "" if query in (None, "-") else query
    piped = "" if at_terminal and query != "-" else _read_stdin()
    question = "\n\n".join(text for text in (given, piped) if text)
    if not question.strip():
        raise click.UsageError(_NO_QUESTION)
    # An argument may contain invalid UTF-8, which cannot be stored.
    return question.encode(errors="replace").decode()


def _read_stdin() -> str:
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError:
        raise click.UsageError("Standard input is not UTF-8 text.") from None
