"""Which kind of file it is, and what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gateway.errors import ImportRefused
from gateway.importers import discord, hermes_agent, telegram
from gateway.importers.parsing import read_json
from gateway.store.import_types import ImportedConversation, Unreadable

_DATABASE = b"SQLite format 3\0"


class Source(NamedTuple):
    name: str
    conversations: Iterator[ImportedConversation | Unreadable]


def read_source(path: Path, *, person: str, assistant: str = "") -> Source:
    """`assistant` is whose messages count as the agent's, where the file does not say. Raises ImportRefused."""
    file = path / "result.json" if path.is_dir() else path
    if path.is_dir() and not file.exists():
        raise ImportRefused(f"{path} is a folder without a result.json; name the file that was exported.")
    try:
        with file.open("rb") as opened:
            is_database = opened.read(len(_DATABASE)) == _DATABASE
    except OSError as error:
        raise ImportRefused(f"{file} cannot be read: {error.strerror}.") from error
    # Before anything is stored: of a file that is no good, nothing is taken in. A database may be too large to be held.
    if is_database:
        hermes_agent.check(file)
        return Source("hermes-agent", hermes_agent.conversations(file, person=person))
    given = read_json(file)
    if discord.is_discord(given):
        return Source("Discord", iter([*discord.conversations(given, person=person, assistant=assistant)]))
    if telegram.is_telegram(given):
        return Source("Telegram", iter([*telegram.conversations(given, person=person, assistant=assistant)]))
    raise ImportRefused("it is JSON, but no export of Telegram Desktop or DiscordChatExporter.")
