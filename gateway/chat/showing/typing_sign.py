"""The sign that somebody is writing."""

from __future__ import annotations

import asyncio

import structlog

from gateway.chat.errors import DeliveryError, SlowDown
from gateway.chat.showing.scene import Scene

log = structlog.get_logger(__name__)


class TypingSign:
    """Given again and again for as long as a turn works and nothing else shows it. Nobody waits for it."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._task: asyncio.Task[None] | None = None

    def switch(self, *, on: bool) -> None:
        if on and self._task is None:
            self._task = asyncio.create_task(self._give(), name="typing sign")
        elif not on and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _give(self) -> None:
        await asyncio.sleep(self._scene.venue.timing.typing_after)
        while True:
            venue = self._scene.venue
            pause = venue.timing.typing_every
            if self._scene.wants_typing and venue.pace.held_until <= asyncio.get_running_loop().time():
                try:
                    await venue.port.typing(venue.place)
                except SlowDown as error:
                    pause = max(venue.timing.typing_cooldown, error.retry_after)
                except DeliveryError as error:
                    log.debug("chat.no_typing", platform=venue.port.platform, error=type(error).__name__)
                    pause = venue.timing.typing_cooldown
            await asyncio.sleep(pause)
