"""Pending updates of a bot: confirmed by a poll's offset, or pushed to its webhook."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.fakes.telegram.errors import conflict

Update = dict[str, Any]

OPTIONAL = frozenset(("chat_member", "message_reaction", "message_reaction_count"))
"""Kinds a bot gets only when it asks for them by name."""
LONGEST_POLL = 50
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
WEBHOOK_PATIENCE = 0.05
"""Seconds between two attempts to push; Telegram waits longer."""


@dataclass(slots=True)
class Webhook:
    url: str
    secret: str = ""
    max_connections: int = 40
    last_error: str = ""
    last_error_at: int = 0


class UpdateQueue:
    def __init__(self) -> None:
        self.history: list[Update] = []
        """Every update there ever was."""
        self.pending: list[Update] = []
        """Not yet confirmed."""
        self.allowed: frozenset[str] | None = None
        """None: all but the optional kinds."""
        self.webhook: Webhook | None = None
        self.dropped: list[Update] = []
        """Thrown away by `drop_pending_updates`."""
        self._numbers = itertools.count(100_001)
        self._once: list[Update] = []
        self._held = False
        self._poll: asyncio.Future[None] | None = None
        self._wake = asyncio.Event()
        self._pusher: asyncio.Task[None] | None = None

    def wants(self, kind: str) -> bool:
        return kind not in OPTIONAL if self.allowed is None else kind in self.allowed

    def allow(self, kinds: list[Any] | None) -> None:
        """An empty list means the default; what was not mentioned stays as it was."""
        if kinds is not None:
            self.allowed = frozenset(str(kind) for kind in kinds) if kinds else None

    def add(self, kind: str, payload: dict[str, Any]) -> Update | None:
        """A new update, or None where the bot did not ask for its kind."""
        if not self.wants(kind):
            return None
        update = {"update_id": next(self._numbers), kind: payload}
        self.history.append(update)
        self.pending.append(update)
        self._announce()
        return update

    def repeat(self, updates: Iterable[Update]) -> None:
        """Deliver these again, in this order, even if they were confirmed."""
        self._once.extend(updates)
        self._announce()

    def hold(self) -> None:
        """Nothing is delivered until `release`."""
        self._held = True

    def release(self, order: Callable[[list[Update]], Iterable[Update]] | None = None) -> None:
        """Delivers what was held back; in another `order` it is delivered once, without waiting for an offset."""
        self._held = False
        if order is not None:
            held, self.pending = self.pending, []
            self._once.extend(order(held))
        self._announce()

    async def take(self, offset: int, limit: int, seconds: float) -> list[Update]:
        """One getUpdates."""
        if self.webhook is not None:
            raise conflict(
                "can't use getUpdates method while webhook is active; "
                "use deleteWebhook to delete the webhook first"
            )
        self._end_poll(
            "terminated by other getUpdates request; make sure that only one bot instance is running"
        )
        self._confirm(offset)
        ready = self._ready(limit)
        if ready or seconds <= 0:
            return ready
        return await self._long_poll(limit, min(seconds, LONGEST_POLL))

    async def _long_poll(self, limit: int, seconds: float) -> list[Update]:
        poll: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._poll = poll
        try:
            await asyncio.wait_for(poll, seconds)
        except TimeoutError:
            return []
        finally:
            if self._poll is poll:
                self._poll = None
        return self._ready(limit)

    def drop_pending(self) -> None:
        self.dropped += self.pending
        self.pending = []

    def set_webhook(self, webhook: Webhook | None) -> None:
        self._end_poll("terminated by setWebhook request")
        self._stop_pushing()
        self.webhook = webhook
        if webhook is not None:
            self._pusher = asyncio.get_running_loop().create_task(self._push(webhook))

    async def close(self) -> None:
        """Nothing is pushed any more, and the pushing has come to its end."""
        pusher = self._stop_pushing()
        if pusher is not None:
            await asyncio.wait([pusher])

    def _stop_pushing(self) -> asyncio.Task[None] | None:
        pusher, self._pusher = self._pusher, None
        if pusher is not None:
            pusher.cancel()
        return pusher

    def _confirm(self, offset: int) -> None:
        if offset < 0:
            self.pending = self.pending[offset:]
        else:
            self.pending = [update for update in self.pending if update["update_id"] >= offset]

    def _ready(self, limit: int) -> list[Update]:
        if self._held:
            return []
        once, self._once = self._once[:limit], self._once[limit:]
        return once + self.pending[: limit - len(once)]

    def _announce(self) -> None:
        if self._held:
            return
        self._wake.set()
        if self._poll is not None and not self._poll.done():
            self._poll.set_result(None)

    def _end_poll(self, reason: str) -> None:
        if self._poll is not None and not self._poll.done():
            self._poll.set_exception(conflict(reason))

    async def _push(self, webhook: Webhook) -> None:
        headers = {SECRET_HEADER: webhook.secret} if webhook.secret else {}
        async with aiohttp.ClientSession(headers=headers) as http:
            while True:
                ready = self._ready(1)
                if not ready:
                    self._wake.clear()
                    await self._wake.wait()
                elif await self._pushed(http, webhook, ready[0]):
                    self.pending = [update for update in self.pending if update is not ready[0]]
                else:
                    await asyncio.sleep(WEBHOOK_PATIENCE)

    async def _pushed(self, http: aiohttp.ClientSession, webhook: Webhook, update: Update) -> bool:
        try:
            async with http.post(webhook.url, json=update, allow_redirects=False) as response:
                if 200 <= response.status < 300:
                    return True
                webhook.last_error = f"Wrong response from the webhook: {response.status} {response.reason}"
        except aiohttp.ClientError as error:
            webhook.last_error = f"Connection failed: {type(error).__name__}"
        webhook.last_error_at = int(time.time())
        return False
