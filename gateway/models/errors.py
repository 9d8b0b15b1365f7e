"""Translates litellm's errors into ModelError, by one table."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from socket import gaierror
from typing import Any

from agent.errors import (
    AuthenticationFailed,
    BadRequest,
    ContextOverflow,
    KeyMissing,
    ModelError,
    ModelNotAvailable,
    ModelOverloaded,
    NetworkFailed,
    QuotaExhausted,
    RateLimited,
)
from gateway.models.overflow import is_overflow, is_unexplained, limit_in

Condition = Callable[[Exception], bool]

_NO_CREDIT = (
    r"insufficient_quota|exceeded your current quota|credit balance|insufficient (credits|balance|funds)"
)
_NO_KEY = r"missing credentials|missing \w+ api[ _]?key|no key is set|_API_KEY is not set|unable to locate credentials"
_NO_PROVIDER = "LLM Provider NOT provided"
_UNKNOWN_MODEL = rf"{_NO_PROVIDER}|model.{{0,80}}(does not exist|not found|not supported)|model_not_found"
_LONGEST = 10_000
"""Characters of an error that are examined. A longer error quotes a conversation, and some patterns take
quadratic time."""
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ASK_LATER = r"(?:retry|try again) (?:in|after) ([\d.]+) ?s"


def _status(*statuses: int) -> Condition:
    return lambda exc: getattr(exc, "status_code", None) in statuses


def _matches(pattern: str, *statuses: int) -> Condition:
    """Match the text only for these statuses, because an error can quote the user's text."""
    return lambda exc: (
        _status(*statuses)(exc)
        and re.search(pattern, str(exc)[:_LONGEST], re.IGNORECASE | re.DOTALL) is not None
    )


def _overflows(exc: Exception) -> bool:
    return is_overflow(_error_text(exc), getattr(exc, "status_code", None))


def _comes_from(*causes: type[BaseException]) -> Condition:
    return lambda exc: any(isinstance(cause, causes) for cause in _chain(exc))


def _never_answered(exc: Exception) -> bool:
    """Tell whether no response came. litellm reports an internal server error caused by the transport's error."""
    import httpx  # noqa: PLC0415 - it costs 60 ms, and only a process that has called a model gets here

    if getattr(exc, "litellm_response_headers", None) is not None:
        return False
    return _comes_from(httpx.TransportError, ConnectionError, TimeoutError)(exc)


def _never_connected(exc: Exception) -> bool:
    """Tell whether nothing was sent, so that the call costs nothing."""
    import httpx  # noqa: PLC0415 - as above

    unconnected = (
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.PoolTimeout,
        ConnectionRefusedError,
        gaierror,
    )
    return _comes_from(*unconnected)(exc)


TABLE: tuple[tuple[Condition, type[ModelError]], ...] = (
    (_comes_from(ImportError), ModelNotAvailable),
    (_never_answered, NetworkFailed),
    (_matches(_NO_KEY, 401, 500), KeyMissing),
    (_overflows, ContextOverflow),
    (_matches(_ASK_LATER, 429), RateLimited),
    (_matches(_NO_CREDIT, 400, 403, 429), QuotaExhausted),
    (_matches(_UNKNOWN_MODEL, 400), ModelNotAvailable),
    (_status(402), QuotaExhausted),
    (_status(401, 403), AuthenticationFailed),
    (_status(404), ModelNotAvailable),
    (_status(408), NetworkFailed),
    (_status(429), RateLimited),
    (_status(*range(400, 500)), BadRequest),
)
"""The first row that matches decides. An error that matches no row is ModelOverloaded."""


def translate(exc: Exception, *, model: str, api_key: str | None = None) -> ModelError:
    """Return the ModelError for an error of litellm, and remove the key from the original, which stays as the cause."""
    exc = getattr(exc, "original_exception", None) or exc
    for link in _chain(exc):
        _redact_in_place(link, api_key)
    kind = next((kind for holds, kind in TABLE if holds(exc)), ModelOverloaded)
    # litellm's own text is advice for programmers.
    detail = (
        f"{model} said: {_message(exc)}"
        if _NO_PROVIDER not in str(exc)
        else f"No provider is known for `{model}`."
    )
    if kind is RateLimited:
        return RateLimited(detail, retry_after=_retry_after(exc))
    if kind is NetworkFailed:
        return NetworkFailed(detail, was_sent=not _never_connected(exc))
    if kind is KeyMissing:
        named = re.search(r"\b[A-Z0-9_]+_API_KEY\b", str(exc))
        return KeyMissing(f"{model} needs {named[0] if named else 'credentials of its provider'}.")
    if kind is ContextOverflow:
        return ContextOverflow(detail, limit=limit_in(_error_text(exc)))
    if kind is BadRequest:
        return BadRequest(detail, unexplained=is_unexplained(_message(exc)))
    return kind(detail)


def _error_text(exc: Exception) -> str:
    """Return everything that the provider sent: its sentence, codes and fields."""
    bodies = (getattr(link, "body", None) for link in _chain(exc))
    fields = (json.dumps(body, ensure_ascii=False) for body in bodies if isinstance(body, dict))
    text = _UNICODE.sub(lambda found: chr(int(found[1], 16)), _without_conversation(exc))
    return "\n".join(part[:_LONGEST] for part in (text, *fields))


def _without_conversation(exc: Exception) -> str:
    """Return the provider's text without the conversation that litellm may quote."""
    return _decode_bytes_literal(str(exc).partition("Received Messages=")[0].strip())[:_LONGEST]


def _chain(exc: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its causes."""
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        yield exc
        exc = exc.__cause__ or exc.__context__


def _message(exc: Exception) -> str:
    """Return the provider's sentence, without litellm's prefix and without a quoted conversation."""
    text = _without_conversation(exc)
    if quoted := re.search(r'"message":\s*("(?:[^"\\]|\\.)*")', text):
        with suppress(ValueError):  # it only looks like JSON
            return str(json.loads(quoted[1]))[:500]
    text = re.sub(r"^(?:(?:litellm\.)?\w+(?:Error|Exception|Timeout)(?::| -) )+", "", text)
    text = re.sub(r"\.? Handle with `litellm\.\w+`\.?$", "", text)
    return re.sub(r" ssl:(<[^>]*>|\w+)", "", text)[:500]


def _decode_bytes_literal(text: str) -> str:
    """Decode the bytes literal of the provider's body in an error of a stream."""
    begin = re.search(r"\bb(['\"])\{", text)
    end = text.rfind("}" + begin[1]) if begin else -1
    if begin is None or end < begin.end():
        return text
    try:
        return str(ast.literal_eval(text[begin.start() : end + 2]).decode(errors="replace"))
    except (SyntaxError, ValueError):
        return text


_KEY_SHAPES = re.compile(
    r"\b(?:sk|pk|gsk|xai|hf|AIza)[-_]?[\w-]{16,}|(?<=Bearer )\S+|(?<=[?&]key=)[^\s&'\"]+"
)


def _redact(value: Any, api_key: str | None) -> Any:
    if isinstance(value, bytes):
        return _redact(value.decode(errors="replace"), api_key).encode()
    if not isinstance(value, str):
        return value
    return _KEY_SHAPES.sub("[key]", value.replace(api_key, "[key]") if api_key else value)


def _redact_in_place(exc: BaseException, api_key: str | None) -> None:
    """Remove the key from an error, because tracebacks print causes, too."""
    exc.args = tuple(_redact(arg, api_key) for arg in exc.args)
    if hasattr(exc, "message"):  # what litellm prints
        exc.message = _redact(exc.message, api_key)


def _retry_after(exc: Exception) -> float | None:
    """Return the seconds to wait, from the headers or else from the sentence."""
    headers: Mapping[str, Any] = getattr(exc, "litellm_response_headers", None) or {}
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (value := headers.get("retry-after")) is not None:
        seconds = _number(value)
        return seconds if seconds is not None else _seconds_until(value)
    found = re.search(_ASK_LATER, str(exc), re.IGNORECASE)
    return float(found[1]) if found else None


def _number(value: Any) -> float | None:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return None


def _seconds_until(date: str) -> float | None:
    try:
        return max(0.0, (parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
