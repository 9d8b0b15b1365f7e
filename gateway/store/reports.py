"""The port to what an operator wants to know of conversations: all of them, and the story of one."""

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
    """A conversation as a line in a list."""

    conversation: Conversation
    title: str
    messages: int
    sessions: int
    prompt_tokens: int | None
    """In the window, as the provider last reported it; after a compaction, as it was estimated."""
    usd: float
    """Of the calls with a price."""
    unpriced_calls: int
    updated_at: float


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of them."""

    listed: list[ConversationRow]
    total: int


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """What a list can be narrowed to."""

    platforms: list[str]
    people: list[tuple[str, str]]
    """The key of each, and the name that people read."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as a node of the family tree."""

    id: str
    parent_id: str | None
    reason: SplitReason | None
    created_at: float
    engine: str
    model: str
    prompt_tokens: int | None
    said: int
    """Messages in the session itself."""
    compaction: Compaction | None
    has_summary: bool = False
    """Whether the compaction wrote one; else it only shortened or left out."""


@dataclass(frozen=True, slots=True)
class ContextSample:
    """A call of the model that answers, and how full the window was."""

    session_id: str
    at: float
    tokens: int


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """Some of what was said, in order, and where it stands among all of it."""

    messages: list[Message]
    first: int
    """The number of the first one, from 1."""
    total: int


@dataclass(frozen=True, slots=True)
class CompactionDiff:
    """What a split put into the context, and what it took out."""

    written: list[Message]
    """Summaries and shortened copies, as the engine wrote them."""
    kept: int
    """Messages that stayed as they were."""
    left: TranscriptPage
    left_characters: int
    originals: list[Message] = field(default_factory=list)
    """Of the shortened copies."""


class ConversationReports(Protocol):
    """What names an id raises NotFound."""

    async def page(
        self, *, person: str | None, platform: str | None, first: int, limit: int
    ) -> ConversationPage:
        """Newest activity first, from number `first` (0 is the newest); none in which nothing was said."""
        ...

    async def rows(self, conversation_ids: Sequence[str]) -> dict[str, ConversationRow]: ...

    async def filter_options(self) -> FilterOptions: ...

    async def search(
        self, text: str, *, person: str | None, platform: str | None, limit: int
    ) -> list[SearchHit]:
        """Over all conversations, best first."""
        ...

    async def last_seq(self) -> int:
        """Grows whenever anything is said anywhere."""
        ...

    async def version(self, conversation_id: str) -> tuple[object, ...]:
        """Changes whenever anything was said or split."""
        ...

    async def transcript_page(self, session_id: str, *, first: int | None, limit: int) -> TranscriptPage:
        """Of all that was said up to this session, through its ancestors. Without `first`, the newest. With the
        results of the tool calls at its end, whatever the limit; those at its beginning are in the one before."""
        ...

    async def locate_message(self, conversation_id: str, message_id: str) -> tuple[str, int]:
        """The session to look at it from, and its number there: the live one, where it leads to the message."""
        ...

    async def sessions(self, conversation_id: str) -> list[SessionInfo]:
        """All of them, oldest first."""
        ...

    async def context_samples(self, session_id: str) -> list[ContextSample]:
        """Through all ancestors, in order."""
        ...

    async def compaction_diff(self, session_id: str, *, first: int, limit: int) -> CompactionDiff: ...

    async def reply_place(self, conversation: Conversation) -> Place | None:
        """Where its replies were last brought to; None where people come and read, or it was too long ago."""
        ...


GroupBy = Literal["day", "person", "model"]


@dataclass(frozen=True, slots=True)
class Spending:
    """What the calls of one model came to, for one person on one day; or of several."""

    day: str
    """In local time: `2026-11-17`. Empty where days were added up."""
    person: str
    """Whose budget they counted against; empty where nobody asked, or where people were added up."""
    model: str
    calls: int
    prompt_tokens: int
    """Those from the cache included."""
    completion_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    usd: float
    """Of the calls with a price."""
    unpriced_calls: int


@dataclass(slots=True)
class UsageTotal:
    """What many of them come to: all of a day, a person or a model."""

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
    """How much is under way, and how much was given up on."""

    waiting: int
    """Messages that are not dealt with yet."""
    waiting_since: float | None
    """When the oldest of them came."""
    on_its_way: int
    """Replies that have not arrived yet."""
    parked_messages: int
    parked_replies: int
    compactions: int
    """Since the time that was asked for."""
    freed_tokens: int
    """By those."""


@dataclass(frozen=True, slots=True)
class ParkedDetail(ParkedItem):
    """With what it says."""

    text: str
    """Its beginning; the name of a file. Empty where nothing is left of it."""


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
        """From the day of that moment on, a sum for each of these; oldest day first."""
        ...

    async def queue_status(self, *, since: float) -> QueueStatus: ...

    async def parked(self, *, limit: int) -> list[ParkedDetail]:
        """Return messages and replies that are parked, the newest first."""
        ...

    async def summary(self, *, midnight: float) -> StoreSummary: ...
