"""`hermes chat`: the agent in this terminal, or one question from the command line or a pipe."""

from __future__ import annotations

import sys

import click

from gateway.cli import Options

_NOTHING_ASKED = "There is nothing to ask: give a question with -q, or text on standard input."
_NO_TERMINAL = 'The output is not a terminal; ask with `hermes chat -q "..."`.'


@click.command()
@click.option(
    "-q", "--query", metavar="TEXT", help="Ask this, print the answer and leave. `-` reads it from a pipe."
)
@click.option("--chat", "name", metavar="NAME", help="The chat to go on with (main; with -q a fresh one).")
@click.option("--new", "new_session", is_flag=True, help="Begin a new session; the old one stays searchable.")
@click.pass_obj
def chat(options: Options, query: str | None, name: str | None, new_session: bool) -> None:
    """Talk to the agent in this terminal, or ask one question with -q.

    What comes through a pipe is the question, or stands below the one given with -q:

    \b
      git diff | hermes chat -q "Write a commit message for this."
    """
    question = _question(query)
    from gateway.cli import chat_start  # noqa: PLC0415 - heavy, and neither help nor a mistake needs it

    if question is None:
        chat_start.converse(options.config_path, name, new_session=new_session)
    else:
        chat_start.ask_once(options.config_path, name, question, new_session=new_session)


def _question(query: str | None) -> str | None:
    """What is asked at once; None where the person wants a conversation."""
    at_terminal = sys.stdin is not None and sys.stdin.isatty()
    if query is None and at_terminal:
        if not sys.stdout.isatty():
            raise click.UsageError(_NO_TERMINAL)
        return None
    given = "" if query in (None, "-") else query
    piped = "" if at_terminal and query != "-" else _read_stdin()
    question = "\n\n".join(text for text in (given, piped) if text)
    if not question.strip():
        raise click.UsageError(_NOTHING_ASKED)
    # An argument may hold bytes that are no UTF-8; what is stored is text.
    return question.encode(errors="replace").decode()


def _read_stdin() -> str:
    if sys.stdin is None:
        return ""
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError:
        raise click.UsageError("Standard input is not UTF-8 text.") from None
