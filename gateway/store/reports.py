"""Reports for the operator: spending, queues, parked items, conversations and compactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agent.messages import Message
from agent.store import Compaction, Conversation, SearchHit, SplitReason
from gateway.types import Place


@dataclass(frozen=True, slots=True)
class ParkedItem:
    """A message that could not be answered, or a reply that could not be delivered."""

    kind: Literal["message", "reply"]
    id: str
    platform: str
    chat_id: str
    """Empty on platforms that people read from, such as the web page."""
    since: float
    reason: str


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation in a list."""

    conversation: Conversation
    title: str
    messages: int
    sessions: int
    prompt_tokens: int | None
    """Tokens in the context window as the provider last reported them; after a compaction, an estimate."""
    usd: float
    """The cost of calls with a known price."""
    unpriced_calls: int
    updated_at: float


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of a list of conversations."""

    rows: list[ConversationRow]
    total: int


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """The values by which a list of conversations can be filtered."""

    platforms: list[str]
    people: list[tuple[str, str]]
    """Key and display name of each person."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in the session tree."""

    id: str
    parent_id: str | None
    reason: SplitReason | None
    created_at: float
    engine: str
    model: str
    prompt_tokens: int | None
    messages: int
    """The number of messages in the session itself."""
    compaction: Compaction | None
    has_summary: bool = False
    """Whether the compaction wrote a summary; otherwise it only truncated or dropped messages."""


@dataclass(frozen=True, slots=True)
class ContextSample:
    """How full the context window was at a model call."""

    session_id: str
    at: float
    tokens: int


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """Some messages of a transcript, in order."""

    messages: list[Message]
    first: int
    """The position of the first message, from 1."""
    total: int


@dataclass(frozen=True, slots=True)
class CompactionDiff:
    """The changes that a split made to the context."""

    written: list[Message]
    """Summaries and truncated copies, as the engine wrote them."""
    kept: int
    """The number of messages that stayed unchanged."""
    left: TranscriptPage
    left_characters: int
    originals: list[Message] = field(default_factory=list)
    """The originals of the truncated copies."""


class ConversationReports(Protocol):
    """Reports on conversations. Methods that take an id raise NotFound."""

    async def page(
        self, *, person: str | None, platform: str | None, first: int, limit: int
    ) -> ConversationPage:
        """Return conversations with messages by latest activity, from position `first` (0 is the latest)."""
        ...

    async def rows(self, conversation_ids: Sequence[str]) -> dict[str, ConversationRow]: ...

    async def filter_options(self) -> FilterOptions: ...

    async def search(
        self, text: str, *, person: str | None, platform: str | None, limit: int
    ) -> list[SearchHit]:
        """Search all conversations, best match first."""
        ...

    async def last_seq(self) -> int:
        """Return a number that grows with every stored message."""
        ...

    async def version(self, conversation_id: str) -> tuple[object, ...]:
        """Return a value that changes with every message and split of the conversation."""
        ...

    async def transcript_page(self, session_id: str, *, first: int | None, limit: int) -> TranscriptPage:
        """Return messages of the session and its ancestors from position `first`; without it, the newest.

        Tool results stay on the page of their call: a page may exceed the limit by the results at its end, and does not
        begin with results of the page before."""
        ...

    async def locate_message(self, conversation_id: str, message_id: str) -> tuple[str, int]:
        """Return a session whose transcript contains the message, the live one if possible, and the position there."""
        ...

    async def sessions(self, conversation_id: str) -> list[SessionInfo]:
        """Return all sessions, oldest first."""
        ...

    async def context_samples(self, session_id: str) -> list[ContextSample]:
        """Return the samples of the session and its ancestors, in order."""
        ...

    async def compaction_diff(self, session_id: str, *, first: int, limit: int) -> CompactionDiff: ...

    async def reply_place(self, conversation: Conversation) -> Place | None:
        """Return the chat to which replies were last delivered; None if there is none or it was too long ago."""
        ...


GroupBy = Literal["day", "person", "model"]


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of model calls by day, person and model, or added up over some of these."""

    day: str
    """The local date, such as `2026-11-17`; empty if days are added up."""
    person: str
    """The person whose budget paid; empty for calls without a person, or if people are added up."""
    model: str
    calls: int
    prompt_tokens: int
    """Including tokens read from the cache."""
    completion_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    usd: float
    """The cost of calls with a known price."""
    unpriced_calls: int


@dataclass(slots=True)
class UsageTotal:
    """The total of a day, a person or a model."""

    name: str
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    usd: float = 0.0
    unpriced_calls: int = 0

    def add(self, spending: Spending | UsageTotal) -> None:
        self.calls += spending.calls
        self.prompt_tokens += spending.prompt_tokens
        self.completion_tokens += spending.completion_tokens
        self.cache_read_tokens += spending.cache_read_tokens
        self.cache_write_tokens += spending.cache_write_tokens
        self.usd += spending.usd
        self.unpriced_calls += spending.unpriced_calls


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The sizes of the queues."""

    waiting: int
    """Messages that are not answered yet."""
    waiting_since: float | None
    """When the oldest waiting message came."""
    undelivered: int
    """Replies that are not delivered yet."""
    parked_messages: int
    parked_replies: int
    compactions: int
    """The number of compactions since the requested time."""
    freed_tokens: int
    """The tokens that these compactions freed."""


@dataclass(frozen=True, slots=True)
class ParkedDetail(ParkedItem):
    """A parked item with its text."""

    text: str
    """The beginning of the text, or the name of the file; empty if nothing is left."""


@dataclass(frozen=True, slots=True)
class UsageToday:
    """The model calls since midnight."""

    calls: int
    prompt_tokens: int
    cache_read_tokens: int
    completion_tokens: int
    usd: float
    unpriced_calls: int


@dataclass(frozen=True, slots=True)
class LastCompaction:
    at: float
    conversation_id: str
    trigger: str
    engine: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """The numbers that `hermes status` prints."""

    conversations: int
    waiting: int
    """Messages without a complete answer, including those that are being answered."""
    parked: int
    today: UsageToday
    last_compaction: LastCompaction | None
    bytes: int
    """The size of the database with its write-ahead log."""


class Reports(Protocol):
    @property
    def conversations(self) -> ConversationReports: ...

    async def spending(self, *, since: float, by: Sequence[GroupBy]) -> list[Spending]:
        """Return totals grouped `by` these from the day of `since` on, oldest day first."""
        ...

    async def queue_status(self, *, since: float) -> QueueStatus: ...

    async def parked(self, *, limit: int) -> list[ParkedDetail]:
        """Return messages and replies that are parked, the newest first."""
        ...

    async def summary(self, *, midnight: float) -> StoreSummary: ...
