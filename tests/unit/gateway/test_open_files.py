"""The limit on open file descriptors."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Iterator

import pytest
import structlog

from gateway.open_files import LoopExceptionHandler, limit, raise_limit

_SOFT = 300


@pytest.fixture
def hard() -> Iterator[int]:
    """Lower the soft limit of this process; yield its hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_SOFT, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_is_raised_to_the_hard_limit(hard: int) -> None:
    assert limit() == _SOFT
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    assert raise_limit() == wanted
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (wanted, hard)


def test_a_higher_soft_limit_is_kept(hard: int) -> None:
    raised = raise_limit()
    assert raise_limit() == raised
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == hard


async def test_exhausted_descriptors_are_logged_once() -> None:
    loop, handler = asyncio.get_running_loop(), LoopExceptionHandler()
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            handler(loop, {"message": "accept", "exception": OSError(errno.EMFILE, "Too many open files")})
    assert [(line["event"], line["limit"]) for line in logged] == [("gateway.descriptors_exhausted", limit())]
