"""Imports conversations from files of other programs, one module per kind of file.

Imported conversations belong to the platform `import`, so that they never mix with live chats. Their ids are derived
from the original ids, so that a second import of a file adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gateway.errors import ImportRefused
from gateway.importers import chat_exports, hermes_agent
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
    for name, read in (("Discord", chat_exports.read_discord), ("Telegram", chat_exports.read_telegram)):
        if chats := read(given, assistant):
            imported = [chat.as_conversation(person) for chat in chats]
            return Source(name, iter([each for each in imported if each.messages]))
    raise ImportRefused("it is JSON, but not an export of Telegram Desktop or DiscordChatExporter.")
