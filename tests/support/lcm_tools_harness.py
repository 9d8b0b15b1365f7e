"""A filled store, without an engine: what was said, summaries over it, and a context that shows some of both."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.tokens import estimate_text_tokens
from plugins.context_engine.lcm import tools
from plugins.context_engine.lcm.database import FILE_NAME, Database
from plugins.context_engine.lcm.graph import Node, SummaryText, add_condensed, add_leaf
from plugins.context_engine.lcm.messages import (
    NewMessage,
    StoredMessage,
    add_messages,
    conversation_key,
    messages_between,
)
from plugins.context_engine.lcm.tools.tool import CallContext
from tests.support.lcm_expanded_pages import Original, originals

BEGAN = 1_770_000_000.0
WINDOW = 100_000


def summary(text: str, topics: str = "", level: Any = "detailed") -> SummaryText:
    return SummaryText(level, text, topics, estimate_text_tokens(text) + estimate_text_tokens(topics))


@dataclass
class LcmToolsHarness:
    """One person's conversations. The first is the one that tools are called from."""

    home: Path
    prompts: list[str] = field(default_factory=list)
    """Prompts to the auxiliary model."""
    reply: str | Exception = ""

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.database = Database(self.home / FILE_NAME)
        self.database.acquire()  # or each call would open the file again

    def close(self) -> None:
        self.database.release()

    def call_context(
        self, conversation: str = "here", person: str = "ada", session: str = "session", **more: Any
    ) -> CallContext:
        given = {"context_length": WINDOW, "threshold_tokens": 50_000, "last_prompt_tokens": 12_345} | more
        return CallContext(self.database, conversation, person, session, **given, ask=self._ask)

    def call(self, name: str, **args: Any) -> str:
        return tools.answer(name, args, self.call_context())

    def say(
        self, *chats: dict[str, Any], conversation: str = "here", person: str = "ada"
    ) -> list[StoredMessage]:
        """One message a minute."""
        with self.database.writing() as connection:
            key = conversation_key(connection, conversation, person=person, now=BEGAN)
            before = len(messages_between(connection, key, 1, 10**9))
            incoming = [
                NewMessage(f"id-{before + n}", chat, BEGAN + 60 * (before + n))
                for n, chat in enumerate(chats)
            ]
            add_messages(connection, key, incoming)
            return messages_between(connection, key, before + 1, before + len(chats))

    def leaf(self, messages: Sequence[StoredMessage], text: SummaryText, conversation: str = "here") -> Node:
        with self.database.writing() as connection:
            key = conversation_key(connection, conversation, person="", now=BEGAN)
            return add_leaf(connection, key, messages, text, BEGAN)

    def condensed(self, children: Sequence[Node], text: SummaryText, conversation: str = "here") -> Node:
        with self.database.writing() as connection:
            key = conversation_key(connection, conversation, person="", now=BEGAN)
            return add_condensed(connection, key, children, text, BEGAN)

    def show(
        self, *items: Node | StoredMessage, session: str = "session", conversation: str = "here"
    ) -> None:
        """This is the context of the session now."""
        with self.database.writing() as connection:
            key = conversation_key(connection, conversation, person="", now=BEGAN)
            made = connection.execute(
                "INSERT INTO sessions (conversation, id, seen_at) VALUES (?, ?, ?)", (key, session, BEGAN)
            )
            for position, item in enumerate(items):
                column = "summary" if isinstance(item, Node) else "message"
                connection.execute(
                    f"INSERT INTO context_items (session, position, {column}) VALUES (?, ?, ?)",
                    (made.lastrowid, position, item.key),
                )

    def sql(self, *statements: str) -> None:
        """Change the database without schema checks, as a damaged disk or a bug would."""
        with closing(sqlite3.connect(self.database.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            for trigger in ("messages_are_not_updated", "messages_are_not_deleted"):
                connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
            for statement in statements:
                connection.execute(statement)

    def pages(self, **args: Any) -> list[str]:
        """All pages of an expansion."""
        pages: list[str] = []
        while True:
            page = self.call("lcm_expand", **args, page=len(pages) + 1)
            pages.append(page)
            if "more with lcm_expand(" not in page.partition("\n")[0]:
                return pages

    def originals(self, **args: Any) -> dict[str, Original]:
        return originals(self.pages(**args))

    def _ask(self, prompt: str, max_tokens: int) -> str:
        self.prompts.append(prompt)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def user(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def assistant(text: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


@contextmanager
def opened(home: Path) -> Iterator[LcmToolsHarness]:
    harness = LcmToolsHarness(home)
    try:
        yield harness
    finally:
        harness.close()


def fill_history(harness: LcmToolsHarness) -> None:
    """Add twelve messages: eight below s3, which covers s1 and s2; two in the context; two undone."""
    said = harness.say(*(user(f"Question {n} about trains.") for n in range(1, 13)))
    first = harness.leaf(said[:4], summary("Asked about trains to Lisbon.", "trains, Lisbon"))
    second = harness.leaf(said[4:8], summary("Asked about more trains.", "timetables", "stand_in"))
    above = harness.condensed([first, second], summary("All about trains.", "all trains"))
    harness.show(above, *said[8:10])
