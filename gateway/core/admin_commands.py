"""A command that the owner gives in somebody's conversation without writing in it: its answer is told there as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from agent.events import Notice, TurnDone, TurnFailed, TurnStarted
from agent.ids import new_id
from agent.store import Conversation
from gateway.core.events import Envelope
from gateway.core.gateway import Gateway
from gateway.core.inbox_codec import encode, inbox_id
from gateway.errors import CommandFailed, ShuttingDown
from gateway.store.ports import InboxMessage
from gateway.types import OWNER, Author, ChatMessage, InboundMessage, Place

PATIENCE = 20.0
"""Seconds."""
_TAKES_LONGER = (
    "It has its turn as soon as what came before it is done, and may take a while. Its chat will be told."
)
_AUTHOR = Author("dashboard", "The dashboard")
"""Should Hermes be stopped before the command has its turn: no platform lets anybody in by this number, so it is
forgotten at the next start."""


async def command(
    gateway: Gateway, conversation: Conversation, text: str, chat: Place | None, *, patience: float = PATIENCE
) -> str:
    """Its answer, or that it takes longer than anybody waits. In order with what people write there, and under the same
    lease. `chat` is where its replies are brought to. Raises CommandFailed with a sentence."""
    if gateway.is_closing:
        raise ShuttingDown
    inbound = InboundMessage(conversation.address, conversation.person, text, author=OWNER)
    bot = gateway.bots.get(conversation.address.platform)
    if bot and chat:
        inbound = await _taken_for_chat(gateway, inbound, chat)
        bot.follow(conversation.id, chat)
    elif bot:
        # Nobody knows any more where in the service it was; then nothing is brought, and nothing need be kept.
        inbound = replace(inbound, is_taken=True)
    with gateway.hub.watch(conversation.id, after=gateway.hub.last_number(conversation.id)) as envelopes:
        await gateway.receive(inbound, conversation)
        try:
            async with asyncio.timeout(patience):
                return await _answer_to(inbound.id, envelopes)
        except TimeoutError:
            return _TAKES_LONGER


async def _taken_for_chat(gateway: Gateway, inbound: InboundMessage, chat: Place) -> InboundMessage:
    """As if it had been written there, so that the answer is brought there."""
    platform, number = inbound.address.platform, new_id("cmd")
    message_id = inbox_id(platform, chat, number)
    payload = encode(ChatMessage(number, chat, _AUTHOR, inbound.text))
    await gateway.store.inbox.add(InboxMessage(message_id, platform, payload, chat))
    return replace(inbound, id=message_id, is_taken=True)


async def _answer_to(message_id: str, envelopes: AsyncIterator[Envelope]) -> str:
    answer, has_begun = "", False
    async for envelope in envelopes:
        match envelope.event:
            case TurnStarted(message_id=begun):
                has_begun = begun == message_id
            case Notice(text=text) if has_begun:
                answer = text
            case TurnDone() if has_begun:
                return answer
            case TurnFailed(error=error) if has_begun:
                raise CommandFailed(error)
    return _TAKES_LONGER
