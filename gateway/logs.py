"""Logging: named events with ids, for people or for machines. Message text stays out of it."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog


def configure_logging(level: str, style: Literal["human", "json"]) -> None:
    """Everything goes to standard error, so that standard output stays for answers."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    if style == "json":
        shared += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    else:
        shared.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()))
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries log request URLs and bodies at INFO; only their warnings are for the operator.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
