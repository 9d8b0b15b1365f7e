"""Which conversations are seen here: the owner's own, from the page and the terminal. No others exist."""

from __future__ import annotations

import asyncio
from itertools import chain

from agent.errors import NotFound
from agent.ids import new_id
from agent.messages import Message
from agent.store import Address, Conversation, Overview
from gateway.core.gateway import Gateway
from gateway.types import ONE_SHOT_PREFIX, OWNER

PLATFORMS = ("web", "terminal")

_LISTED = 50
_LOOKED_THROUGH = 500
"""Conversations of one platform among which those that are listed are found."""


class OwnerConversations:
    """The owner's conversations in the store."""

    def __init__(self, gateway: Gateway) -> None:
        self._store = gateway.store

    async def open(self, platform: str, chat_id: str | None) -> Conversation:
        """The conversation of that chat, or a new one."""
        return await self._store.sessions.open_conversation(
            Address(platform, chat_id or new_id("chat")), person=OWNER
        )

    async def conversation(self, conversation_id: str) -> Conversation:
        """Raises NotFound, and says the same for what is missing and for what belongs to somebody else."""
        conversation = await self._store.sessions.conversation(conversation_id)
        if conversation.person != OWNER or conversation.address.platform not in PLATFORMS:
            raise NotFound
        return conversation

    async def overviews(self) -> list[Overview]:
        """Newest activity first; neither chats in which nothing was said nor single questions."""
        lists = await asyncio.gather(
            *(
                self._store.sessions.conversations(person=OWNER, platform=name, limit=_LOOKED_THROUGH)
                for name in PLATFORMS
            )
        )
        listed = filter(_is_listed, chain(*lists))
        return sorted(listed, key=lambda overview: overview.updated_at, reverse=True)[:_LISTED]

    async def latest_on_the_web(self) -> Overview | None:
        found = (each for each in await self.overviews() if each.conversation.address.platform == "web")
        return next(found, None)

    async def transcript(self, conversation_id: str, limit: int | None) -> list[Message]:
        return await self._store.sessions.transcript(conversation_id, limit=limit)

    async def whole_turns(self, conversation_id: str, limit: int) -> tuple[list[Message], bool]:
        """About the newest `limit` messages, from something the person said; and whether more came before."""
        messages = await self.transcript(conversation_id, limit)
        if len(messages) < limit:
            return messages, False
        first = next((at for at, message in enumerate(messages) if message.role == "user"), None)
        if first is None:
            return await self.transcript(conversation_id, None), False
        return messages[first:], True


def _is_listed(overview: Overview) -> bool:
    return overview.messages > 0 and not overview.conversation.address.chat_id.startswith(ONE_SHOT_PREFIX)
