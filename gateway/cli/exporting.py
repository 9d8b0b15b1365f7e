"""What `hermes export` and `hermes sessions export` have in common: from the store into files, message by message.

What looks like a key or a password is left out on the way: a file leaves the house.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import click

from agent.messages import Message
from agent.redaction import keeping_secret, redact
from agent.store import Overview
from gateway.cli import Options, loaded_for
from gateway.cli.export_format import Format, Jsonl, Markdown, Told
from gateway.cli.output import new_private_file
from gateway.cli.progress import progress_shown
from gateway.cli.sessions_format import message_without_secrets
from gateway.config.secrets import secrets_of
from gateway.observability.logs import configure_logging
from gateway.progress import tell
from gateway.store.sqlite.offline import Exporter

_WHAT = "Exporting messages"
_TOLD_EVERY = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    style: str
    since: float = 0.0
    output: Path | None = None
    """A file, or a directory in which each conversation has one; None is standard output."""
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    person: str | None = None
    platform: str | None = None
    since: float = 0.0


def export_one(options: Options, overview: Overview, wanted: Wanted) -> None:
    """As it stands: along the live session's ancestors, one line for each message where it is JSONL."""
    form = Jsonl(with_conversations=False) if wanted.style == "jsonl" else format_for(wanted.style)
    with _store(options) as store:
        _write(store, [overview], form, wanted)


def export_many(
    options: Options, selection: Selection, wanted: Wanted, only: Overview | None
) -> list[Overview]:
    """Those that were written."""
    with _store(options) as store:
        listed = store.conversations(
            person=selection.person, platform=selection.platform, since=selection.since
        )
        if only is not None:
            listed = [each for each in listed if each.conversation.id == only.conversation.id]
        if listed:
            _write(store, listed, format_for(wanted.style), wanted)
        return listed


def format_for(style: str) -> Format:
    if style == "html":
        from gateway.cli.export_html import Html  # noqa: PLC0415 - the renderer is needed only here

        return Html()
    return Jsonl() if style == "jsonl" else Markdown()


@contextmanager
def _store(options: Options) -> Iterator[Exporter]:
    """With all that the configuration keeps secret known, so that it is left out wherever somebody repeated it."""
    configure_logging("error", "human")  # standard output is for what was asked
    loaded = loaded_for(options)
    with (
        keeping_secret(secrets_of(loaded)),
        Exporter.open(loaded.database) as store,
        progress_shown(),
    ):
        yield store


def _write(store: Exporter, listed: Sequence[Overview], form: Format, wanted: Wanted) -> None:
    total = sum(overview.messages for overview in listed)
    count = _Count(total)
    if wanted.output is None:
        with _standard_output() as out:
            _write_together(store, listed, form, wanted, out, count)
    elif wanted.output.is_dir():
        _write_apart(store, listed, wanted, wanted.output, count)
    else:
        with new_private_file(wanted.output, overwrite=wanted.overwrite) as file:
            _write_together(store, listed, form, wanted, file, count)
    tell(_WHAT, 1, 1)


@contextmanager
def _standard_output() -> Iterator[IO[str]]:
    """In UTF-8, whatever the shell is set to: so it is with a file, and so the page says."""
    try:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False) as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"Standard output cannot be written: {error.strerror}.") from error


def _write_together(
    store: Exporter, listed: Sequence[Overview], form: Format, wanted: Wanted, file: IO[str], count: _Count
) -> None:
    file.write(form.begin(listed, apart=False))
    for overview in listed:
        file.writelines(form.conversation(_told(store, overview, form, wanted, count)))
    file.write(form.end())


def _write_apart(
    store: Exporter, listed: Sequence[Overview], wanted: Wanted, directory: Path, count: _Count
) -> None:
    for overview in listed:
        form = format_for(wanted.style)
        path = directory / f"{overview.conversation.id}{form.suffix}"
        with new_private_file(path, overwrite=wanted.overwrite) as file:
            _write_together(store, [overview], form, wanted, file, count)
    if wanted.style == "html" and len(listed) > 1:
        form = format_for(wanted.style)
        with new_private_file(directory / "index.html", overwrite=wanted.overwrite) as file:
            file.write(form.begin(listed, apart=True) + form.end())


def _told(store: Exporter, overview: Overview, form: Format, wanted: Wanted, count: _Count) -> Told:
    sessions = [
        replace(session, system_prompt=session.system_prompt and redact(session.system_prompt))
        for session in store.sessions(overview.conversation.id)
    ]
    messages = store.messages(overview.conversation.id, since=wanted.since, every_session=form.every_session)
    return Told(overview, sessions, (count.one_more(message_without_secrets(each)) for each in messages))


class _Count:
    """How many have been written so far."""

    def __init__(self, total: int) -> None:
        self._done, self._total = 0, total

    def one_more(self, message: Message) -> Message:
        self._done += 1
        if self._done % _TOLD_EVERY == 0:
            tell(_WHAT, min(self._done, self._total - 1), self._total)
        return message
