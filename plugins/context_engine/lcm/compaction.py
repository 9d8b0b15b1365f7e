"""One compaction: old messages become leaves of the graph, leaves are condensed, the tail and pinned messages stay.

Models are called between transactions, never inside one. The same sources are never summarised twice, so an interrupted
compaction costs nothing the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from sqlite3 import Connection

from agent.compression.ledger import Ledger, without_ledger_marks
from agent.compression.ledger_entries import find_entries, vocabulary_of
from agent.compression.summary_message import between, ledger_of, ledger_state
from agent.messages import CREATED_AT, ChatDict, repair
from agent.redaction import redact_message, rules_that_may_fire
from agent.tokens import estimate_messages_tokens_rough

from .database import Database
from .formatting import format_period, pluralize
from .graph import (
    FALLBACK,
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
from .ingest import (
    RECORD,
    STORED_KINDS,
    EngineText,
    ParsedContext,
    has_record_mark,
    save_engine_text,
)
from .kept_messages import (
    Group,
    KeptMessages,
    digest_for_summary,
    first_chunk_size,
    groups_before_tail,
    pinned_keys,
    tokens_of,
)
from .messages import StoredMessage, messages_by_key
from .options import Limits
from .summarising import Summariser

_MIN_CHUNK_TOKENS = 120
"""A summary of fewer tokens would hardly be smaller, with its heading."""
_HEADING_TOKENS = 45
"""Tokens of a summary's heading and of its line about `lcm_expand`."""
_INTRODUCTION_TOKENS = 120
"""Tokens of the record's introduction and of a bridge message."""
_MAX_THRESHOLD_SHARE = 0.8
"""Share of the threshold that a compacted context should stay below."""
_MAX_WINDOW_SHARE = 0.75
"""Share of the window that protected messages may fill. The rest is for the answer and for wrong estimates."""
_RETRY_ONLY_SHARE = 0.75
"""Below this share of the threshold only fallback summaries are retried."""


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
        text = self._condensed_text(better) if better else self._rewrite_leaf_text(node)
        # A fallback does not replace a summary. An unreachable model does not count as an attempt.
        if text.level == FALLBACK and (not node.is_fallback or self._summariser.is_unreachable):
            return node
        with self._database.writing() as connection:
            node = rewrite_summary(connection, node, text)
        self.written += not node.is_fallback
        return node

    def _find_or_write(
        self, sources: str, write: Callable[[], SummaryText], add: Callable[[Connection, SummaryText], Node]
    ) -> Node:
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
        # Without this label the summariser would take another engine's summary for a wish of the user.
        labelled = [
            replace(message, role="summary", chat={**message.chat, "role": "summary"})
            if message.key in foreign
            else message
            for message in read
        ]
        return self._summariser.leaf(labelled, target=target, focus=self._focus)

    def _rewrite_leaf_text(self, leaf: Node) -> SummaryText:
        with self._database.reading() as connection:
            messages = messages_under(connection, leaf.key)
        foreign = frozenset(message.key for message in messages if has_record_mark(message.chat))
        return self._leaf_text(messages, foreign)

    def _condensed_text(self, children: Sequence[Node]) -> SummaryText:
        target = self._limits.condensed_target(sum(child.tokens for child in children))
        return self._summariser.condensed(children, target=target, focus=self._focus)


@dataclass(frozen=True, slots=True)
class CompactionResult:
    messages: list[ChatDict]
    changed: bool
    has_fallback: bool
    summarised: int
    """Summaries that were written or rewritten."""
    copied: int


class Compaction:
    def __init__(
        self, database: Database, reading: ParsedContext, limits: Limits, graph: GraphBuilder
    ) -> None:
        self._database = database
        self._reading = reading
        self._limits = limits
        self._graph = graph
        self._system = [item for item in reading.items if item.kind == "system"]
        reserved = limits.beside + limits.summaries + limits.ledger + _INTRODUCTION_TOKENS
        self._pinned = pinned_keys(reading.items, int(limits.window * _MAX_WINDOW_SHARE) - reserved)
        kept = (item for item in reading.items if item.kind in STORED_KINDS)
        self._kept = KeptMessages(database, reading.conversation, kept, self._pinned)
        self._nodes = graph.nodes(reading.summaries)
        self._left: list[int] = []
        """Keys of the messages that leave the context now."""

    def run(self, *, forced: bool) -> CompactionResult:
        """Compact the context; `forced` summarises everything outside the tail. Raises AuthenticationFailed and
        QuotaExhausted."""
        before = self._nodes
        self._nodes = self._graph.retry_fallbacks(before)
        at_leisure = self._nodes != before and self._total() < self._limits.threshold * _RETRY_ONLY_SHARE
        if forced or not at_leisure:
            self._kept.copy_large(self._limits)
            self._make_leaves(self._limits.tail, forced=forced)
            if self._total() > self._limits.threshold:
                self._make_leaves(0, forced=True)
            while run := self._run_of(self._limits.fan_in, waits=True) or self._run_to_save_room():
                start, end = run
                self._nodes[start:end] = [self._graph.condensed(self._nodes[start:end])]
        ledger = self._ledger()
        self._fit(ledger)
        changed = bool(self._left or self._kept.copied or self._nodes != before)
        return CompactionResult(
            self._assemble(ledger),
            changed,
            has_fallback=any(node.is_fallback for node in self._nodes),
            summarised=self._graph.written,
            copied=len(self._kept.copied),
        )

    def _make_leaves(self, tail: int, *, forced: bool) -> None:
        older = groups_before_tail(self._kept.items, tail, self._limits.tail_messages, self._pinned)
        while older and (forced or self._total() > self._limits.goal):
            count = first_chunk_size(older, self._limits.chunk)
            chunk, older = older[:count], older[count:]
            if not self._is_worth_a_leaf(chunk, forced=forced, is_full=bool(older)):
                break
            items = [item for group in chunk for item in group]
            keys = list(dict.fromkeys(item.message for item in items))
            foreign = frozenset(item.message for item in items if item.kind == "foreign record")
            self._nodes.append(self._graph.leaf(keys, foreign))
            self._left += keys
            self._kept.remove(items)

    def _is_worth_a_leaf(self, chunk: Sequence[Group], *, forced: bool, is_full: bool) -> bool:
        """Whether a chunk is large enough: enough messages, or enough tokens to fill a leaf."""
        if sum(map(tokens_of, chunk)) < _MIN_CHUNK_TOKENS:
            return False
        urgent = forced or self._total() > self._limits.threshold
        return urgent or is_full or sum(map(len, chunk)) >= self._limits.chunk_messages

    def _run_of(self, least: int, *, waits: bool) -> tuple[int, int] | None:
        """Find the oldest neighbours of the least depth that has enough of them. Fallback summaries wait for a
        retry."""
        for depth in sorted({node.depth for node in self._nodes}):
            start = 0
            for index, node in enumerate(self._nodes):
                if node.depth != depth or (waits and node.is_fallback):
                    start = index + 1
                elif index + 1 - start >= least:
                    return start, index + 1
        return None

    def _run_to_save_room(self) -> tuple[int, int] | None:
        """Prefer neighbours of equal depth: otherwise the oldest summary would be rewritten again and again."""
        if len(self._nodes) < 2 or sum(node.tokens for node in self._nodes) <= self._limits.summaries:
            return None
        return self._run_of(2, waits=False) or (0, 2)

    def _fit(self, ledger: Ledger) -> None:
        record = [{"role": "user", "content": record_text(self._nodes, ledger)}]
        beside = self._limits.beside + estimate_messages_tokens_rough(record)
        usual = int(self._limits.threshold * _MAX_THRESHOLD_SHARE)
        most = max(usual, int(self._limits.window * _MAX_WINDOW_SHARE))
        self._kept.fit(usual - beside, most - beside)

    def _assemble(self, ledger: Ledger) -> list[ChatDict]:
        head, rest = [item.chat for item in self._system], list(self._kept_with_hint())
        if not self._nodes and ledger == Ledger():
            return repair([*head, *rest])
        text = record_text(self._nodes, ledger)
        what = EngineText("record", tuple(node.key for node in self._nodes))
        with self._database.writing() as connection:
            save_engine_text(connection, self._reading.conversation, text, what)
        return repair([*head, *between(head, text, rest, state=ledger_state(ledger)), *rest])

    def _kept_with_hint(self) -> Iterable[ChatDict]:
        """Yield the kept messages, with the hint after the newest request."""
        request, items = self._kept.newest_request(), self._reading.items
        for item in self._kept.items:
            yield item.chat
            if item is request:
                index = next(i for i, each in enumerate(items) if each.message == item.message)
                yield from (each.chat for each in items[index + 1 : index + 2] if each.kind == "hint")

    def _total(self) -> int:
        return (
            self._limits.beside
            + self._kept.tokens
            + sum(node.tokens + _HEADING_TOKENS for node in self._nodes)
            + (_INTRODUCTION_TOKENS + self._limits.ledger if self._nodes else 0)
        )

    def _ledger(self) -> Ledger:
        """Extend the ledger of earlier compactions by the entries of the messages that leave now."""
        ledger = Ledger()
        for item in self._reading.items:
            if item.kind in ("record", "foreign record"):
                ledger = ledger.extended(ledger_of(item.chat))
        foreign = {item.message for item in self._reading.items if item.kind == "foreign record"}
        keys = [key for key in dict.fromkeys([*self._left, *self._kept.copied]) if key not in foreign]
        with self._database.reading() as connection:
            found = messages_by_key(connection, keys)
        said = [self._ledger_text(found[key]) for key in keys]
        wording = vocabulary_of(said, said)
        if rules := rules_that_may_fire(wording.words()):
            said = [redact_message(chat, rules) for chat in said]
            wording = vocabulary_of(said, said)
        entries = find_entries(said, wording, earlier=ledger, earlier_summary="")
        return ledger.extended(entries, just_said=True).bounded(self._limits.ledger)

    def _ledger_text(self, message: StoredMessage) -> ChatDict:
        """Search user messages in full for rules; of large results, only the digest."""
        if message.role != "user":
            message = digest_for_summary(message, self._limits.large)
        return {**message.chat, CREATED_AT: message.said_at}


_INTRODUCTION = (
    f"{RECORD} Earlier turns were compacted into the summaries below, oldest first. They are history, not "
    "requests: what they call done is done. Nothing is lost: `lcm_expand` gives the original messages behind an id, "
    "`lcm_grep` searches all of them. Look there before you say that you do not know, and answer the newest message "
    "of the user."
)


def record_text(nodes: Sequence[Node], ledger: Ledger) -> str:
    return "\n\n".join(filter(None, (_INTRODUCTION, *map(_node_section, nodes), ledger.render())))


def _node_section(node: Node) -> str:
    """Put a heading like `s12 · m1-m48 · 48 messages · 2026-03-01 10:02 - 11:30 UTC` above the summary."""
    what = f"m{node.first_seq}" + (f"-m{node.last_seq}" if node.last_seq > node.first_seq else "")
    count = pluralize(node.message_count, "message")
    heading = " · ".join((node.id, what, count, format_period(node.earliest, node.latest)))
    note = " · an extract with gaps, no summary could be written yet" if node.is_fallback else ""
    about = f" for details about: {node.topics}" if node.topics else ""
    content = without_ledger_marks(node.content).strip()
    return f"[{heading}{note}]\n{content}\n(lcm_expand {node.id}{about})"
