"""The port to storage. No verb here rewrites or deletes a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from agent.ids import new_id
from agent.messages import Message, Usage

SplitReason = Literal["compression", "hygiene", "command", "reset", "branch"]


@dataclass(frozen=True, slots=True)
class Address:
    """The place of a conversation. `user_id` is set only where a group is split per person."""

    platform: str
    chat_id: str
    thread_id: str = ""
    user_id: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation. Its id never changes; `live_session_id` points to its current session."""

    id: str
    address: Address
    person: str
    live_session_id: str
    created_at: float


@dataclass(frozen=True, slots=True)
class Session:
    """A segment of a conversation between two splits."""

    id: str
    conversation_id: str
    parent_id: str | None
    reason: SplitReason | None
    """Why it was split off its parent; None for the first one."""
    created_at: float
    engine: str = ""
    model: str = ""
    system_prompt: str | None = None
    """Rendered once, then these exact bytes every time."""
    prompt_tokens: int | None = None
    """Tokens that the API reported for the last call."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """The record of one compaction; one row per split."""

    trigger: str
    engine: str
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    focus: str | None = None
    seconds: float = 0.0
    cost_usd: float | None = None
    outcome: str = "ok"


@dataclass(frozen=True, slots=True)
class Split:
    """A child session to create: kept messages by id, new ones whole, in order. The same split twice is one child."""

    parent_id: str
    reason: SplitReason
    context: Sequence[str | Message] = ()
    system_prompt: str | None = None
    engine: str = ""
    model: str = ""
    compaction: Compaction | None = None
    child_id: str = field(default_factory=lambda: new_id("ses"))


@dataclass(frozen=True, slots=True)
class Overview:
    """A conversation as a line in a list."""

    conversation: Conversation
    title: str
    """The beginning of the first thing the person said."""
    messages: int
    sessions: int
    updated_at: float


@dataclass(frozen=True, slots=True)
class SearchHit:
    message: Message
    conversation_id: str
    snippet: str
    """Text around the match, matched words between \\x02 and \\x03."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of model calls."""

    usd: float
    unpriced_calls: int = 0
    unpriced_tokens: int = 0


@dataclass(frozen=True, slots=True)
class LearnedWindow:
    """A model's window in tokens, where it turned out to be smaller than believed."""

    model: str
    believed: int
    """As configured or listed. The row counts only while that is the same."""
    tokens: int
    named: bool
    """The provider named the number; otherwise it is a guess."""
    learned_at: float
    endpoint: str = ""
    """The endpoint that refused: another one may serve the same model with another window."""

    @property
    def key(self) -> str:
        return f"{self.model} {self.endpoint}".rstrip()


@dataclass(frozen=True, slots=True)
class Fact:
    """Something about a person that outlives a session."""

    id: str
    text: str
    created_at: float = 0.0
    after_outside: bool = False
    """It was noted while text of others was in the conversation."""


class SessionStore(Protocol):
    async def open_conversation(self, address: Address, *, person: str) -> Conversation:
        """Return the conversation at this address, created with a first session if there is none."""

    async def conversation(self, conversation_id: str) -> Conversation:
        """Raises NotFound, as do all verbs below that name an id."""

    async def conversations(
        self, *, person: str | None = None, platform: str | None = None, limit: int = 50
    ) -> list[Overview]:
        """Newest activity first."""

    async def session(self, session_id: str) -> Session: ...

    async def append(
        self, session_id: str, messages: Sequence[Message], *, answers: str = "", settles: Sequence[str] = ()
    ) -> list[Message]:
        """Store messages in this order, all or none, durably.

        In the same transaction, the model's words in them enter the outbox as the answer to the message `answers`, and
        the messages in `settles` need no turn any more."""

    async def known(self, message_ids: Sequence[str]) -> set[str]:
        """Return those of the ids that are stored."""

    async def history(self, session_id: str) -> list[Message]:
        """Return what the model sees: the context the session began with, then its own messages and notes."""

    async def transcript(self, conversation_id: str, *, limit: int | None = None) -> list[Message]:
        """Return all that was said, oldest first, in the live session and its ancestors; `limit` keeps the newest."""

    async def pin(self, session_id: str, *, system_prompt: str, model: str) -> Session:
        """Pin the session's rendered system prompt; the first call wins, later ones change nothing."""

    async def split(self, split: Split) -> Session:
        """Create the child session, make it live and record the compaction, in one transaction. Raises HeadMoved."""

    async def make_live(self, session_id: str, *, instead_of: str) -> Conversation:
        """Move the conversation to one of its sessions. Raises HeadMoved if `instead_of` is not live."""

    async def lineage(self, session_id: str) -> list[Session]:
        """Return the session and its ancestors, oldest first."""

    async def sessions(self, conversation_id: str) -> list[Session]:
        """Return all sessions of a conversation, oldest first."""

    async def compactions(self, conversation_id: str) -> list[tuple[str, Compaction]]:
        """Return pairs of a child session's id and its compaction, oldest first."""

    async def record_usage(
        self, session_id: str, usage: Usage, *, model: str, purpose: str = "turn", spender: str = ""
    ) -> None:
        """Record a model call for the budget of `spender`. A `turn` call also sets the session's `prompt_tokens`."""

    async def usage(self, *, conversation_id: str | None = None) -> Usage: ...

    async def spent(self, *, spender: str | None = None, since: float = 0.0) -> Spent:
        """Return what this person spent; without one, all people together."""

    async def search(
        self, query: str, *, person: str | None = None, conversation_id: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        """Search the full text, best hits first. Any input is a valid query; each message appears at most once."""

    async def facts(self, person: str) -> list[Fact]: ...

    async def remember(self, person: str, text: str, *, after_outside: bool = False) -> Fact: ...

    async def forget(self, person: str, fact_id: str) -> bool: ...

    async def load_state(self, conversation_id: str, key: str) -> str | None:
        """Return a small named state of a conversation, such as its todo list."""

    async def save_state(self, conversation_id: str, key: str, value: str) -> None: ...

    async def learned_windows(self) -> list[LearnedWindow]:
        """Return the newest window of each model."""

    async def learn_window(self, window: LearnedWindow) -> None: ...

    async def forget_window(self, key: str) -> None: ...
