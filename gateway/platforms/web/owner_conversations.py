"""The conversations of the owner on the web and in the terminal: the only ones the chat page and the API can see."""

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

_MAX_LISTED = 50
_MAX_SEARCHED = 500
"""Conversations read per platform, before empty ones and single questions are filtered out."""


class OwnerConversations:
    """Access to the conversations of the owner in the store."""

    def __init__(self, gateway: Gateway) -> None:
        self._store = gateway.store

    async def open(self, platform: str, chat_id: str | None) -> Conversation:
        """Return the conversation of a chat; start a new one without a `chat_id`."""
        return await self._store.sessions.open_conversation(
            Address(platform, chat_id or new_id("chat")), person=OWNER
        )

    async def conversation(self, conversation_id: str) -> Conversation:
        """Return a conversation; raise NotFound if it does not exist or belongs to another person."""
        conversation = await self._store.sessions.conversation(conversation_id)
        if conversation.person != OWNER or conversation.address.platform not in PLATFORMS:
            raise NotFound
        return conversation

    async def overviews(self) -> list[Overview]:
        """List conversations by latest activity, without empty ones and single questions."""
        lists = await asyncio.gather(
            *(
                self._store.sessions.conversations(person=OWNER, platform=name, limit=_MAX_SEARCHED)
                for name in PLATFORMS
            )
        )
        listed = filter(_is_listed, chain(*lists))
        return sorted(listed, key=lambda overview: overview.updated_at, reverse=True)[:_MAX_LISTED]

    async def transcript(self, conversation_id: str, limit: int | None) -> list[Message]:
        return await self._store.sessions.transcript(conversation_id, limit=limit)

    async def whole_turns(self, conversation_id: str, limit: int) -> tuple[list[Message], bool]:
        """Return about `limit` of the newest messages, starting with one of the person, and whether there are older
        ones."""
        messages = await self.transcript(conversation_id, limit)
        if len(messages) < limit:
            return messages, False
        first = next((at for at, message in enumerate(messages) if message.role == "user"), None)
        if first is None:
            return await self.transcript(conversation_id, None), False
        return messages[first:], True


def _is_listed(overview: Overview) -> bool:
    return overview.messages > 0 and not overview.conversation.address.chat_id.startswith(ONE_SHOT_PREFIX)
