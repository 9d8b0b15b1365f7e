"""Asks a person to approve dangerous tool calls.

A request is bound to the conversation, the person and the exact call; it expires, and it is answered once. A grant for
a conversation is forgotten when Hermes stops.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import get_args

import structlog

from agent.events import ApprovalAsked, ApprovalSettled, TurnEvent
from agent.tool import ApprovalRequest, Approve, Choice
from gateway.text.unicode import escape_confusables

log = structlog.get_logger(__name__)


def approval_parts(arguments: str) -> list[tuple[str, str]]:
    """Return each argument's name and value for people to read. A surface shows them apart, so that no value can look
    like another argument."""
    given: object = None
    with suppress(ValueError, RecursionError):
        given = json.loads(arguments)
    if not isinstance(given, dict):
        return [("", escape_confusables(arguments))]
    return [(escape_confusables(name), escape_confusables(_as_text(value))) for name, value in given.items()]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_OVER = "This request is no longer open."
_NOT_YOURS = "Only the person who was asked can decide this."
_DONE = {
    "once": "Approved once.",
    "conversation": "Approved; Hermes does not ask again about the same command in this conversation.",
    "deny": "Denied.",
}
_DENIED = (
    "the person did not allow this. Do not try it again in another way; ask the person what to do instead."
)
_MAY_NOT = "this person may not approve such a tool here. In a group, only people in `allowed_users` or `admins` may."
_NO_ANSWER = "the person did not answer in time, so the tool was not run."


@dataclass(frozen=True, slots=True)
class _Pending:
    conversation_id: str
    person: str
    answer: asyncio.Future[Choice]


class Approvals:
    """The open requests, and the calls that were approved for a whole conversation."""

    def __init__(self, publish: Callable[[str, TurnEvent], None], *, seconds: float = 600.0) -> None:
        self._publish = publish
        self._seconds = seconds
        self._pending: dict[str, _Pending] = {}
        self._granted: set[tuple[str, str, ApprovalRequest]] = set()

    def approver(
        self, conversation_id: str, person: str, may_speak: Callable[[], Awaitable[bool]] | None = None
    ) -> Approve:
        """Return the function that a turn of this person calls. `may_speak`: whether the person still has access."""

        async def approve(request: ApprovalRequest) -> str:
            if may_speak is not None and not await may_speak():
                return await self.refuse(request)
            if (conversation_id, person, request) in self._granted:
                return ""
            choice = await self._ask(conversation_id, person, request)
            if choice == "conversation":
                self._granted.add((conversation_id, person, request))
            log.info("approval.settled", tool=request.tool, choice=choice or "expired")
            if choice is None:
                return _NO_ANSWER
            return _DENIED if choice == "deny" else ""

        return approve

    async def refuse(self, request: ApprovalRequest) -> str:
        """Refuse a call in a turn whose author may not approve it."""
        log.info("approval.refused", tool=request.tool)
        return _MAY_NOT

    def conversation_of(self, approval_id: str) -> str | None:
        pending = self._pending.get(approval_id)
        return pending.conversation_id if pending else None

    def decide(self, approval_id: str, choice: str, *, person: str, conversation_id: str) -> str:
        """Settle a request, and return a sentence for the person. An unknown, foreign, closed or malformed request gets
        the same sentence."""
        pending = self._pending.get(approval_id)
        if pending is None or pending.conversation_id != conversation_id or pending.answer.done():
            return _OVER
        for known in get_args(Choice):
            if choice == known:
                if pending.person != person:
                    return _NOT_YOURS
                pending.answer.set_result(known)
                return _DONE[known]
        return _OVER

    async def _ask(self, conversation_id: str, person: str, request: ApprovalRequest) -> Choice | None:
        approval_id = secrets.token_urlsafe(12)
        pending = _Pending(conversation_id, person, asyncio.get_running_loop().create_future())
        self._pending[approval_id] = pending
        expires_at = time.time() + self._seconds
        self._publish(
            conversation_id, ApprovalAsked(approval_id, request.tool, request.arguments, person, expires_at)
        )
        choice: Choice | None = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    choice = await pending.answer
        finally:
            # Also when the turn is stopped, so that a button pressed later does not count.
            del self._pending[approval_id]
            self._publish(conversation_id, ApprovalSettled(approval_id, choice or "expired"))
        return choice
