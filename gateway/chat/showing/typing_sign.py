"""The sign that somebody is writing."""

from __future__ import annotations

import asyncio

import structlog

from gateway.chat.contract import ChatPort
from gateway.chat.errors import DeliveryError, SlowDown
from gateway.chat.showing.scene import Scene
from gateway.chat.showing.timing import Timing

log = structlog.get_logger(__name__)


class TypingSign:
    """Given again and again for as long as a turn works and nothing else shows it. Nobody waits for it."""

    def __init__(self, port: ChatPort, scene: Scene, timing: Timing) -> None:
        self._port = port
        self._scene = scene
        self._timing = timing
        self._task: asyncio.Task[None] | None = None

    def switch(self, *, on: bool) -> None:
        if on and self._task is None:
            self._task = asyncio.create_task(self._give(), name="typing sign")
        elif not on and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _give(self) -> None:
        await asyncio.sleep(self._timing.typing_after)
        while True:
            pause = self._timing.typing_every
            venue = self._scene.venue
            if self._scene.wants_typing and venue.held_until <= asyncio.get_running_loop().time():
                try:
                    await self._port.typing(venue.place)
                except SlowDown as error:
                    pause = max(self._timing.typing_cooldown, error.retry_after)
                except DeliveryError as error:
                    log.debug("chat.no_typing", platform=self._port.platform, error=type(error).__name__)
                    pause = self._timing.typing_cooldown
            await asyncio.sleep(pause)
