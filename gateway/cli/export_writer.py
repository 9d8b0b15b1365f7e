"""Writes conversations to files, message by message, for `hermes export` and `hermes sessions export`.

Keys and passwords are redacted, because an exported file may be shared.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TypeVar

import click

from agent.aio import run_in_daemon_thread
from agent.messages import Message
from agent.redaction import keeping_secret, redact
from agent.store import Overview
from gateway.cli import Options, loaded_for
from gateway.cli.export_format import ConversationExport, Format, Html, Jsonl, Markdown
from gateway.cli.output import new_private_file
from gateway.cli.progress import show_progress
from gateway.cli.sessions_format import message_without_secrets
from gateway.config.secrets import all_secrets
from gateway.observability.logs import configure_logging
from gateway.progress import report
from gateway.store import open_store
from gateway.store.ports import Snapshot

T = TypeVar("T")

_WHAT = "Exporting messages"
_REPORT_EVERY = 100


@dataclass(frozen=True, slots=True)
class ExportOptions:
    style: str
    since: float = 0.0
    output: Path | None = None
    """A file, or a directory with one file per conversation; None is standard output."""
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    person: str | None = None
    platform: str | None = None
    since: float = 0.0


def export_one(options: Options, overview: Overview, export: ExportOptions) -> None:
    """Export the live session of a conversation with its ancestors; JSONL gets one line per message."""
    form = Jsonl(with_conversations=False) if export.style == "jsonl" else format_for(export.style)
    _with_snapshot(options, lambda snapshot: _write(snapshot, [overview], form, export))


def export_many(
    options: Options, selection: Selection, export: ExportOptions, only: Overview | None
) -> list[Overview]:
    """Return the conversations that were written."""

    def write(snapshot: Snapshot) -> list[Overview]:
        listed = snapshot.conversations(
            person=selection.person, platform=selection.platform, since=selection.since
        )
        if only is not None:
            listed = [each for each in listed if each.conversation.id == only.conversation.id]
        if listed:
            _write(snapshot, listed, format_for(export.style), export)
        return listed

    return _with_snapshot(options, write)


def format_for(style: str) -> Format:
    if style == "html":
        return Html()
    return Jsonl() if style == "jsonl" else Markdown()


def _with_snapshot(options: Options, work: Callable[[Snapshot], T]) -> T:
    """Run `work` on a thread, with the secrets of the configuration known, so that they are redacted."""
    configure_logging("error", "human")  # standard output is for the export
    loaded = loaded_for(options)

    async def main() -> T:
        async with open_store(loaded, read_only=True) as store:

            def run() -> T:
                with store.export.snapshot() as snapshot:
                    return work(snapshot)

            return await run_in_daemon_thread(run, "export")

    with keeping_secret(all_secrets(loaded)), show_progress():
        return asyncio.run(main())


def _write(snapshot: Snapshot, listed: Sequence[Overview], form: Format, export: ExportOptions) -> None:
    total = sum(overview.messages for overview in listed)
    count = _Count(total)
    if export.output is None:
        with _standard_output() as out:
            _write_together(snapshot, listed, form, export, out, count)
    elif export.output.is_dir():
        _write_apart(snapshot, listed, export, export.output, count)
    else:
        with new_private_file(export.output, overwrite=export.overwrite) as file:
            _write_together(snapshot, listed, form, export, file, count)
    report(_WHAT, 1, 1)


@contextmanager
def _standard_output() -> Iterator[IO[str]]:
    """Open standard output as UTF-8, whatever the locale."""
    try:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False) as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"Cannot write to standard output: {error.strerror}.") from error


def _write_together(
    snapshot: Snapshot,
    listed: Sequence[Overview],
    form: Format,
    export: ExportOptions,
    file: IO[str],
    count: _Count,
) -> None:
    file.write(form.begin(listed, apart=False))
    for overview in listed:
        file.writelines(form.conversation(_redacted(snapshot, overview, form, export, count)))
    file.write(form.end())


def _write_apart(
    snapshot: Snapshot, listed: Sequence[Overview], export: ExportOptions, directory: Path, count: _Count
) -> None:
    for overview in listed:
        form = format_for(export.style)
        path = directory / f"{overview.conversation.id}{form.suffix}"
        with new_private_file(path, overwrite=export.overwrite) as file:
            _write_together(snapshot, [overview], form, export, file, count)
    if export.style == "html" and len(listed) > 1:
        form = format_for(export.style)
        with new_private_file(directory / "index.html", overwrite=export.overwrite) as file:
            file.write(form.begin(listed, apart=True) + form.end())


def _redacted(
    snapshot: Snapshot, overview: Overview, form: Format, export: ExportOptions, count: _Count
) -> ConversationExport:
    sessions = [
        replace(session, system_prompt=session.system_prompt and redact(session.system_prompt))
        for session in snapshot.sessions(overview.conversation.id)
    ]
    messages = snapshot.messages(
        overview.conversation.id, since=export.since, every_session=form.every_session
    )
    return ConversationExport(
        overview, sessions, (count.count(message_without_secrets(each)) for each in messages)
    )


class _Count:
    """Counts written messages and reports progress."""

    def __init__(self, total: int) -> None:
        self._done, self._total = 0, total

    def count(self, message: Message) -> Message:
        self._done += 1
        if self._done % _REPORT_EVERY == 0:
            report(_WHAT, min(self._done, self._total - 1), self._total)
        return message
