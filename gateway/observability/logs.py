"""Logging: named events with ids, for people or for machines. Message text stays out of it, and so do secrets.

Whatever is written passes `without_secrets` first: our events and the lines of libraries, values and tracebacks, in
both formats and at every level. A URL with a bot's token in it, or a key that an exception quotes, is `[redacted]`.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import stamina
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from agent.redaction import REDACTED, Rule, own_rules, redact, rules_for
from gateway.observability.log_file import Kept

_NUMBERS = bool | int | float | None
_SECRET_NAMES = frozenset({"authorization", "api_key", "password", "secret", "token"})
_DEEPEST = 8

Listener = Callable[[str, object], None]
"""Gets the name of a warning or an error and what its line calls `error`; on whatever thread wrote it."""

_listeners: list[Listener] = []


@contextmanager
def on_warning(listener: Listener) -> Iterator[None]:
    """To every warning and error, also where `logging.level` keeps warnings out of the log."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def configure_logging(level: str, style: Literal["human", "json"], *, file: Path | None = None) -> None:
    """Everything goes to standard error, so that standard output stays for answers; and to `file`, if there is one.

    Tracebacks come without local variables: those hold keys and what people said.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    heard: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        _tell_listeners,
    ]
    facts: list[Processor] = [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        _exceptions(style),
    ]
    # Exceptions become text before that text is looked at: a traceback is where most secrets are.
    kept = [Kept(file)] if file else []
    for earlier in _crashes.kept:
        earlier.close()
    _crashes.kept = kept
    line: list[Processor] = [without_secrets, *kept, _line(style)]
    structlog.configure(
        processors=[*heard, _nothing_below(least), *facts, *line],
        wrapper_class=structlog.make_filtering_bound_logger(min(least, logging.WARNING)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        # Or whoever has logged once would not hear of another level.
        cache_logger_on_first_use=False,
    )
    # A retry is logged by the model client, with our ids; once is enough.
    stamina.instrumentation.set_on_retry_hooks([])
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*heard, *facts, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *line],
        )
    )
    # Libraries log request URLs and bodies at INFO; only their warnings are for the operator.
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _last_words
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _last_words_of_a_thread
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unheard_words


def _tell_listeners(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    if event["level"] in ("warning", "error", "critical"):
        record = event.get("_record")
        # A library's line is a sentence, and may quote anything.
        kind = f"library:{record.name.partition('.')[0]}" if record else str(event["event"])
        for listener in _listeners:
            listener(kind, event.get("error"))
    return event


def _nothing_below(least: int) -> Processor:
    levels = logging.getLevelNamesMapping()

    def processor(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if levels[event["level"].upper()] < least:
            raise structlog.DropEvent
        return event

    return processor


def without_secrets(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A structlog processor: every value, however deep, and every name."""
    plain: EventDict = _plain(event)
    # All texts at once, because nearly every line is free of secrets and most of the cost is to find out.
    whole = "\n".join(_texts(plain))
    rules = [rule for rule in rules_for(whole, own_rules()) if any(True for _ in rule.find(whole))]
    return _clean(plain, rules) if rules else plain


def _plain(value: Any, depth: int = 0) -> Any:
    """With nothing but texts, numbers, lists and mappings in it; everything else as a renderer would write it."""
    if isinstance(value, str | _NUMBERS):
        return value
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {
            str(name): REDACTED
            if name in _SECRET_NAMES and isinstance(item, str)
            else _plain(item, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset) and depth < _DEEPEST:
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


class _Crashes:
    """Where the last words of a process are kept beside standard error."""

    kept: Sequence[Kept] = ()


_crashes = _Crashes()


def _last_words(
    kind: type[BaseException], exc: BaseException | None, trace: TracebackType | None, where: str = ""
) -> None:
    """A bug that ends the process keeps its traceback, but not the secrets in it."""
    words = redact(where + "".join(traceback.format_exception(kind, exc, trace)), own_rules())
    sys.stderr.write(words)
    for kept in _crashes.kept:
        kept.write({"event": "hermes.crashed", "level": "critical", "exception": words})


def _last_words_of_a_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_type is not SystemExit:
        name = ended.thread.name if ended.thread else "that is gone"
        _last_words(ended.exc_type, ended.exc_value, ended.exc_traceback, f"Exception in thread {name}:\n")


def _unheard_words(fault: sys.UnraisableHookArgs) -> None:
    """Of what fails where nobody can be told, as when an object is thrown away."""
    what = fault.err_msg or "Exception ignored in"
    _last_words(fault.exc_type, fault.exc_value, fault.exc_traceback, f"{what}: {fault.object!r}\n")
