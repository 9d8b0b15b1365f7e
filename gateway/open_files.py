"""File descriptors: every connection takes one, and a process that has none left can neither hear nor answer."""

from __future__ import annotations

import asyncio
import errno
import resource
from contextlib import suppress
from typing import Any

import structlog

log = structlog.get_logger(__name__)

OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of a call for which nothing was sent: there was no socket to send it by."""

_ENOUGH = 65_536
_SAID_AGAIN_SECONDS = 600.0


def raise_limit() -> int:
    """Raise the soft limit as far as the hard one allows. Gives how many descriptors the process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


class LoopErrors:
    """An exception handler of an event loop that says once, and not at every connection, that descriptors ran out."""

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in OUT_OF_RESOURCES:
            loop.default_exception_handler(context)
        elif loop.time() - self._said_at > _SAID_AGAIN_SECONDS:
            self._said_at = loop.time()
            log.error("gateway.out_of_descriptors", error=error.strerror, limit=limit())
