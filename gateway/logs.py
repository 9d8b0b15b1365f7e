"""Logging: named events with ids, for people or for machines. Message text stays out of it."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import stamina
import structlog


def configure_logging(level: str, style: Literal["human", "json"]) -> None:
    """Everything goes to standard error, so that standard output stays for answers.

    Tracebacks come without local variables: those hold keys and what people said.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    if style == "json":
        without_locals = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        shared += [
            structlog.processors.ExceptionRenderer(without_locals),
            structlog.processors.JSONRenderer(),
        ]
    else:
        plain = structlog.dev.plain_traceback
        shared.append(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain))
    structlog.configure(
        processors=shared,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # A retry is logged by the model client, with our ids; once is enough.
    stamina.instrumentation.set_on_retry_hooks([])
    # Libraries log request URLs and bodies at INFO; only their warnings are for the operator.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, force=True)
