"""One compaction: old messages become leaves of the graph, leaves are condensed, the tail and pinned messages stay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent.compression.identifiers import changes_something
from agent.compression.ledger import Ledger, without_ledger_marks
from agent.compression.pinned import find_pinned
from agent.compression.summary_message import between, ledger_of, ledger_state
from agent.compression.truncate import fair_cap
from agent.compression.vocabulary import find_entries, vocabulary_of
from agent.messages import CREATED_AT, ChatDict, repair, text_of
from agent.redaction import redact_message, rules_that_may_fire
from agent.tokens import estimate_messages_tokens_rough

from .database import Database
from .graph import Node
from .graph_builder import GraphBuilder
from .ingest import RECORD, STORED_KINDS, ContextItem, ParsedContext, save_copy, save_record
from .messages import StoredMessage, messages_by_key
from .options import Limits
from .stats import format_period
from .truncated import MIN_TOKENS, digest_for_summary, make_copy, reference_only, truncate_middle

Group = list[ContextItem]
"""A message, or an assistant message with tool calls and their results. It stays or leaves as a whole."""


def group_messages(said: Sequence[ContextItem]) -> list[Group]:
    groups: list[Group] = []
    for item in said:
        if item.chat["role"] == "tool" and groups:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def groups_before_tail(
    said: Sequence[ContextItem], tail_tokens: int, tail_messages: int, pinned: Collection[int]
) -> list[Group]:
    """Return the groups older than the tail, oldest first, without those that hold a pinned message.

    The user's reply to a pinned answer stays, too, where another answer would follow: roles must alternate.
    """
    groups = group_messages(said)
    start = _tail_start(groups, tail_tokens, tail_messages)
    stay = [i for i, group in enumerate(groups[:start]) if any(item.message in pinned for item in group)]
    roles = [group[0].chat["role"] for group in groups]
    replies = [
        index + 1
        for index, following in pairwise((*stay, start))
        if [*roles[index : index + 2], *roles[following : following + 1]]
        == ["assistant", "user", "assistant"]
    ]
    return [group for i, group in enumerate(groups[:start]) if i not in {*stay, *replies}]


def pinned_keys(items: Sequence[ContextItem], room: int) -> frozenset[int]:
    """Return the keys of messages that stay verbatim: the newest request, the answer it replies to, an open offer.

    An answer or offer that does not fit into the room is treated like any other message.
    """
    written_by_engine = frozenset(i for i, item in enumerate(items) if item.kind != "said")
    found = find_pinned([item.chat for item in items], written_by_engine)
    pinned: set[int] = set()
    for index in (found.request, found.answer, found.offer):
        if index is not None and items[index].message not in pinned:
            room -= items[index].tokens
            if room >= 0 or index == found.request:
                pinned.add(items[index].message)
    return frozenset(pinned)


def _tail_start(groups: Sequence[Group], tokens: int, messages: int) -> int:
    start = max(0, len(groups) - 1)
    room = tokens - sum(map(group_tokens, groups[start:]))
    count = sum(map(len, groups[start:]))
    while start:
        group = groups[start - 1]
        room, count = room - group_tokens(group), count + len(group)
        if room < 0 or count > messages:
            break
        start -= 1
    return start


def group_tokens(group: Group) -> int:
    return sum(item.tokens for item in group)


def first_chunk_size(older: Sequence[Group], tokens: int) -> int:
    """Return how many of the oldest groups make a leaf: at least one, and within the tokens."""
    for count, group in enumerate(older):
        tokens -= group_tokens(group)
        if tokens < 0 and count:
            return count
    return len(older)


Copy = Callable[[ContextItem, StoredMessage], ContextItem]


class KeptMessages:
    """The messages that stay in the context, in order, and the copies that make them fit."""

    def __init__(
        self, database: Database, conversation: int, items: Iterable[ContextItem], pinned: frozenset[int]
    ) -> None:
        self._database = database
        self._conversation = conversation
        self._pinned = pinned
        self.items = list(items)
        self.copied: list[int] = []
        """Keys of the messages of which only a copy stays."""

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)

    def remove(self, items: Sequence[ContextItem]) -> None:
        leaving = set(map(id, items))
        self.items = [item for item in self.items if id(item) not in leaving]

    def newest_request(self) -> ContextItem | None:
        asked = (item for item in reversed(self.items) if item.kind == "said" and item.chat["role"] == "user")
        return next(asked, None)

    def copy_large(self, limits: Limits) -> None:
        """Replace large messages by copies, except the last group and pinned messages."""
        large = [item for item in self.items if item.tokens > limits.large and not self._is_protected(item)]
        self._copy(large, lambda item, whole: make_copy(item, whole, limits.digest))

    def fit(self, room: int, most: int) -> None:
        """Fit into the room. Protected messages stay whole up to `most`, the limit of the window."""
        others = [item for item in self.items if not self._is_protected(item)]
        protected = self.tokens - _tokens(others)
        self._shrink(others, max(room, min(protected + 2 * MIN_TOKENS, most)))
        if self.tokens <= most:
            return
        request = self.newest_request()
        self._shrink([item for item in self._last_group() if item.chat["role"] == "tool"], room)
        if self.tokens > most:
            self._shrink([item for item in self.items if item is not request], room)
        if self.tokens > most and request:
            left = max(MIN_TOKENS, room - self.tokens + request.tokens)
            self._copy([request], lambda item, whole: truncate_middle(item, whole, left))
        if self.tokens > most:
            lines = [item for item in self.items if item.chat["role"] == "tool"]
            self._copy(lines, reference_only)

    def _shrink(self, items: Sequence[ContextItem], total: int) -> None:
        """Shorten the largest of these so that all kept messages together have `total` tokens, if they can."""
        sizes = [item.tokens for item in items]
        room = total - self.tokens + sum(sizes)
        if sizes and sum(sizes) > room:
            cap = fair_cap(sizes, room, MIN_TOKENS)
            larger = [item for item in items if item.tokens > cap]
            self._copy(larger, lambda item, whole: make_copy(item, whole, cap))

    def _is_protected(self, item: ContextItem) -> bool:
        """Whether the item is pinned or in the last group, which the model is working on."""
        return item.message in self._pinned or any(item is each for each in self._last_group())

    def _last_group(self) -> Group:
        groups = group_messages(self.items)
        return groups[-1] if groups else []

    def _copy(self, items: Sequence[ContextItem], copy: Copy) -> None:
        with self._database.reading() as connection:
            whole = messages_by_key(connection, [item.message for item in items])
        copies = {id(item): copy(item, whole[item.message]) for item in items}
        made = [item for item in items if copies[id(item)] is not item]
        if not made:
            return
        with self._database.writing() as connection:
            for item in made:
                text = text_of(copies[id(item)].chat)
                save_copy(connection, self._conversation, text, item.message)
        self.items = [copies.get(id(item), item) for item in self.items]
        self.copied += [item.message for item in made]


def _tokens(items: Iterable[ContextItem]) -> int:
    return sum(item.tokens for item in items)


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


@dataclass(frozen=True, slots=True)
class CompactionResult:
    messages: list[ChatDict]
    changed: bool
    nodes: list[Node]
    summarised: int
    """Summaries that were written or rewritten."""
    copied: int
    """Messages that were replaced by a copy."""

    @property
    def has_fallback(self) -> bool:
        return any(node.is_fallback for node in self.nodes)


class Compaction:
    """Compacts one parsed context."""

    def __init__(
        self,
        database: Database,
        reading: ParsedContext,
        limits: Limits,
        graph: GraphBuilder,
        *,
        overhead: int,
    ) -> None:
        """`overhead` are the tokens that each request sends beside the messages."""
        self._database = database
        self._reading = reading
        self._limits = limits
        self._graph = graph
        self._overhead = overhead
        self._system = [item for item in reading.items if item.kind == "system"]
        self._pinned = pinned_keys(reading.items, self._room_for_pinned())
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
            self._condense()
        ledger = self._ledger()
        self._fit(ledger)
        changed = bool(self._left or self._kept.copied or self._nodes != before)
        return CompactionResult(
            self._assemble(ledger), changed, self._nodes, self._graph.written, len(self._kept.copied)
        )

    def _make_leaves(self, tail: int, *, forced: bool) -> None:
        older = groups_before_tail(self._kept.items, tail, self._limits.tail_messages, self._pinned)
        while older and (forced or self._total() > self._limits.goal):
            count = first_chunk_size(older, self._limits.chunk)
            chunk, older = older[:count], older[count:]
            if not self._is_worth_a_leaf(chunk, forced=forced, is_full=bool(older)):
                break
            self._leaf([item for group in chunk for item in group])

    def _leaf(self, items: Sequence[ContextItem]) -> None:
        keys = list(dict.fromkeys(item.message for item in items))
        foreign = frozenset(item.message for item in items if item.kind == "foreign record")
        self._nodes.append(self._graph.leaf(keys, foreign))
        self._left += keys
        self._kept.remove(items)

    def _is_worth_a_leaf(self, chunk: Sequence[Group], *, forced: bool, is_full: bool) -> bool:
        """Whether a chunk is large enough: enough messages, or enough tokens to fill a leaf."""
        if sum(map(group_tokens, chunk)) < _MIN_CHUNK_TOKENS:
            return False
        urgent = forced or self._total() > self._limits.threshold
        return urgent or is_full or sum(map(len, chunk)) >= self._limits.chunk_messages

    def _condense(self) -> None:
        """Condense neighbours of one depth, at `fan_in` of them, or earlier where the summaries take too much room."""
        while run := self._run_of(self._limits.fan_in, waits=True) or self._run_to_save_room():
            start, end = run
            self._nodes[start:end] = [self._graph.condensed(self._nodes[start:end])]

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

    def _room_for_pinned(self) -> int:
        """Tokens of the window that are left beside system prompt, tools, summaries and ledger."""
        beside = self._overhead + sum(item.tokens for item in self._system)
        reserved = self._limits.summaries + self._limits.ledger + _INTRODUCTION_TOKENS
        return int(self._limits.window * _MAX_WINDOW_SHARE) - beside - reserved

    def _fit(self, ledger: Ledger) -> None:
        record = [{"role": "user", "content": record_text(self._nodes, ledger)}]
        beside = self._overhead + estimate_messages_tokens_rough(
            [*(item.chat for item in self._system), *record]
        )
        most = max(
            int(self._limits.threshold * _MAX_THRESHOLD_SHARE), int(self._limits.window * _MAX_WINDOW_SHARE)
        )
        self._kept.fit(int(self._limits.threshold * _MAX_THRESHOLD_SHARE) - beside, most - beside)

    def _assemble(self, ledger: Ledger) -> list[ChatDict]:
        head, rest = [item.chat for item in self._system], list(self._kept_with_hint())
        if not self._nodes and ledger == Ledger():
            return repair([*head, *rest])
        text, keys = record_text(self._nodes, ledger), [node.key for node in self._nodes]
        with self._database.writing() as connection:
            save_record(connection, self._reading.conversation, text, keys)
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
            self._overhead
            + sum(item.tokens for item in self._system)
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
        entries = find_entries(said, wording, changes_something, earlier=ledger, earlier_summary="")
        return ledger.extended(entries, just_said=True).bounded(self._limits.ledger)

    def _ledger_text(self, message: StoredMessage) -> ChatDict:
        """Search user messages in full for rules; of large results, only the digest."""
        chat = (
            message.chat if message.role == "user" else digest_for_summary(message, self._limits.large).chat
        )
        return {**chat, CREATED_AT: message.said_at}


_INTRODUCTION = (
    f"{RECORD} Earlier turns were compacted into the summaries below, oldest first. They are history, not "
    "requests: what they call done is done. Nothing is lost: `lcm_expand` gives the original messages behind an id, "
    "`lcm_grep` searches all of them. Look there before you say that you do not know, and answer the newest message "
    "of the user."
)


def record_text(nodes: Sequence[Node], ledger: Ledger) -> str:
    return "\n\n".join(filter(None, (_INTRODUCTION, *map(_node_section, nodes), ledger.render())))


def _heading(node: Node) -> str:
    """`s12 · m1-m48 · 48 messages · 2026-03-01 10:02 - 11:30 UTC`"""
    what = f"m{node.first_seq}" + (f"-m{node.last_seq}" if node.last_seq > node.first_seq else "")
    count = f"{node.message_count:,} message" + ("" if node.message_count == 1 else "s")
    return " · ".join((node.id, what, count, format_period(node.earliest, node.latest)))


def _node_section(node: Node) -> str:
    note = " · an extract with gaps, no summary could be written yet" if node.is_fallback else ""
    about = f" for details about: {node.topics}" if node.topics else ""
    content = without_ledger_marks(node.content).strip()
    return f"[{_heading(node)}{note}]\n{content}\n(lcm_expand {node.id}{about})"
