"""Creates and rewrites summaries of the graph. Models are called between transactions, never inside one.

The same sources are never summarised twice, so an interrupted compaction costs nothing the next time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace

from .database import Database
from .graph import (
    Node,
    SummaryText,
    add_condensed,
    add_leaf,
    children_of,
    find_summary,
    has_fallbacks,
    messages_under,
    rewrite_summary,
    sources_key,
    summaries_by_key,
)
from .ingest import has_record_mark
from .messages import StoredMessage, messages_by_key
from .options import Limits
from .summarising import Summariser
from .truncated import digest_for_summary

Add = Callable[[sqlite3.Connection, SummaryText], Node]


class GraphBuilder:
    """Creates the summaries of one conversation during a compaction."""

    def __init__(
        self,
        database: Database,
        conversation: int,
        summariser: Summariser,
        limits: Limits,
        *,
        focus: str | None,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._conversation = conversation
        self._summariser = summariser
        self._limits = limits
        self._focus = focus
        """A topic. Summaries that were written without it are written again."""
        self._clock = clock
        self.written = 0
        """Summaries written or rewritten."""

    def nodes(self, keys: Sequence[int]) -> list[Node]:
        """Load nodes in this order, each once."""
        with self._database.reading() as connection:
            found = summaries_by_key(connection, keys)
        return [found[key] for key in dict.fromkeys(keys)]

    def leaf(self, keys: Sequence[int], foreign: frozenset[int]) -> Node:
        """Summarise messages; `foreign` are the keys of other engines' summaries among them."""
        with self._database.reading() as connection:
            found = messages_by_key(connection, keys)
        messages = [found[key] for key in keys]
        return self._find_or_write(
            sources_key("messages", keys),
            lambda: self._leaf_text(messages, foreign),
            lambda connection, text: add_leaf(connection, self._conversation, messages, text, self._clock()),
        )

    def condensed(self, children: Sequence[Node]) -> Node:
        return self._find_or_write(
            sources_key("summaries", [child.key for child in children]),
            lambda: self._condensed_text(children),
            lambda connection, text: add_condensed(
                connection, self._conversation, children, text, self._clock()
            ),
        )

    def retry_fallbacks(self, nodes: Sequence[Node]) -> list[Node]:
        """Replace fallback summaries, also below these nodes, as far as a model answers."""
        with self._database.reading() as connection:
            if not has_fallbacks(connection, self._conversation):
                return list(nodes)
        return [self._redone(node) for node in nodes]

    def _redone(self, node: Node) -> Node:
        with self._database.reading() as connection:
            children = children_of(connection, node.key)
        better = [self._redone(child) for child in children]
        if not node.can_be_retried and better == children:
            return node
        return self._rewritten(
            node, self._condensed_text(better) if better else self._rewrite_leaf_text(node)
        )

    def _rewritten(self, node: Node, text: SummaryText) -> Node:
        # A fallback does not replace a summary. An unreachable model does not count as an attempt.
        if text.level == "stand_in" and (not node.is_fallback or self._summariser.is_unreachable):
            return node
        with self._database.writing() as connection:
            node = rewrite_summary(connection, node, text)
        self.written += not node.is_fallback
        return node

    def _find_or_write(self, sources: str, write: Callable[[], SummaryText], add: Add) -> Node:
        """Reuse an existing summary unless it is a fallback or a focus is given."""
        with self._database.reading() as connection:
            known = find_summary(connection, self._conversation, sources)
        if known and not known.is_fallback and not self._focus:
            return known
        text = write()
        with self._database.writing() as connection:
            known = find_summary(connection, self._conversation, sources)
            self.written += 1
            return rewrite_summary(connection, known, text) if known else add(connection, text)

    def _leaf_text(self, messages: Sequence[StoredMessage], foreign: frozenset[int]) -> SummaryText:
        target = self._limits.leaf_target(sum(message.tokens for message in messages))
        read = [digest_for_summary(message, self._limits.large) for message in messages]
        read = [_label_as_summary(message) if message.key in foreign else message for message in read]
        return self._summariser.leaf(read, target=target, focus=self._focus)

    def _rewrite_leaf_text(self, leaf: Node) -> SummaryText:
        with self._database.reading() as connection:
            messages = messages_under(connection, leaf.key)
        foreign = frozenset(message.key for message in messages if has_record_mark(message.chat))
        return self._leaf_text(messages, foreign)

    def _condensed_text(self, children: Sequence[Node]) -> SummaryText:
        target = self._limits.condensed_target(sum(child.tokens for child in children))
        return self._summariser.condensed(children, target=target, focus=self._focus)


def _label_as_summary(message: StoredMessage) -> StoredMessage:
    """Label another engine's summary, so that the summariser does not take it for a wish of the user."""
    return replace(message, role="summary", chat={**message.chat, "role": "summary"})
