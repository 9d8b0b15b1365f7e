"""Conversations as a host keeps them: a list with durable ids, and what becomes of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from plugins.context_engine.lcm.database import FILE_NAME, connect
from plugins.context_engine.lcm.engine import LosslessContext
from plugins.context_engine.lcm.messages import HOST_KEYS
from tests.support.extractive_summariser import extractive_summary

Chat = dict[str, Any]
Summarize = Callable[[str, int], str | None]


class Host:
    """Keeps a list as Hermes does: what the engine changed or wrote gets a new id, the rest keeps its own."""

    def __init__(
        self,
        home: Path,
        window: int,
        *,
        conversation: str = "chat-1",
        person: str = "ada",
        summarize: Summarize = extractive_summary,
        options: dict[str, Any] | None = None,
        with_ids: bool = True,
    ) -> None:
        self.home = home
        self.conversation = conversation
        self.person = person
        self.with_ids = with_ids
        self.session = f"{conversation}-session-0"
        self.messages: list[Chat] = [{"role": "system", "content": "You are a helpful assistant."}]
        self.said: list[Chat] = []
        """Everything that was ever said, as it was."""
        self._made = {
            "context_length": window,
            "hermes_home": str(home),
            "summarize": summarize,
            "options": options,
        }
        self._numbers = 0
        self.restart()

    def restart(self) -> None:
        """A new engine, as after a restart of the process."""
        self.engine = LosslessContext(**self._made)
        self._begin()

    def say(self, *chats: Chat) -> None:
        for chat in chats:
            self.said.append(chat)
            self._append(chat)

    def look(self) -> None:
        """Before a model call."""
        assert self.engine.should_compress_preflight(self.messages) is False

    def compress(self, **arguments: Any) -> bool:
        """Whether anything changed. Then the conversation goes on in a child session."""
        before = list(self.messages)
        returned = self.engine.compress(self.messages, **arguments)
        assert self.messages == before, "the input was changed"
        if returned is self.messages or returned == self.messages:
            return False
        known = {chat["message_id"]: chat for chat in before if "message_id" in chat}
        self.messages = [self._taken_over(chat, known) for chat in returned]
        parent, self.session = self.session, f"{self.conversation}-session-{self._number()}"
        self._begin(parent_session_id=parent, boundary_reason="compression")
        return True

    def branch(self, messages: Sequence[Chat]) -> None:
        """The conversation goes on in another session, which holds these messages; another engine takes over."""
        self.engine.on_session_end(self.session, self.messages)
        self.messages = list(messages)
        self.session = f"{self.conversation}-session-{self._number()}"
        self.restart()

    def tool(self, name: str, **arguments: Any) -> str:
        return self.engine.handle_tool_call(name, arguments, messages=self.messages)

    def close(self) -> None:
        self.engine.on_session_end(self.session, self.messages)

    def _begin(self, **boundary: Any) -> None:
        self.engine.on_session_start(
            self.session,
            conversation_id=self.conversation,
            person=self.person,
            hermes_home=str(self.home),
            **boundary,
        )

    def _append(self, chat: Chat) -> None:
        self.messages.append({**chat, "message_id": f"msg_{self._number()}"} if self.with_ids else chat)

    def _taken_over(self, chat: Chat, known: dict[str, Chat]) -> Chat:
        if not self.with_ids or chat["role"] == "system" or chat == known.get(chat.get("message_id", "")):
            return chat
        return {**chat, "message_id": f"msg_{self._number()}"}

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers


def stored_in(home: Path, conversation: str = "chat-1") -> list[Chat]:
    """Return the messages of a conversation in the engine's database, in order."""
    from plugins.context_engine.lcm.messages import message_from_row

    with closing(sqlite3.connect(home / "hermes-lcm.db")) as plain:
        plain.row_factory = sqlite3.Row
        rows = plain.execute(
            "SELECT messages.* FROM messages JOIN conversations ON conversations.key = conversation "
            "WHERE conversations.id = ? ORDER BY seq",
            (conversation,),
        ).fetchall()
    return [plain_chat(message_from_row(row).chat) for row in rows]


def plain_chat(chat: Chat) -> Chat:
    """Without what the host adds, and without content that is not there."""
    return {key: value for key, value in chat.items() if key not in HOST_KEYS and value is not None}


def vectors_are_right(home: Path) -> int:
    """Each block holds what the model says about its messages. How many messages there are in all of them."""
    from plugins.context_engine.lcm.search.semantic import SemanticSearch, _texts

    model = SemanticSearch("auto").model()
    assert model
    with closing(connect(home / FILE_NAME)) as connection:
        rows = connection.execute("SELECT conversation, block, messages, vectors FROM meanings").fetchall()
        for conversation, block, messages, vectors in rows:
            texts = _texts(connection, conversation, block)[:messages]
            assert vectors == model.vectors(texts).tobytes()
    return sum(row["messages"] for row in rows)
