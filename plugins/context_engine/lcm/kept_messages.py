"""The messages that stay in the context: the tail, pinned messages, and copies of messages that are too large.

A copy shows a digest instead of the text; the store keeps the original.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from agent.compression.pinned import find_pinned
from agent.compression.truncate import fair_cap, truncate
from agent.messages import ChatDict, text_of
from agent.tokens import estimate_message_tokens, estimate_text_tokens

from .database import Database
from .digests import digest
from .ingest import MARK, ContextItem, EngineText, save_engine_text
from .messages import StoredMessage, messages_by_key
from .options import Limits

MIN_TOKENS = 150
"""Smaller messages are not replaced."""
_MAX_SIZE_SHARE = 0.8
_MIN_DIGEST_TOKENS = 60


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
    room = tokens - sum(map(tokens_of, groups[start:]))
    count = sum(map(len, groups[start:]))
    while start:
        group = groups[start - 1]
        room, count = room - tokens_of(group), count + len(group)
        if room < 0 or count > messages:
            break
        start -= 1
    return start


def tokens_of(items: Iterable[ContextItem]) -> int:
    return sum(item.tokens for item in items)


def first_chunk_size(older: Sequence[Group], tokens: int) -> int:
    """Return how many of the oldest groups make a leaf: at least one, and within the tokens."""
    for count, group in enumerate(older):
        tokens -= tokens_of(group)
        if tokens < 0 and count:
            return count
    return len(older)


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
        return tokens_of(self.items)

    def remove(self, items: Sequence[ContextItem]) -> None:
        leaving = set(map(id, items))
        self.items = [item for item in self.items if id(item) not in leaving]

    def newest_request(self) -> ContextItem | None:
        asked = (item for item in reversed(self.items) if item.kind == "said" and item.chat["role"] == "user")
        return next(asked, None)

    def copy_large(self, limits: Limits) -> None:
        """Replace large messages by copies, except the last group and pinned messages."""
        large = [item for item in self._unprotected() if item.tokens > limits.large]
        self._copy(large, lambda item, whole: make_copy(item, whole, limits.digest))

    def fit(self, room: int, most: int) -> None:
        """Fit into the room. Protected messages stay whole up to `most`, the limit of the window."""
        others = self._unprotected()
        protected = self.tokens - tokens_of(others)
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

    def _unprotected(self) -> Group:
        """Return the items that are neither pinned nor in the last group, which the model is working on."""
        before = self.items[: len(self.items) - len(self._last_group())]
        return [item for item in before if item.message not in self._pinned]

    def _last_group(self) -> Group:
        groups = group_messages(self.items)
        return groups[-1] if groups else []

    def _copy(
        self, items: Sequence[ContextItem], copy: Callable[[ContextItem, StoredMessage], ContextItem]
    ) -> None:
        with self._database.reading() as connection:
            whole = messages_by_key(connection, [item.message for item in items])
        copies = {id(item): copy(item, whole[item.message]) for item in items}
        made = [item for item in items if copies[id(item)] is not item]
        if not made:
            return
        with self._database.writing() as connection:
            for item in made:
                text = text_of(copies[id(item)].chat)
                what = EngineText("copy", message=item.message)
                save_engine_text(connection, self._conversation, text, what)
        self.items = [copies.get(id(item), item) for item in self.items]
        self.copied += [item.message for item in made]


def make_copy(item: ContextItem, whole: StoredMessage, tokens: int) -> ContextItem:
    """Return the item with a copy of about these tokens, or unchanged if that saves too little."""
    if item.tokens <= tokens:
        return item
    return _if_smaller(item, _digest_copy(item.chat, whole, tokens))


def truncate_middle(item: ContextItem, whole: StoredMessage, tokens: int) -> ContextItem:
    """Keep beginning, end and images: used for the newest request."""
    said = whole.chat.get("content")
    parts = said if isinstance(said, list) else [{"type": "text", "text": said or ""}]
    words = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    pictures = [part for part in parts if not isinstance(part.get("text"), str)]
    room = max(_MIN_DIGEST_TOKENS, tokens - estimate_message_tokens({"role": "user", "content": pictures}))
    text = f"{_head(whole)}\n{truncate({'role': 'user', 'content': words}, room)['content']}"
    content = [{"type": "text", "text": text}, *pictures] if pictures else text
    return _if_smaller(item, {**item.chat, "content": content})


def reference_only(item: ContextItem, whole: StoredMessage) -> ContextItem:
    """Keep only the id, if there is no room for more."""
    return _if_smaller(item, {**item.chat, "content": f"{MARK}COPY of {whole.id}]"})


def digest_for_summary(whole: StoredMessage, tokens: int) -> StoredMessage:
    """Return what the summariser reads of a message: the digest of a large one."""
    if whole.tokens <= tokens:
        return whole
    return replace(whole, chat=_digest_copy(whole.chat, whole, tokens))


def _digest_copy(shown: ChatDict, whole: StoredMessage, tokens: int) -> ChatDict:
    """Replace the text by a digest. The host's keys stay, so the host knows the original."""
    text, head = text_of(whole.chat), _head(whole)
    room = max(_MIN_DIGEST_TOKENS, tokens - estimate_text_tokens(head) - 8)
    if whole.chat.get("tool_calls"):
        bounded = truncate({**whole.chat, "content": None}, room)
        room = max(_MIN_DIGEST_TOKENS, room - estimate_message_tokens(bounded))
        shown = {**shown, "tool_calls": bounded["tool_calls"]}
    if estimate_text_tokens(text) > room:
        made = digest(text, tokens=room)
        text = f"{made.kind}, {len(text):,} characters:\n{made.text}"
    return {**shown, "content": f"{head}\n{text}".rstrip()}


def _head(whole: StoredMessage) -> str:
    return (
        f"{MARK}COPY of {whole.id}] {whole.tokens:,} tokens are kept outside the context; "
        f"`lcm_expand {whole.id}` gives them."
    )


def _if_smaller(item: ContextItem, chat: ChatDict) -> ContextItem:
    size = estimate_message_tokens(chat)
    return replace(item, chat=chat, tokens=size) if size <= item.tokens * _MAX_SIZE_SHARE else item
