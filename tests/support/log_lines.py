"""Everything that is logged, as the operator reads it."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import structlog

from gateway.observability.logs import configure_logging

Style = Literal["human", "json"]


@contextmanager
def logging_as_configured(level: str, style: Style) -> Iterator[None]:
    """Configure logging as `hermes run` does, with all libraries unmuted; restore it at the end."""
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook, sys.unraisablehook)
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
        root.handlers = handlers
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
        root.setLevel(root_level)
