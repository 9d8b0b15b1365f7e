"""Asking Telegram for updates, over and over. An update is confirmed by the poll that follows, once it is taken in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from telegram import Bot, Update
from telegram.error import Conflict, TelegramError

from gateway.platforms.telegram.failures import WentSilent
from gateway.platforms.telegram.intake import Intake
from gateway.platforms.telegram.updates import ALLOWED_UPDATES

_GOODBYE_SECONDS = 2.0


class Polling:
    """What it knows outlives a connection: where it was, and whether somebody else polls too."""

    def __init__(self, *, seconds: int, margin: float) -> None:
        self._seconds = seconds
        self._margin = margin
        self._offset = 0
        self._contested = False

    async def run(self, bot: Bot, intake: Intake, up: Callable[[], None]) -> None:
        # Without dropping what waits: a webhook that somebody set must not cost a message.
        await bot.delete_webhook()
        try:
            await self._poll(bot, intake, up)
        except Conflict:
            self._contested = True
            raise
        except asyncio.CancelledError:
            await self._confirm(bot)
            raise

    async def _poll(self, bot: Bot, intake: Intake, up: Callable[[], None]) -> None:
        seconds = 0  # the first round trip only shows that it works
        while True:
            updates = await self._round_trip(bot, seconds)
            # Where two poll, each short poll succeeds and each long one is ended by the other's.
            if seconds or not self._contested:
                self._contested = False
                up()
            # Not confirmed before all are kept: a failure brings the whole lot again.
            await intake.take(updates)
            self._offset = max([self._offset, *(update.update_id + 1 for update in updates)])
            seconds = self._seconds

    async def _round_trip(self, bot: Bot, seconds: int) -> tuple[Update, ...]:
        try:
            async with asyncio.timeout(seconds + self._margin):
                return await bot.get_updates(
                    offset=self._offset, timeout=seconds, allowed_updates=ALLOWED_UPDATES
                )
        except TimeoutError:
            raise WentSilent from None

    async def _confirm(self, bot: Bot) -> None:
        """So that the next start does not get the last ones again."""
        if self._offset:
            with suppress(TelegramError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await bot.get_updates(offset=self._offset, limit=1, timeout=0)
