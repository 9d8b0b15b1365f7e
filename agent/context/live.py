"""LiveContext, the part of a conversation that the model sees, and the size of its prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from agent.aio import finish_despite_cancel
from agent.llm import Usage
from agent.messages import ChatRequest, Message, as_chat
from agent.store import Conversation, Session, SessionStore
from agent.tokens import estimate_messages_tokens_rough

RequestNow = Callable[[], ChatRequest]
"""Builds the request that the agent would send now. Call it only to send it: building updates cache markers."""


@dataclass(slots=True)
class LiveContext:
    """The live session of a conversation and its messages. Only this module changes it; a compaction moves it on."""

    store: SessionStore
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


_MOST_PER_ESTIMATED = 3
"""The estimate is within 30 % for prose; digits, base64 and rare scripts take up to three times as many tokens."""
_ADDED_BY_PROVIDER = 1_000
"""Tokens that a provider may add to a prompt by itself."""


def estimated_tokens(live: LiveContext) -> int:
    """Estimate the whole prompt: system prompt, tool definitions and messages."""
    return fixed_tokens(live) + estimate_messages_tokens_rough(map(as_chat, live.history))


def fixed_tokens(live: LiveContext) -> int:
    """Estimate what no compaction can remove: system prompt and tool definitions."""
    system = {"role": "system", "content": live.system_prompt}
    return live.tools_tokens + estimate_messages_tokens_rough([system])


def is_plausible(reported: int, estimated: int) -> bool:
    """Return whether a report is possible. Some servers add up the usage of all calls."""
    return 0 < reported <= estimated * _MOST_PER_ESTIMATED + _ADDED_BY_PROVIDER


def believed_usage(live: LiveContext, usage: Usage) -> Usage:
    """Return the usage of a call, with the estimate in place of an impossible report."""
    estimated = estimated_tokens(live)
    return usage if is_plausible(usage.prompt_tokens, estimated) else replace(usage, prompt_tokens=estimated)


def last_prompt_tokens(live: LiveContext) -> int:
    """Return the size of the last prompt, or of the present one without a plausible report."""
    reported, estimated = live.session.prompt_tokens or 0, estimated_tokens(live)
    return reported if is_plausible(reported, estimated) else estimated


def next_prompt_tokens(live: LiveContext, reported: int | None = None) -> int:
    """Return the size of the next prompt: the last report plus an estimate of what came after it."""
    reported = live.session.prompt_tokens or 0 if reported is None else reported
    spoken = [index for index, message in enumerate(live.history) if message.role == "assistant"]
    since = live.history[spoken[-1] :] if spoken else live.history
    estimated, added = estimated_tokens(live), estimate_messages_tokens_rough(map(as_chat, since))
    return reported + added if is_plausible(reported, estimated - added) else estimated
