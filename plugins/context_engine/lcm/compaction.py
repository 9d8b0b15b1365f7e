"""One compaction: the oldest messages become leaves of the graph, leaves are condensed, the rest stays as it was.

Models are asked between transactions, never inside one. Whatever is done is kept: the same sources are never
summarised twice, so a compaction that is cut off or not used costs nothing the next time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent.chat_text import text_of
from agent.compression.artifacts import changes_something
from agent.compression.bounding import fair_cap
from agent.compression.ledger import Ledger, split_ledger
from agent.compression.summary_message import between
from agent.compression.wording import find_entries, wording_of
from agent.messages import ChatDict
from agent.redaction import redact_message, rules_that_may_fire
from agent.tokens import estimate_messages_tokens_rough
from agent.tool_pairs import repair

from .copies import SMALLEST, for_summary, with_copy
from .database import Database
from .limits import Limits
from .messages import Stored, messages_by_key
from .reading import Item, Reading
from .record import record_text
from .summaries import (
    Node,
    Written,
    add_condensed,
    add_leaf,
    children_of,
    find_summary,
    messages_under,
    rewrite,
    sources_key,
    summaries_by_key,
)
from .summarising import Summariser
from .tail import Group, first_chunk, parted, tokens_of
from .written import remember_copy, remember_record

MOST_ATTEMPTS = 20
"""So often a summary is tried in place of a stand-in. Some things cannot be said in fewer words."""
_SMALLEST_CHUNK = 120
"""Tokens. A summary of less would hardly be smaller, with its heading."""
_BESIDE_A_SUMMARY = 45
"""Tokens of its heading and of the line that says how to expand it."""
_BESIDE_ALL_SUMMARIES = 120
"""Tokens of the introduction and of a bridge."""
_FITTING = 0.8
"""The share of the threshold that a context must not exceed when all else is done."""


@dataclass(frozen=True, slots=True)
class Outcome:
    messages: list[ChatDict]
    nodes: list[Node]
    summarised: int
    """Summaries that were written, anew or again."""
    copied: int
    """Messages that left the context for a digest."""

    @property
    def has_stand_in(self) -> bool:
        return any(node.is_stand_in for node in self.nodes)


class Compaction:
    """Works on one reading of a conversation."""

    def __init__(
        self,
        database: Database,
        reading: Reading,
        limits: Limits,
        summariser: Summariser,
        *,
        overhead: int,
        focus: str | None,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._reading = reading
        self._limits = limits
        self._summariser = summariser
        self._overhead = overhead
        """What goes with every request beside the messages."""
        self._focus = focus
        """A topic. What was summarised without it, and not shown since, is summarised again."""
        self._clock = clock
        self._system = [item for item in reading.items if item.kind == "system"]
        self._kept = [item for item in reading.items if item.kind == "said"]
        self._nodes = self._shown()
        self._left: list[int] = []
        """Keys of the messages that leave the context now."""
        self._summarised = 0
        self._copied = 0

    def run(self, *, forced: bool) -> Outcome:
        """`forced` takes everything outside the tail. Raises AuthenticationFailed and QuotaExhausted."""
        self._redo_stand_ins()
        self._leave_large_ones()
        self._make_leaves(forced=forced)
        self._condense()
        ledger = self._ledger()
        self._fit(record_text(self._nodes, ledger) if self._nodes else "")
        return Outcome(self._assembled(ledger), self._nodes, self._summarised, self._copied)

    # The steps

    def _redo_stand_ins(self) -> None:
        self._nodes = [self._redone(node) for node in self._nodes]

    def _redone(self, node: Node) -> Node:
        """A summary in place of a stand-in, and first of the stand-ins beneath it: else it would build on gaps."""
        if not node.is_stand_in or node.attempts >= MOST_ATTEMPTS:
            return node
        with self._database.reading() as connection:
            children = children_of(connection, node.key)
            messages = [] if children else messages_under(connection, node.key)
        children = [self._redone(child) for child in children]
        text = self._condensed_text(children) if children else self._leaf_text(messages)
        with self._database.writing() as connection:
            node = rewrite(connection, node, text)
        self._summarised += not node.is_stand_in
        return node

    def _leave_large_ones(self) -> None:
        """Not those of the last group, which is being worked on, and not the newest request."""
        at_work = {item.message for item in self._last_group()} | {self._newest_request()}
        large = [
            index
            for index, item in enumerate(self._kept)
            if item.tokens > self._limits.large and item.message not in at_work
        ]
        self._copy(large, self._limits.digest)

    def _make_leaves(self, *, forced: bool) -> None:
        older = parted(self._kept, self._limits).older
        while older and (forced or self._total() > self._limits.goal):
            count = first_chunk(older, self._limits)
            chunk, older = older[:count], older[count:]
            if not self._is_worth_a_leaf(chunk, forced=forced, is_full=bool(older)):
                break
            self._nodes.append(self._leaf([item for group in chunk for item in group]))

    def _condense(self) -> None:
        """By fan-in among those of one depth; beyond the room for summaries, whatever stands side by side."""
        while run := self._run_of_one_depth() or self._run_for_room():
            start, end = run
            self._nodes[start:end] = [self._condensed(self._nodes[start:end])]

    def _fit(self, record: str) -> None:
        """A context that is still too large is made to fit: messages make way for digests, the newest request last."""
        room = int(self._limits.threshold * _FITTING) - self._overhead - self._beside_kept(record)
        newest = self._newest_request()
        others = [index for index, item in enumerate(self._kept) if item.message != newest]
        asked = [index for index, item in enumerate(self._kept) if item.message == newest]
        for indices in (others, asked):
            sizes = [self._kept[index].tokens for index in indices]
            room_here = room - sum(item.tokens for item in self._kept) + sum(sizes)
            if sizes and sum(sizes) > room_here:
                cap = fair_cap(sizes, room_here, SMALLEST)
                self._copy([index for index in indices if self._kept[index].tokens > cap], cap)

    def _assembled(self, ledger: Ledger) -> list[ChatDict]:
        head = [item.chat for item in self._system]
        rest = [item.chat for item in self._kept]
        own: list[ChatDict] = []
        if self._nodes:
            text = record_text(self._nodes, ledger)
            own = between(head, text, rest)
            with self._database.writing() as connection:
                keys = [node.key for node in self._nodes]
                remember_record(connection, self._reading.conversation, text, keys)
        return repair([*head, *own, *rest])

    # Leaves and condensed nodes

    def _leaf(self, items: Sequence[Item]) -> Node:
        keys = list(dict.fromkeys(item.message for item in items))
        with self._database.reading() as connection:
            found = messages_by_key(connection, keys)
            known = find_summary(connection, self._reading.conversation, sources_key("messages", keys))
        if known is None or known.is_stand_in or self._focus:
            messages = [found[key] for key in keys]
            text = self._leaf_text(messages)
            with self._database.writing() as connection:
                known = _kept_or_made(
                    connection,
                    self._reading.conversation,
                    sources_key("messages", keys),
                    lambda: add_leaf(connection, self._reading.conversation, messages, text, self._clock()),
                    text,
                    again=bool(self._focus),
                )
            self._summarised += 1
        self._left += keys
        leaving = set(keys)
        self._kept = [item for item in self._kept if item.message not in leaving]
        return known

    def _condensed(self, children: Sequence[Node]) -> Node:
        keys = [child.key for child in children]
        sources = sources_key("summaries", keys)
        with self._database.reading() as connection:
            known = find_summary(connection, self._reading.conversation, sources)
        if known is None or known.is_stand_in or self._focus:
            text = self._condensed_text(children)
            with self._database.writing() as connection:
                known = _kept_or_made(
                    connection,
                    self._reading.conversation,
                    sources,
                    lambda: add_condensed(
                        connection, self._reading.conversation, children, text, self._clock()
                    ),
                    text,
                    again=bool(self._focus),
                )
            self._summarised += 1
        return known

    def _leaf_text(self, messages: Sequence[Stored]) -> Written:
        target = self._limits.leaf_target(sum(message.tokens for message in messages))
        read = [for_summary(message, self._limits.large) for message in messages]
        return self._summariser.leaf(read, target=target, focus=self._focus)

    def _condensed_text(self, children: Sequence[Node]) -> Written:
        target = self._limits.condensed_target(sum(child.tokens for child in children))
        return self._summariser.condensed(children, target=target, focus=self._focus)

    # What to do next

    def _is_worth_a_leaf(self, chunk: Sequence[Group], *, forced: bool, is_full: bool) -> bool:
        """Few messages are worth one if they fill it: large ones would else leave the context for digests."""
        if sum(map(tokens_of, chunk)) < _SMALLEST_CHUNK:
            return False
        urgent = forced or self._total() > self._limits.threshold
        return urgent or is_full or sum(map(len, chunk)) >= self._limits.chunk_messages

    def _run_of_one_depth(self) -> tuple[int, int] | None:
        """The oldest nodes of one depth that stand side by side, if there are enough of them; the least depth first.

        Stand-ins wait until they are summaries, unless there is no room to wait.
        """
        for depth in sorted({node.depth for node in self._nodes}):
            start = 0
            for index, node in enumerate(self._nodes):
                if node.depth != depth or node.is_stand_in:
                    start = index + 1
                elif index + 1 - start >= self._limits.fan_in:
                    return start, index + 1
        return None

    def _run_for_room(self) -> tuple[int, int] | None:
        if len(self._nodes) < 2 or sum(node.tokens for node in self._nodes) <= self._limits.summaries:
            return None
        return 0, min(self._limits.fan_in, len(self._nodes))

    # Measuring and looking

    def _shown(self) -> list[Node]:
        keys = list(dict.fromkeys(self._reading.summaries))
        with self._database.reading() as connection:
            found = summaries_by_key(connection, keys)
        return [found[key] for key in keys]

    def _total(self) -> int:
        return (
            self._overhead
            + sum(item.tokens for item in (*self._system, *self._kept))
            + sum(node.tokens + _BESIDE_A_SUMMARY for node in self._nodes)
            + (_BESIDE_ALL_SUMMARIES + self._limits.ledger if self._nodes else 0)
        )

    def _beside_kept(self, record: str) -> int:
        own = [{"role": "user", "content": record}] if record else []
        return estimate_messages_tokens_rough([*(item.chat for item in self._system), *own])

    def _newest_request(self) -> int:
        asked = [item.message for item in self._kept if item.chat["role"] == "user"]
        return asked[-1] if asked else 0

    def _last_group(self) -> Group:
        parts = parted(self._kept, replace(self._limits, tail=0))
        return parts.tail[-1] if parts.tail else []

    def _copy(self, indices: Sequence[int], tokens: int) -> None:
        with self._database.reading() as connection:
            whole = messages_by_key(connection, [self._kept[index].message for index in indices])
        copies = {
            index: with_copy(item := self._kept[index], whole[item.message], tokens) for index in indices
        }
        made = {index: copy for index, copy in copies.items() if copy is not self._kept[index]}
        if not made:
            return
        with self._database.writing() as connection:
            for index, copy in made.items():
                self._kept[index] = copy
                remember_copy(connection, self._reading.conversation, text_of(copy.chat), copy.message)
        self._copied += len(made)

    def _ledger(self) -> Ledger:
        """What earlier compactions kept word for word, and what these messages add."""
        earlier = Ledger()
        for item in self._reading.items:
            if item.kind == "record":
                earlier = earlier.extended(split_ledger(text_of(item.chat))[1])
        with self._database.reading() as connection:
            found = messages_by_key(connection, self._left)
        left = [for_summary(found[key], self._limits.large).chat for key in self._left]
        wording = wording_of(left, left)
        if rules := rules_that_may_fire(wording.words()):
            left = [redact_message(chat, rules) for chat in left]
            wording = wording_of(left, left)
        entries = find_entries(left, wording, changes_something, earlier_summary="")
        return earlier.extended(entries).bounded(self._limits.ledger)


def _kept_or_made(
    connection: sqlite3.Connection,
    conversation: int,
    sources: str,
    make: Callable[[], Node],
    text: Written,
    *,
    again: bool,
) -> Node:
    """Somebody else may have been quicker; then theirs stands, unless it is a stand-in or is wanted `again`."""
    known = find_summary(connection, conversation, sources)
    if known is None:
        return make()
    return rewrite(connection, known, text) if known.is_stand_in or (again and text.level != "stand_in") else known
