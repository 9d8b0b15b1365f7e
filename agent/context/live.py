"""LiveContext: the part of a conversation that the model sees. Only this module changes one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agent.aio import finish_despite_cancel
from agent.messages import ChatRequest, Message
from agent.store import Conversation, Session, SessionStore

RequestNow = Callable[[], ChatRequest]
"""Builds the request that the agent would send now. Called only if it is sent: marking it for the cache has effects."""


@dataclass(slots=True)
class LiveContext:
    """The live session of a conversation and its messages. A compaction moves it to the child session."""

    store: SessionStore
    """The store that this turn writes to."""
    conversation: Conversation
    session: Session
    history: list[Message]
    tools_tokens: int = 0
    """Estimate of the tool definitions that go with every prompt."""
    request_now: Callable[[LiveContext], Awaitable[RequestNow]] | None = None
    """For a summary that reuses the provider's cache of this conversation."""

    @property
    def system_prompt(self) -> str:
        return self.session.system_prompt or ""

    async def append(self, *messages: Message, answers: str = "", settles: Sequence[str] = ()) -> None:
        """Store messages and add them to the history, even if the caller is cancelled meanwhile."""
        if messages or settles:
            append = self.store.append(self.session.id, messages, answers=answers, settles=settles)
            self.history += await finish_despite_cancel(append)

    def add_stored(self, message: Message) -> None:
        """Add a message that is stored already."""
        self.history.append(message)

    async def enter(self, child: Session) -> None:
        """Continue in a child session."""
        self.session, self.history = child, await self.store.history(child.id)

    def begin(self, session: Session) -> None:
        """Continue in a session that has no messages."""
        self.session, self.history = session, []

    async def reload(self) -> None:
        """Read the conversation again after another process has moved it on."""
        self.conversation = await self.store.conversation(self.conversation.id)
        await self.enter(await self.store.session(self.conversation.live_session_id))
