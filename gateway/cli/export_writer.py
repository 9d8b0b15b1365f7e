"""Writes conversations to files, message by message, for `hermes export` and `hermes sessions export`.

Keys and passwords are redacted, because an exported file may be shared.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TypeVar

import click

from agent.aio import run_in_daemon_thread
from agent.messages import Message
from agent.redaction import keeping_secret
from agent.store import Overview
from gateway.cli import Options, load_config
from gateway.cli.output import local_time, new_private_file, show_progress
from gateway.cli.sessions_format import Record, about, entries, title
from gateway.config.secrets import all_secrets
from gateway.progress import report
from gateway.store import open_store
from gateway.store.ports import Snapshot
from gateway.text.display import pluralize

T = TypeVar("T")

_SUFFIXES = {"jsonl": ".jsonl", "markdown": ".md", "html": ".html"}
_WHAT = "Exporting messages"
_REPORT_EVERY = 100


@dataclass(frozen=True, slots=True)
class ExportOptions:
    style: str
    since: float = 0.0
    output: Path | None = None
    """A file, or a directory with one file per conversation; None is standard output."""
    overwrite: bool = False
    whole: bool = True
    """Whether JSONL includes abandoned branches and a line about each conversation and its sessions."""


def export_one(options: Options, overview: Overview, export: ExportOptions) -> None:
    """Export the live session of a conversation with its ancestors."""
    _with_snapshot(options, lambda snapshot: _Writer(snapshot, [overview], export).write())


def export_many(
    options: Options, person: str | None, platform: str | None, export: ExportOptions, only: Overview | None
) -> list[Overview]:
    """Return the conversations that were written."""

    def write(snapshot: Snapshot) -> list[Overview]:
        listed = snapshot.conversations(person=person, platform=platform, since=export.since)
        if only is not None:
            listed = [each for each in listed if each.conversation.id == only.conversation.id]
        if listed:
            _Writer(snapshot, listed, export).write()
        return listed

    return _with_snapshot(options, write)


def _with_snapshot(options: Options, work: Callable[[Snapshot], T]) -> T:
    """Run `work` on a thread, with the secrets of the configuration known, so that they are redacted."""
    loaded = load_config(options, log_level="error")

    async def main() -> T:
        async with open_store(loaded, read_only=True) as store:

            def run() -> T:
                with store.export.snapshot() as snapshot:
                    return work(snapshot)

            return await run_in_daemon_thread(run, "export")

    with keeping_secret(all_secrets(loaded)), show_progress():
        return asyncio.run(main())


class _Writer:
    def __init__(self, snapshot: Snapshot, listed: Sequence[Overview], export: ExportOptions) -> None:
        self._snapshot = snapshot
        self._listed = listed
        self._export = export
        self._written = 0
        self._total = sum(overview.messages for overview in listed)

    def write(self) -> None:
        output = self._export.output
        if output is None:
            with _standard_output() as out:
                out.writelines(self._text(self._listed))
        elif output.is_dir():
            self._write_apart(output)
        else:
            self._write_file(output, self._text(self._listed))
        report(_WHAT, 1, 1)

    def _write_apart(self, directory: Path) -> None:
        for each in self._listed:
            name = f"{each.conversation.id}{_SUFFIXES[self._export.style]}"
            self._write_file(directory / name, self._text([each]))
        if self._export.style == "html" and len(self._listed) > 1:
            self._write_file(directory / "index.html", html(self._listed, (), apart=True))

    def _write_file(self, path: Path, text: Iterable[str]) -> None:
        with new_private_file(path, overwrite=self._export.overwrite) as file:
            file.writelines(text)

    def _text(self, listed: Sequence[Overview]) -> Iterator[str]:
        records = map(self._record, listed)
        if self._export.style == "jsonl":
            return jsonl(records, whole=self._export.whole)
        return html(listed, records) if self._export.style == "html" else markdown(records)

    def _record(self, overview: Overview) -> Record:
        conversation_id, export = overview.conversation.id, self._export
        every_session = export.style == "jsonl" and export.whole
        messages = self._snapshot.messages(conversation_id, since=export.since, every_session=every_session)
        return Record.redacted(overview, self._snapshot.sessions(conversation_id), map(self._count, messages))

    def _count(self, message: Message) -> Message:
        self._written += 1
        if self._written % _REPORT_EVERY == 0:
            report(_WHAT, min(self._written, self._total - 1), self._total)
        return message


@contextmanager
def _standard_output() -> Iterator[IO[str]]:
    """Open standard output as UTF-8 in every locale."""
    try:
        with open(sys.stdout.fileno(), "w", encoding="utf-8", closefd=False) as out:
            yield out
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"Cannot write to standard output: {error.strerror}.") from error


# -- formats -------------------------------------------------------------------------------------------------


def jsonl(records: Iterable[Record], *, whole: bool) -> Iterator[str]:
    """Yield a line per message with all its fields; with `whole`, a line about each conversation before them."""
    for record in records:
        if whole:
            sessions = [asdict(session) for session in record.sessions]
            yield _line({"conversation": asdict(record.overview.conversation), "sessions": sessions})
        for message in record.messages:
            yield _line(asdict(message))


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def markdown(records: Iterable[Record]) -> Iterator[str]:
    between = ""
    for record in records:
        yield f"{between}# {title(record.overview)}\n\n{about(record.overview)}\n"
        between = "\n"
        for entry in entries(record):
            if isinstance(entry, str):
                yield f"\n---\n\n*{entry}*\n"
                continue
            yield f"\n**{entry.who}** · {entry.when}\n"
            if entry.text:
                yield f"\n{entry.text}\n"
            if entry.calls:
                yield "\n" + "".join(f"- `{call}`\n" for call in entry.calls)


def html(listed: Sequence[Overview], records: Iterable[Record], *, apart: bool = False) -> Iterator[str]:
    """Yield one page with a list of conversations; with `apart`, each of them has its own page.

    The template escapes all text. Answers of the model go through the Markdown renderer of the chat page, which lets no
    markup through; a content security policy forbids the rest.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - only for HTML

    from gateway.platforms.web.markdown import render_markdown  # noqa: PLC0415 - only for HTML

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    template = environment.from_string(Path(__file__).with_name("export.html").read_text(encoding="utf-8"))
    return template.generate(
        title=title(listed[0]) if len(listed) == 1 else f"{len(listed)} conversations",
        listed=listed,
        records=records,
        link=("{}.html" if apart else "#{}").format,
        title_of=title,
        about=about,
        entries=entries,
        local_time=local_time,
        pluralize=pluralize,
        render_markdown=render_markdown,
    )
