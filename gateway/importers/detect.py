"""Detects the format of a file and reads its conversations."""

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
    """Read a file. `assistant` names the author of the agent's messages if the file does not. Raises ImportRefused."""
    file = path / "result.json" if path.is_dir() else path
    if path.is_dir() and not file.exists():
        raise ImportRefused(f"{path} is a folder without a result.json; name the file that was exported.")
    try:
        with file.open("rb") as opened:
            is_database = opened.read(len(_DATABASE)) == _DATABASE
    except OSError as error:
        raise ImportRefused(f"{file} cannot be read: {error.strerror}.") from error
    # Read JSON files completely first, so that a bad file imports nothing. A database may be too large for that.
    if is_database:
        hermes_agent.check(file)
        return Source("hermes-agent", hermes_agent.conversations(file, person=person))
    given = read_json(file)
    if discord.is_discord(given):
        return Source("Discord", iter([*discord.conversations(given, person=person, assistant=assistant)]))
    if telegram.is_telegram(given):
        return Source("Telegram", iter([*telegram.conversations(given, person=person, assistant=assistant)]))
    raise ImportRefused("it is JSON, but not an export of Telegram Desktop or DiscordChatExporter.")
