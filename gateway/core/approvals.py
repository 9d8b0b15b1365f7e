"""Dangerous tool calls that wait for a person.

A request is bound to the conversation, the person and the exact call; it expires, and it is answered once. What was
granted for a conversation is forgotten when Hermes stops: after a restart it asks again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import get_args

import structlog

from agent.events import ApprovalAsked, ApprovalSettled, TurnEvent
from agent.tool import ApprovalRequest, Approve, Choice
from gateway.text.unicode import escape_confusables


def approval_parts(arguments: str) -> list[tuple[str, str]]:
    """The arguments with their names, text as it is. A surface keeps them apart, so that none can pose as another."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return [("", escape_confusables(arguments))]
    if not isinstance(given, dict):
        return [("", escape_confusables(arguments))]
    return [(escape_confusables(name), escape_confusables(_as_text(value))) for name, value in given.items()]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


log = structlog.get_logger(__name__)

_OVER = "This request is no longer open."
_NOT_YOURS = "Only the person it was asked of can decide this."
_DONE = {
    "once": "Approved for this once.",
    "conversation": "Approved; the same command is not asked about again in this conversation.",
    "deny": "Denied.",
}
_DENIED = (
    "the person did not allow this. Do not try it again in another way; ask them what they would rather have."
)
_MAY_NOT = (
    "this person may not have such a tool run here. In a group only people whom the owner has named in "
    "`allowed_users` or `admins` may."
)
_NO_ANSWER = "the person was asked and did not answer in time, so it was not run."


@dataclass(frozen=True, slots=True)
class _Pending:
    conversation_id: str
    person: str
    answer: asyncio.Future[Choice]


class Approvals:
    """What has been asked and not yet answered, and what was granted for good."""

    def __init__(self, publish: Callable[[str, TurnEvent], None], *, seconds: float = 600.0) -> None:
        self._publish = publish
        self._seconds = seconds
        self._pending: dict[str, _Pending] = {}
        self._granted: set[tuple[str, str, ApprovalRequest]] = set()

    def approver(
        self, conversation_id: str, person: str, still_allowed: Callable[[], Awaitable[bool]] | None = None
    ) -> Approve:
        """What a turn of this person asks. `still_allowed` tells whether they may speak here at all by now."""

        async def approve(request: ApprovalRequest) -> str:
            if still_allowed is not None and not await still_allowed():
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
        """What a turn asks whose author may not decide such things."""
        log.info("approval.refused", tool=request.tool)
        return _MAY_NOT

    def conversation_of(self, approval_id: str) -> str | None:
        pending = self._pending.get(approval_id)
        return pending.conversation_id if pending else None

    def decide(self, approval_id: str, choice: str, *, person: str, conversation_id: str) -> str:
        """A sentence for whoever pressed. What is unknown, foreign, over or malformed all sounds the same."""
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
            async with asyncio.timeout(self._seconds):
                choice = await pending.answer
        except TimeoutError:
            pass
        finally:
            # Also when the turn is stopped: a button pressed later must not count.
            del self._pending[approval_id]
            self._publish(conversation_id, ApprovalSettled(approval_id, choice or "expired"))
        return choice
