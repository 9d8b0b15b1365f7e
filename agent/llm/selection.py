"""Selection of the model per conversation: the configured one, unless `/model` has chosen another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import structlog

from agent.aio import keyed_lock
from agent.errors import ModelError, ModelNotAvailable
from agent.llm import ChatRequest, Completion, LLMClient, Retrying, Usage
from agent.llm.guards import Windows, spender
from agent.store import Conversation, SessionStore

log = structlog.get_logger(__name__)

_CHOSEN = "model"
"""State of a conversation: the id of its model. Empty: the configured one."""
_QUESTION = ChatRequest(
    [{"role": "user", "content": "Say ok."}],
    max_tokens=16,  # some providers refuse to answer in less
    purpose="check",
)
_SECONDS = 60.0

Build = Callable[[str], LLMClient]
"""A client by its model's name. Raises ModelNotAvailable. Reads files, so it is called in a thread."""


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """The model that a conversation must fit, and its window in tokens."""

    model: str
    context_length: int


class ModelSelector:
    """Selects the model of each conversation. A model chosen with `/model` has no fallbacks."""

    def __init__(
        self,
        default: LLMClient,
        store: SessionStore,
        *,
        choices: Sequence[str] = (),
        build: Build | None = None,
        windows: Windows | None = None,
    ) -> None:
        self.default_name = default.model
        self.choices = tuple(choices) or (self.default_name,)
        """The configured models. Others can be chosen as well."""
        self.windows = windows
        """The measured context windows of the models, if they are measured."""
        self._default = default
        self._store = store
        self._build = build
        self._clients: dict[str, LLMClient] = {}
        self._chosen: dict[str, str] = {}
        """By conversation."""
        self._fallen_back: dict[str, ModelInUse] = {}
        """By conversation, while another model than the first one answers there."""

    async def of(self, conversation: Conversation) -> LLMClient:
        """Return the model that answers in the conversation."""
        name = self._chosen.get(conversation.id)
        if name is None:
            name = await self._store.load_state(conversation.id, _CHOSEN) or ""
            self._chosen[conversation.id] = name
        if not name:
            return self._default
        try:
            return await self._client(name)
        except ModelNotAvailable:
            # The configuration has changed since the model was chosen; the message must still be answered.
            log.warning("model.gone", conversation=conversation.id, model=name)
            return self._default

    async def in_use(self, conversation: Conversation) -> ModelInUse:
        """Return the model that answered last in the conversation. Fallbacks in other conversations do not count."""
        if conversation.id in self._fallen_back:
            return self._fallen_back[conversation.id]
        llm = await self.of(conversation)
        return ModelInUse(llm.model, llm.context_length)

    async def note_use(self, conversation: Conversation, model: str, context_length: int) -> ModelInUse:
        """Record which model answered or refused there. Without a window it was the first one."""
        self._fallen_back.pop(conversation.id, None)
        first = await self.in_use(conversation)
        used = ModelInUse(model or first.model, context_length) if context_length else first
        if used != first:
            self._fallen_back[conversation.id] = used
        return used

    async def is_default(self, conversation: Conversation) -> bool:
        return await self.of(conversation) is self._default

    async def switch(self, store: SessionStore, conversation: Conversation, name: str) -> LLMClient:
        """Choose a model for the conversation. Raises a ModelError and changes nothing if the model does not answer."""
        client = await self._client(name)
        if client is not self._default:
            usage, session = await _ask(client), conversation.live_session_id
            purpose = _QUESTION.purpose
            await store.record_usage(session, usage, model=client.model, purpose=purpose, spender=spender())
        await self._choose(store, conversation, "" if client is self._default else client.model)
        return client

    async def switch_back(self, store: SessionStore, conversation: Conversation) -> LLMClient:
        """Choose the configured model again."""
        await self._choose(store, conversation, "")
        return self._default

    async def close(self) -> None:
        """Close the clients of chosen models; the caller owns the configured one."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def _choose(self, store: SessionStore, conversation: Conversation, name: str) -> None:
        await store.save_state(conversation.id, _CHOSEN, name)
        self._chosen[conversation.id] = name
        self._fallen_back.pop(conversation.id, None)

    async def _client(self, name: str) -> LLMClient:
        """Return the one client of the model, however its name is written."""
        async with keyed_lock("models"):
            if name in self._clients:
                return self._clients[name]
            if self._build is None:
                raise ModelNotAvailable(f"Only {self.default_name} can be asked here.")
            built = await asyncio.to_thread(self._build, name)
            known = self._default if built.model == self.default_name else self._clients.get(built.model)
            if known is not None:
                await built.close()
                return known
            self._clients[built.model] = built
            return built


async def _ask(client: LLMClient) -> Usage:
    """Ask the model a short question to see whether it answers."""
    try:
        async with asyncio.timeout(_SECONDS), aclosing(client.stream(_QUESTION)) as events:
            async for event in events:
                if isinstance(event, Retrying):
                    raise ModelError(event.reason)
                if isinstance(event, Completion):
                    return event.usage
    except TimeoutError:
        raise ModelError(f"{_SECONDS:.0f} seconds are over.") from None
    raise ModelError("It ended without an answer.")
