"""Logging: named events with ids, for people or for machines, without message text and without secrets.

Every line passes `redact_event` before it is written: our events and the lines of libraries, values and tracebacks, in
both formats and at every level. A URL with a bot token, or a key that an exception quotes, becomes `[redacted]`.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import stamina
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from agent.redaction import REDACTED, Rule, own_rules, redact, rules_for

MAX_BYTES = 2_000_000
BACKUPS = 4
"""Rotated files that are kept beside the current one: `hermes.log.1` is the newest."""


def log_file(home: Path) -> Path:
    return home / "logs" / "hermes.log"


def all_files(path: Path) -> list[Path]:
    """List the existing log files, oldest first."""
    rotated = (path.with_name(f"{path.name}.{number}") for number in range(BACKUPS, 0, -1))
    return [file for file in (*rotated, path) if file.exists()]


def parse_events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Parse the lines of a log file; skip damaged lines, such as one that a power cut truncated."""
    for line in lines:
        with suppress(ValueError, RecursionError):
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


class JsonLogFile(RotatingFileHandler):
    """A structlog processor that appends each event to a rotating file of JSON lines and passes the event on.

    Only the owner can read the file. If it cannot be written (a full disk, say), standard error still has the line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(
            path, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace", delay=True
        )

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        self.write(event)
        return event

    def write(self, event: EventDict) -> None:
        event = {"timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}", **event}
        line = json.dumps(event, ensure_ascii=False, default=str)
        self.handle(logging.makeLogRecord({"msg": line}))

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            if self.stream is None:
                self._create_private()
            super().emit(record)

    def doRollover(self) -> None:
        super().doRollover()
        self._create_private()

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore the error: standard error has the line."""

    def _create_private(self) -> None:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        self._path.touch(mode=0o600)


_NUMBERS = bool | int | float | None
_SECRET_NAMES = frozenset({"authorization", "api_key", "password", "secret", "token"})
_MAX_DEPTH = 8

Listener = Callable[[str, object], None]
"""Takes the name of a warning or an error and its `error` value; called on the thread that logged it."""

_listeners: list[Listener] = []

_log_files: list[JsonLogFile] = []
"""The current log file, if any."""


@contextmanager
def on_warning(listener: Listener) -> Iterator[None]:
    """Call `listener` for every warning and error, also where `logging.level` keeps warnings out of the log."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def configure_logging(level: str, style: Literal["human", "json"], *, file: Path | None = None) -> None:
    """Log to standard error, and to `file` if given; standard output stays free for answers.

    Tracebacks come without local variables: those hold keys and what people said.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    before_filter: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        _notify_listeners,
    ]
    details: list[Processor] = [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        _exceptions(style),
    ]
    while _log_files:
        _log_files.pop().close()
    if file:
        _log_files.append(JsonLogFile(file))
    # Exceptions become text before the text is redacted: a traceback is where most secrets are.
    output: list[Processor] = [redact_event, *_log_files, _line(style)]
    structlog.configure(
        processors=[*before_filter, _drop_below(threshold), *details, *output],
        wrapper_class=structlog.make_filtering_bound_logger(min(threshold, logging.WARNING)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # A cached logger would keep its first level after a reload of the configuration.
        cache_logger_on_first_use=False,
    )
    # The model client logs its retries itself, with our ids.
    stamina.instrumentation.set_on_retry_hooks([])
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*before_filter, *details, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *output],
        )
    )
    # Libraries log request URLs and bodies at INFO; the operator needs only their warnings.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _excepthook
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _thread_excepthook
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unraisablehook


def _notify_listeners(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    if event["level"] in ("warning", "error", "critical"):
        record = event.get("_record")
        # The line of a library is a sentence and may quote anything.
        kind = f"library:{record.name.partition('.')[0]}" if record else str(event["event"])
        for listener in _listeners:
            listener(kind, event.get("error"))
    return event


def _drop_below(threshold: int) -> Processor:
    levels = logging.getLevelNamesMapping()

    def processor(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if levels[event["level"].upper()] < threshold:
            raise structlog.DropEvent
        return event

    return processor


def redact_event(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Redact secrets in every name and value of an event, at any depth. A structlog processor."""
    plain: EventDict = _plain(event)
    # All texts are searched at once: nearly every line is free of secrets, and the search is most of the cost.
    whole = "\n".join(_texts(plain))
    rules = [rule for rule in rules_for(whole, own_rules()) if any(True for _ in rule.find(whole))]
    return _clean(plain, rules) if rules else plain


def _plain(value: Any, depth: int = 0) -> Any:
    """Reduce a value to strings, numbers, lists and dictionaries; anything else becomes its `repr`."""
    if isinstance(value, str | _NUMBERS):
        return value
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        return {
            str(name): REDACTED
            if name in _SECRET_NAMES and isinstance(item, str)
            else _plain(item, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset) and depth < _MAX_DEPTH:
        return [_plain(item, depth + 1) for item in value]
    return repr(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _clean(value: Any, rules: Sequence[Rule]) -> Any:
    if isinstance(value, str):
        return redact(value, rules)
    if isinstance(value, dict):
        return {redact(name, rules): _clean(item, rules) for name, item in value.items()}
    return [_clean(item, rules) for item in value] if isinstance(value, list) else value


def _exceptions(style: Literal["human", "json"]) -> Processor:
    if style == "human":
        return structlog.processors.format_exc_info
    without_locals = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return structlog.processors.ExceptionRenderer(without_locals)


def _line(style: Literal["human", "json"]) -> Processor:
    if style == "json":
        return structlog.processors.JSONRenderer()
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)


def _excepthook(
    kind: type[BaseException], exc: BaseException | None, trace: TracebackType | None, context: str = ""
) -> None:
    """Write the traceback of an uncaught exception, with its secrets redacted."""
    text = redact(context + "".join(traceback.format_exception(kind, exc, trace)), own_rules())
    sys.stderr.write(text)
    for file in _log_files:
        file.write({"event": "hermes.crashed", "level": "critical", "exception": text})


def _thread_excepthook(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_type is not SystemExit:
        name = ended.thread.name if ended.thread else "unknown"
        _excepthook(ended.exc_type, ended.exc_value, ended.exc_traceback, f"Exception in thread {name}:\n")


def _unraisablehook(fault: sys.UnraisableHookArgs) -> None:
    """Write an exception that Python cannot raise, such as one of a destructor."""
    what = fault.err_msg or "Exception ignored in"
    _excepthook(fault.exc_type, fault.exc_value, fault.exc_traceback, f"{what}: {fault.object!r}\n")
