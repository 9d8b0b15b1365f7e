"""Waiting until something is there to be seen, and saying what was there instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tests.support.watch import Watch

T = TypeVar("T")


async def seen(
    watch: Watch, look: Callable[[], T | None], seconds: float, otherwise: Callable[[], str] | None = None
) -> T:
    """What `look` gives once it gives something; `otherwise` tells what there was when nothing came."""
    found: list[T] = []

    def something() -> bool:
        thing = look()
        if thing is not None:
            found.append(thing)
        return thing is not None

    try:
        await asyncio.wait_for(asyncio.wrap_future(watch.until(something)), seconds)
    except TimeoutError:
        shown = otherwise() if otherwise is not None else ""
        raise AssertionError(f"not seen within {seconds} s. {shown}") from None
    return found[0]
