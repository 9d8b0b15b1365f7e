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

    timeouts = httpx.ConnectTimeout, httpx.PoolTimeout
    return _comes_from(httpx.ConnectError, *timeouts, ConnectionRefusedError, gaierror)(exc)


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
        # Also in the causes, because tracebacks print them.
        link.args = tuple(_redact(arg, api_key) for arg in link.args)
        if hasattr(link, "message"):  # what litellm prints
            link.message = _redact(link.message, api_key)
    kind = next((kind for holds, kind in TABLE if holds(exc)), ModelOverloaded)
    detail = f"{model} said: {_message(exc)}"
    if _NO_PROVIDER in str(exc):  # litellm's own text is advice for programmers
        detail = f"No provider is known for `{model}`."
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
        is_explained = _EXPLAINED.search(_message(exc)) or _OTHER_LIMIT.search(_message(exc))
        return BadRequest(detail, unexplained=not is_explained)
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


def _retry_after(exc: Exception) -> float | None:
    """Return the seconds to wait, from the headers or else from the sentence."""
    headers: Mapping[str, Any] = getattr(exc, "litellm_response_headers", None) or {}
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (value := headers.get("retry-after")) is not None:
        if (seconds := _number(value)) is not None:
            return seconds
        with suppress(TypeError, ValueError):  # it is a date, or nothing that makes sense
            return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
        return None
    found = re.search(_ASK_LATER, str(exc), re.IGNORECASE)
    return float(found[1]) if found else None


def _number(value: Any) -> float | None:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return None


# Context overflows. Providers have no common format: some send a code, some a field, most only a sentence, in several
# languages. `tests/unit/gateway/models/test_overflow.py` lists the errors of each provider.

_SMALLEST_WINDOW = 256
"""Tokens. A smaller number in an error is not a context window."""
_LARGEST_WINDOW = 100_000_000

_CODES = (
    r"context_length_exceeded|context_window_exceeded|model_context_window_exceeded|exceed_context_size_error"
    r"|string_above_max_length|(?:input|prompt|tokens)_too_long|tokens_limit_reached|request_too_large"
    # Zhipu; Baidu (tokens, characters); iFlytek.
    r"|1261|336007|336103|10907"
)
_CODE = re.compile(rf'"(?:code|type|error_code|err_code)":\s*"?(?:{_CODES})\b', re.IGNORECASE)

_TOO_LONG = (
    r"context.{0,3}(?:length|window|limit|size)",
    r"(?:prompt|input|text|message|request|tokens?|conversation)s?(?: is| are| was)? too long",
    r"reduce the length|shorten (?:your|the) (?:prompt|input|messages?)",
    r"too many (?:input |prompt )?tokens",
    r"(?:maximum|max|allowed) (?:allowed )?(?:input|prompt|model|sequence) (?:length|characters|token)",
    r"max input (?:tokens|characters)|max_(?:prompt_tokens|seq_len|input_tokens|model_len)",
    r"exceed(?:s|ed|ing)? (?:the |your |its )?(?:maximum|max|limit|available|configured|total|model)\b.{0,30}token",
    r"exceed(?:s|ed|ing)? (?:the )?(?:maximum|max) (?:input )?length",
    r"token (?:limit|count)\b.{0,40}exceed|exceed(?:s|ed|ing)? .{0,30}token limit",
    r"input (?:tokens?|token count|length).{0,40}exceed",
    r"(?:range of )?input length should be",
    r"too large for model with|prompt (?:is )?too large",
    r"`inputs`.{0,40}must (?:be <=|have less than)",
    r"request(?: body| entity)? (?:is )?too large|request exceeds the maximum size",
    # German.
    r"(?:prompt|eingabe|anfrage|nachricht|kontext|text|unterhaltung|konversation)(?:e?n)?\b"
    r".{0,30}\bzu (?:lang|groß|gross)\b"
    r"|kontext-?(?:länge|fenster|grenze|limit|größe)|zu viele (?:eingabe-?|prompt-?)?tokens?\b"
    r"|(?:eingabe|prompt|token)\w{0,20}\b.{0,50}(?:überschr[ei]{1,4}t|übersteig)|überschr[ei]{1,4}t\w{0,20}\b.{0,50}(?:token|eingabelänge)",
    # Spanish and Portuguese.
    r"(?:entrada|prompt|mensajes?|solicitud|texto|contexto|conversación|mensage(?:m|ns)|solicitação|requisição|conversa)\b"
    r".{0,30}\b(?:(?:demasiado|muito) (?:larg|long|grande|extens)|(?:long|grande|extens)\w{0,20} demais)"
    r"|(?:ventana|longitud|límite|tamaño|janela|comprimento|limite|tamanho)(?: máxim[oa])? d(?:e|el|o) contexto"
    r"|(?:demasiados|muitos) tokens|tokens demais"
    r"|(?:supera|excede|sobrepasa|ultrapassa)\w{0,20}\b.{0,50}(?:tokens|contexto|longitud máxima|comprimento máximo)",
    # Chinese.
    r"超长|过长|(?:上下文|输入|提示词|对话|token|文本|内容).{0,12}(?:超出|超过|超限|溢出)"
    r"|(?:超出|超过).{0,12}(?:上下文|最大长度|长度限制|最大输入|token)|压缩上下文"
    r"|(?:上下文|輸入|提示詞).{0,12}(?:超出|超過|過長)|過長",
    # Korean.
    r"너무 (?:깁니다|길어|긴)|(?:컨텍스트|입력|토큰|프롬프트|문맥).{0,16}(?:초과|넘)",
    # Japanese.
    r"長すぎ|(?:コンテキスト|トークン|入力|プロンプト).{0,16}(?:超え|超過|上限)",
)
_OVERFLOW = re.compile("|".join(_TOO_LONG), re.IGNORECASE)

_OTHER_LIMIT = re.compile(
    # Rate limits.
    r"rate.?limit|\bper[ -](?:minute|min|hour|day|month)\b|\b[TR]P[MD]\b|\bquota\b|too many requests|频率|限流"
    r"|\bpro (?:minute|stunde|tag|monat)\b|\bpor (?:minuto|hora|d[ií]a|mes|mês)\b|kontingent|\bcuota\b|\bcota\b"
    # Images and other media.
    r"|\b(?:image|picture|photo|audio|video|attachment|pdf)s?\b.{0,80}(?:exceed|too (?:large|big|many)|limit|invalid)"
    r"|图片|图像|이미지|画像|\b(?:bild(?:er)?|imagen|imágenes|imagem|imagens)\b",
    re.IGNORECASE,
)
_OUTPUT_ALONE = re.compile(
    r"max_?(?:completion_?|output_?|new_?)?tokens\b.{0,80}"
    r"(?:too large|too high|at most|must be|should be|greater|exceed|less than|maximum|[<>])"
    r"|maximum (?:allowed )?(?:number of )?(?:output|completion) tokens",
    re.IGNORECASE,
)
"""Limits on the answer, not on the prompt."""
_PROMPT = re.compile(r"input|prompt|messages|eingabe|entrada", re.IGNORECASE)

_NUMBER = r"(\d{1,3}(?:[.,]\d{3})+|\d{3,12})(\s?k\b)?"
"""`8192`, `8,192` or, in some languages, `8.192`."""
_LIMITS = tuple(
    re.compile(pattern.replace("N", _NUMBER), re.IGNORECASE)
    for pattern in (
        r'"n_ctx"\W{1,3}N',
        r"input length should be \[\d+, ?N\]",
        r"maximum number of (?:input )?tokens allowed \(N\)",
        r"(?:maximum|max) (?:allowed )?(?:context|prompt|model|input|sequence) (?:length|tokens?|token limit)"
        r"(?: of| is|:)? N",
        r"context (?:length|size|window)(?: of| is|:)? (?:only )?\(?N",
        r"with N maximum context length",
        r"model token limit: N",
        r"(?:tokens|\d) > N",
        r"(?:configured|total tokens|input token) limit(?: of)? N",
        r"exceeds? the (?:limit of|maximum length(?: of)?) N",
        r"max_(?:prompt_tokens|seq_len|input_tokens|model_len)\W{0,3}(?:limit\W{0,3})?N",
        r"must (?:be <=|have less than) N",
        r"cannot exceed (?:the total tokens limit )?N",
        r"limit (?:for this model )?is N",
        r"max size: N tokens",
        r"(?:kontext-?(?:länge|fenster|grenze|limit|größe)|eingabelänge|tokenlimit)(?: von|:)? \(?N",
        r"(?:contexto|longitud máxima|comprimento máximo|límite|limite)(?: máxim[oa])?"
        r"(?: de(?:l modelo| entrada| tokens)?)*:? \(?N",
        r"(?:最大|上限|限制)\D{0,12}N",
        r"(?:최대|제한|한도)\D{0,12}N",
        r"(?:最大|上限)\D{0,12}N",
    )
)

_LETTER = "[A-Za-zÀ-ɏ]"
_EXPLAINED = re.compile(
    # Whole words: "Modell" and "modelo" occur in texts about anything.
    rf"(?<!{_LETTER})(?:images?|audios?|videos?|pictures?|files?|documents?|tools?|functions?|roles?|schemas?|json"
    r"|format(?:s|ted|ting)?|param(?:s|eters?)?|arguments?|fields?|propert(?:y|ies)|required|missing"
    r"|(?:un)?support(?:s|ed)?|unknown|unrecogni[sz]ed|not allowed|must be|should be|temperature|top_p"
    r"|max_\w*tokens|streams?|streaming|reasoning|thinking|api.?keys?|credentials?|credits?|billing|balance"
    r"|polic(?:y|ies)|safety|moderation|filter(?:s|ed|ing)?|harm(?:s|ful)?|models?|url|encod(?:e|ed|ing)|base64)"
    rf"(?!{_LETTER})"
    r"|messages?[.\[]|参数|图片|格式|敏感|违规|模型|余额|欠费|工具|매개변수|이미지",
    re.IGNORECASE,
)


def is_overflow(said: str, status: int | None) -> bool:
    """Tell whether the error says that the prompt is too long. Rate limits and limits on the answer do not count."""
    if status == 413:
        return True
    if status not in (400, 422, 500):
        return False
    if _OTHER_LIMIT.search(said) or (_OUTPUT_ALONE.search(said) and not _PROMPT.search(said)):
        return False
    return bool(_CODE.search(said) or _OVERFLOW.search(said))


def limit_in(said: str) -> int | None:
    """Return the context window in tokens that the error names."""
    if _OTHER_LIMIT.search(said):
        return None
    for pattern in _LIMITS:
        if found := pattern.search(said):
            limit = int(re.sub(r"[.,]", "", found[1])) * (1000 if found[2] else 1)
            if _SMALLEST_WINDOW <= limit <= _LARGEST_WINDOW:
                return limit
    return None
