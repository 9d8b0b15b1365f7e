"""Files of other programs, as those programs write them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT, system_prompt TEXT,
    parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, title TEXT,
    FOREIGN KEY (parent_session_id) REFERENCES sessions (id)
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions (id), role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER,
    finish_reason TEXT, reasoning TEXT, active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX idx_messages_session ON messages (session_id, timestamp);
"""

BEGAN = 1_700_000_000.0


class AgentFile:
    """hermes-agent's `state.db`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as database:
            database.executescript(_SCHEMA)

    def session(
        self, name: str, *, parent: str | None = None, ended: str | None = None, config: str = "{}"
    ) -> None:
        self._run(
            "INSERT INTO sessions (id, source, model, model_config, parent_session_id, started_at, end_reason) "
            "VALUES (?, 'cli', 'openai/gpt-5', ?, ?, ? + (SELECT count(*) FROM sessions), ?)",
            (name, config, parent, BEGAN, ended),
        )

    def say(self, session: str, *messages: tuple[str, str], **columns: Any) -> None:
        """(role, content), a second apart."""
        names, values = ", ".join(["", *columns]), ", ".join(["", *"?" * len(columns)])
        for role, content in messages:
            self._run(
                f"INSERT INTO messages (session_id, role, content, timestamp{names}) "
                f"VALUES (?, ?, ?, ? + (SELECT count(*) FROM messages){values})",
                (session, role, content, BEGAN, *columns.values()),
            )

    def mark(self, contents: Iterable[str]) -> None:
        """As what was compacted in place."""
        for content in contents:
            self._run("UPDATE messages SET active = 0, compacted = 1 WHERE content = ?", (content,))

    def _run(self, statement: str, values: tuple[Any, ...]) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute(statement, values)


def agent_file(path: Path) -> AgentFile:
    """A talk that was compressed once, and a branch that was tried and left."""
    file = AgentFile(path)
    file.session("root", ended="compression")
    file.say("root", ("system", "You are helpful."), ("user", "Where do walruses live?"))
    calls = json.dumps([{"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}])
    file.say("root", ("assistant", ""), tool_calls=calls)
    file.say("root", ("tool", "In the Arctic."), tool_call_id="c1", tool_name="look_up")
    file.say("root", ("assistant", "In the Arctic."), ("user", "And penguins?"))
    file.session("child", parent="root")
    file.say(
        "child",
        ("user", "[CONTEXT COMPACTION — REFERENCE ONLY] They talked about walruses."),
        ("user", "And penguins?"),
        ("assistant", "In the Antarctic."),
    )
    file.session("aside", parent="root", config='{"_branched_from": "root"}')
    file.say("aside", ("user", "And penguins?"), ("assistant", "Mostly in zoos."))
    return file


def telegram_file(path: Path, *texts: Any, chat: dict[str, Any] | None = None) -> Path:
    """`result.json` of a chat with a bot in which the person and the bot take turns."""
    messages: list[dict[str, Any]] = [
        {
            "id": number,
            "type": "message",
            "date": "2023-11-14T22:13:20",
            "date_unixtime": str(1_700_000_000 + number),
            "from": "Helper" if number % 2 else "Ada",
            "from_id": "user99" if number % 2 else "user4711",
            "text": text,
        }
        for number, text in enumerate(texts)
    ]
    joined = {"id": 900, "type": "service", "date_unixtime": "1700000900", "action": "joined", "text": ""}
    about = {"name": "Helper", "type": "bot_chat", "id": 99, **(chat or {})}
    path.write_text(json.dumps({**about, "messages": [*messages, joined]}))
    return path


def discord_file(path: Path, *texts: str, kind: str = "DirectTextChat") -> Path:
    messages = [
        {
            "id": str(1000 + number),
            "type": "Default",
            "timestamp": f"2023-11-14T22:13:{20 + number}.5+00:00",
            "content": text,
            "author": {
                "id": str(number % 2),
                "name": "helper" if number % 2 else "ada",
                "isBot": bool(number % 2),
            },
            "attachments": [{"fileName": "notes.txt"}] if number == 0 else [],
        }
        for number, text in enumerate(texts)
    ]
    pinned = {**messages[0], "id": "2000", "type": "ChannelPinnedMessage"}
    channel = {"id": "77", "type": kind, "name": "general"}
    path.write_text(json.dumps({"guild": {"id": "0"}, "channel": channel, "messages": [*messages, pinned]}))
    return path
