"""Everything that is logged, as the operator reads it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import structlog

from gateway.logs import configure_logging

Style = Literal["human", "json"]


@contextmanager
def logging_as_configured(level: str, style: Style) -> Iterator[None]:
    """As `hermes run` does it, with every library unmuted against our own advice; afterwards all is as it was."""
    root, hook = logging.getLogger(), sys.excepthook
    handlers, root_level = root.handlers[:], root.level
    before = structlog.get_config()
    configure_logging(level, style)
    # A logger that a module keeps would go on writing here after the test.
    structlog.configure(cache_logger_on_first_use=False)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        structlog.configure(**before)
        root.handlers, sys.excepthook = handlers, hook
        root.setLevel(root_level)
