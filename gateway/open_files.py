"""The limit on open file descriptors: every connection needs one."""

from __future__ import annotations

import asyncio
import errno
import resource
from contextlib import suppress
from typing import Any

import structlog

log = structlog.get_logger(__name__)

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of a request that was never sent, because no socket could be opened for it."""

_WANTED = 65_536
_LOG_INTERVAL_SECONDS = 600.0


def raise_limit() -> int:
    """Raise the soft limit as far as the hard limit allows, at most to 65,536, and return the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _WANTED if soft == resource.RLIM_INFINITY else soft


class LoopExceptionHandler:
    """Exception handler of the event loop that logs exhausted descriptors at most every ten minutes."""

    def __init__(self) -> None:
        self._logged_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in OUT_OF_RESOURCES:
            loop.default_exception_handler(context)
        elif loop.time() - self._logged_at > _LOG_INTERVAL_SECONDS:
            self._logged_at = loop.time()
            log.error("gateway.descriptors_exhausted", error=error.strerror, limit=limit())
