"""What providers send when a prompt is too long, over a real socket and through litellm; what only looks like it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from agent.errors import BadRequest, ContextOverflow, ModelError, QuotaExhausted, RateLimited
from gateway.models.litellm_client import LiteLLMClient
from tests.support.model_routes import KEY, ask, collect

Answer = tuple[int, Any]
"""Status and body; a text is sent as it is."""


def _openai(
    message: str, *, code: Any = None, kind: str = "invalid_request_error", status: int = 400
) -> Answer:
    return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _plain(message: str, status: int = 400, **more: Any) -> Answer:
    return status, {"object": "error", "message": message, **more}


OVERFLOWS: dict[str, tuple[Answer, int | None]] = {
    "openai": (
        _openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. "
            "Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        8192,
    ),
    "openai responses": (
        _openai(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
        ),
        None,
    ),
    "openai configured": (
        _openai(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300011 tokens. "
            "Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        272_000,
    ),
    "openai by its code alone": (_openai("Sorry.", code="context_length_exceeded"), None),
    "openai one long string": (
        _openai(
            "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got "
            "a string with length 1500000 instead.",
            code="string_above_max_length",
        ),
        None,
    ),
    "openrouter": (
        _openai(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens "
            "(139000 of text input, 1000 in the output). Please reduce the length of either one, or use the "
            '"middle-out" transform to compress your prompt automatically.',
            code=400,
        ),
        131_072,
    ),
    "anthropic": (
        (
            400,
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "prompt is too long: 208423 tokens > 200000 maximum",
                },
            },
        ),
        200_000,
    ),
    "anthropic with the answer": (
        _openai(
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length"
        ),
        200_000,
    ),
    "anthropic bytes": (
        (
            413,
            {
                "type": "error",
                "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"},
            },
        ),
        None,
    ),
    "gemini": (
        _openai(
            "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
            code=400,
            kind="INVALID_ARGUMENT",
        ),
        1_048_575,
    ),
    "vertex": (
        _openai(
            "The input token count exceeds the maximum number of tokens allowed 1048576.",
            kind="INVALID_ARGUMENT",
        ),
        None,
    ),
    "xai": (
        (
            400,
            {
                "code": "Client specified an invalid argument",
                "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            },
        ),
        131_072,
    ),
    "mistral": (
        _plain(
            "Prompt contains 40961 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            type="invalid_request_prompt",
            code="3051",
        ),
        32_768,
    ),
    "mistral 422": (
        _plain("Prompt contains 40961 tokens, too large for model with 32768 maximum context length", 422),
        32_768,
    ),
    "groq": (
        _openai("Please reduce the length of the messages or completion.", code="context_length_exceeded"),
        None,
    ),
    "cerebras": (
        _plain(
            "Please reduce the length of the messages or completion. Current length is 9212 while limit is 8192",
            type="invalid_request_error",
            code="context_length_exceeded",
        ),
        8192,
    ),
    "cerebras without a body": ((413, ""), None),
    "cohere": (
        _plain(
            "too many tokens: size limit exceeded by 4096 tokens. Try using shorter or fewer inputs. The limit for "
            "this model is 128000 tokens."
        ),
        128_000,
    ),
    "cohere prompt": (
        _plain("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000."),
        4081,
    ),
    "bedrock": (
        _plain("The model returned the following errors: Input is too long for requested model."),
        None,
    ),
    "bedrock titan": (
        _plain(
            "400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9279"
        ),
        8192,
    ),
    "deepseek": (
        _openai(
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (136000 in "
            "the messages, 4000 in the completion). Please reduce the length of the messages or completion."
        ),
        131_072,
    ),
    "dashscope": (
        _openai(
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
            code="invalid_parameter_error",
        ),
        98_304,
    ),
    "dashscope native": (
        (
            400,
            {
                "code": "InvalidParameter",
                "message": "Range of input length should be [1, 30720]",
                "request_id": "1",
            },
        ),
        30_720,
    ),
    "moonshot": (_openai("Invalid request: Your request exceeded model token limit: 8192"), 8192),
    "kimi": (
        _openai("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
        262_144,
    ),
    "zhipu": ((400, {"error": {"code": "1261", "message": "Prompt 超长"}}), None),
    "zhipu by its code alone": ((400, {"error": {"code": "1261", "message": "请检查请求。"}}), None),
    "z.ai": (_openai("The request could not be completed.", code="model_context_window_exceeded"), None),
    "minimax": (_openai("invalid params, context window exceeds limit (2013)"), None),
    "siliconflow": (
        (400, {"code": 20015, "message": "number of input tokens has exceeded max_seq_len limit."}),
        None,
    ),
    "siliconflow number": (
        (
            400,
            {
                "code": 20015,
                "message": "number of input tokens has exceeded max_prompt_tokens (131072) limit",
            },
        ),
        131_072,
    ),
    "baidu": ((400, {"error_code": 336007, "error_msg": "the prompt was refused"}), None),
    "baidu characters": (
        (400, {"error_code": 336103, "error_msg": "the max input characters is 20000"}),
        None,
    ),
    "baidu v2": (_openai("prompt tokens too long", code="tokens_too_long"), None),
    "iflytek": (_openai("EngineInputDataError:token数量超过上限", code="10907"), None),
    "volcengine": (
        _openai("Input length 140000 exceeds the maximum length 131072", code="InvalidParameter"),
        131_072,
    ),
    "chinese proxy": (_openai("错误：上下文过长，请减少输入"), None),
    "chinese proxy number": (_openai("上下文长度超出模型最大限制 32768 tokens"), 32_768),
    "chinese length": (_openai("输入长度超过模型上限"), None),
    "naver": ((400, {"error": {"code": "40003", "message": "Text too long"}}), None),
    "korean": (_openai("입력이 모델의 최대 컨텍스트 길이(4096 토큰)를 초과했습니다."), 4096),
    "korean without a number": (_openai("입력 토큰 수가 제한을 초과했습니다."), None),
    "korean too long": (_openai("프롬프트가 너무 깁니다."), None),
    "japanese": (_openai("入力が長すぎます。トークン数の上限は 8192 です。"), 8192),
    "german": (
        _openai("Die Eingabe überschreitet die maximale Kontextlänge von 8192 Token des Modells."),
        8192,
    ),
    "german dots": (
        _openai("Das Modell hat ein Kontextfenster von 131.072 Token; die Eingabe ist zu lang."),
        131_072,
    ),
    "german without a number": (_openai("Der Prompt ist für dieses Modell zu lang."), None),
    "german too many": (_openai("Zu viele Token in der Anfrage."), None),
    "german exceeded": (_openai("Das Tokenlimit des Modells wurde überschritten."), None),
    "spanish": (_openai("La entrada supera la longitud máxima de contexto del modelo (8192 tokens)."), 8192),
    "spanish of": (_openai("El mensaje excede la ventana de contexto de 32.768 tokens."), 32_768),
    "spanish without a number": (_openai("La entrada es demasiado larga para este modelo."), None),
    "spanish too many": (_openai("Demasiados tokens en la solicitud."), None),
    "portuguese": (
        _openai("A entrada excede o comprimento máximo de contexto de 8192 tokens do modelo."),
        8192,
    ),
    "portuguese without a number": (_openai("O prompt é muito longo para este modelo."), None),
    "portuguese too long": (_openai("A mensagem está longa demais para a janela de contexto."), None),
    "portuguese exceeded": (_openai("A solicitação ultrapassa o limite de tokens do modelo."), None),
    "vllm": (
        _plain(
            "This model's maximum context length is 8192 tokens. However, you requested 9192 tokens (9000 in the "
            "messages, 192 in the completion). Please reduce the length of the messages or completion.",
            type="BadRequestError",
            code=400,
        ),
        8192,
    ),
    "vllm decoder": (
        _openai(
            "The decoder prompt (length 9012) is longer than the maximum model length of 8192.", code=400
        ),
        8192,
    ),
    "vllm with the answer": (
        _openai(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 "
            "tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
            code=400,
        ),
        4096,
    ),
    "sglang": (
        _openai("The input (9012 tokens) is longer than the model's context length (8192 tokens).", code=400),
        8192,
    ),
    "sglang with the answer": (
        _openai(
            "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total "
            "of 9000 tokens: 8000 tokens from the input messages and 1000 tokens for the completion."
        ),
        8192,
    ),
    "tgi": (
        (
            422,
            {
                "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 "
                "`inputs` tokens and 512 `max_new_tokens`",
                "error_type": "validation",
            },
        ),
        4096,
    ),
    "tgi input": (
        (422, {"error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1500"}),
        1024,
    ),
    "llama.cpp": (
        (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size, try increasing it",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9012,
                    "n_ctx": 8192,
                }
            },
        ),
        8192,
    ),
    "llama.cpp number": (
        _openai(
            "request (9012 tokens) exceeds the available context size (8192 tokens), try increasing it",
            code=400,
        ),
        8192,
    ),
    "llama.cpp 500": ((500, {"error": {"code": 500, "message": "Context size has been exceeded."}}), None),
    "ollama": ((400, {"error": "prompt too long; exceeded max context length by 512 tokens"}), None),
    "ollama input": ((400, {"error": {"message": "the input length exceeds the context length"}}), None),
    "lm studio": (
        (
            400,
            {
                "error": "Trying to keep the first 5012 tokens when context the overflows. However, the model is "
                "loaded with context length of only 4096 tokens, which is not enough."
            },
        ),
        4096,
    ),
    "lm studio without a number": (
        (
            400,
            {
                "error": "The number of tokens to keep from the initial prompt is greater than the context length. Try "
                "to load the model with a larger context length, or provide a shorter input"
            },
        ),
        None,
    ),
    "tabby": (_plain("Prompt length 9012 is greater than max_seq_len 8192"), 8192),
    "together": (
        _openai("The input (210000 tokens) is longer than the model's context length (200000 tokens)."),
        200_000,
    ),
    "fireworks": (_openai("The prompt is too long: 9012, model maximum context length: 8192"), 8192),
    "copilot": (
        _openai("prompt token count of 65012 exceeds the limit of 64000", code="model_max_prompt"),
        64_000,
    ),
    "github models": (
        _openai(
            "Request body too large for gpt-4o model. Max size: 8000 tokens.",
            code="tokens_limit_reached",
            status=413,
        ),
        8000,
    ),
    "watsonx": (
        _openai("the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"),
        4096,
    ),
    "databricks": (
        _plain(
            "Bad request: Your request exceeds the maximum input token limit of 8192.",
            error_code="BAD_REQUEST",
        ),
        8192,
    ),
    "a proxy's page": ((413, "<html><h1>413 Request Entity Too Large</h1></html>"), None),
}

OTHERS: dict[str, tuple[Answer, type[ModelError]]] = {
    "openai tokens per minute": (
        _openai(
            "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 25000, Requested 9000. Please "
            "try again in 6s.",
            code="rate_limit_exceeded",
            status=429,
        ),
        RateLimited,
    ),
    "groq beyond what a minute allows": (
        _openai(
            "Request too large for model `llama-3.1-8b-instant` in organization `org_1` on tokens per minute (TPM): "
            "Limit 6000, Requested 9000, please reduce your message size and try again.",
            code="rate_limit_exceeded",
            kind="tokens",
            status=413,
        ),
        RateLimited,
    ),
    "anthropic tokens per minute": (
        _openai("Number of input tokens has exceeded your per-minute rate limit.", status=429),
        RateLimited,
    ),
    "a rate limit as 400": (
        _openai("Rate limit: too many input tokens per minute, the maximum input length is 30000."),
        RateLimited,
    ),
    "moonshot tokens per day": (
        _openai("request reached organization TPD rate limit, current: 1506556, limit: 1500000", status=429),
        RateLimited,
    ),
    "german tokens per minute": (
        _openai("Tokenlimit überschritten: zu viele Token pro Minute.", status=429),
        RateLimited,
    ),
    "a german rate limit as 400": (
        _openai("Das Limit von 30000 Token pro Minute ist überschritten."),
        BadRequest,
    ),
    "a spanish rate limit as 400": (_openai("Supera el límite de tokens por minuto."), BadRequest),
    "a portuguese rate limit as 400": (_openai("Excede o limite de tokens por minuto."), BadRequest),
    "no credit": (
        _openai("You exceeded your current quota, please check your plan.", status=429),
        QuotaExhausted,
    ),
    "openai longest answer": (
        _openai(
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you "
            "provided 100000.",
            code="invalid_value",
        ),
        BadRequest,
    ),
    "anthropic longest answer": (
        _openai(
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5"
        ),
        BadRequest,
    ),
    "dashscope longest answer": (_openai("Range of max_tokens should be [1, 8192]"), BadRequest),
    "deepseek longest answer": (
        _openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
        BadRequest,
    ),
    "a large image": (
        _openai(
            "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"
        ),
        BadRequest,
    ),
    "many images": (_openai("Image limit exceeded", code="40003"), BadRequest),
    "an unreadable image": (_openai("You uploaded an unsupported image."), BadRequest),
    "a long name": (
        _openai("Invalid 'tools[0].function.name': string does not match pattern.", code="invalid_value"),
        BadRequest,
    ),
    "parted tool calls": (
        _openai("messages with role 'tool' must be a response to a preceding message with 'tool_calls'."),
        BadRequest,
    ),
    "a wrong parameter": (_openai("Temperature should be in [0.0, 2.0)"), BadRequest),
}


@asynccontextmanager
async def refusing(answer: Answer, model: str = "openai/house-model") -> AsyncIterator[LiteLLMClient]:
    """A client of a server that answers everything with this."""
    status, body = answer

    async def refuse(request: web.Request) -> web.Response:
        await request.read()
        text, kind = (body, "text/html") if isinstance(body, str) else (json.dumps(body), "application/json")
        return web.Response(status=status, text=text, content_type=kind)

    app = web.Application()
    app.router.add_post("/{path:.*}", refuse)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        client = LiteLLMClient(
            model, context_length=32_768, supports_tools=True, api_key=KEY, base_url=url, timeout=20
        )
        yield client
        await client.close()
    finally:
        await runner.cleanup()


async def _failure(client: LiteLLMClient, streamed: bool) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await (collect(client.stream(ask())) if streamed else client.complete(ask()))
    return caught.value


@pytest.mark.parametrize("provider", OVERFLOWS)
async def test_each_provider_is_understood(provider: str) -> None:
    """Streamed or whole: it is an overflow, with the limit where one is named."""
    answer, limit = OVERFLOWS[provider]
    async with refusing(answer) as client:
        for streamed in (True, False):
            error = await _failure(client, streamed)
            assert isinstance(error, ContextOverflow), f"{type(error).__name__}: {error}"
            assert error.limit == limit


@pytest.mark.parametrize(
    "provider", ["anthropic", "zhipu", "dashscope native", "llama.cpp", "korean", "anthropic bytes"]
)
async def test_also_on_the_anthropic_route(provider: str) -> None:
    """There litellm hands on the body as text, in a stream as a bytes literal, with its letters escaped."""
    answer, limit = OVERFLOWS[provider]
    async with refusing(answer, "anthropic/claude-sonnet-4-5") as client:
        for streamed in (True, False):
            error = await _failure(client, streamed)
            assert isinstance(error, ContextOverflow), f"{type(error).__name__}: {error}"
            assert error.limit == limit


@pytest.mark.parametrize("case", OTHERS)
async def test_what_only_looks_like_it(case: str) -> None:
    """Rate limits, limits of the answer, pictures: compacting the conversation would not help."""
    answer, kind = OTHERS[case]
    async with refusing(answer) as client:
        for streamed in (True, False):
            error = await _failure(client, streamed)
            assert type(error) is kind, f"{type(error).__name__}: {error}"
            assert not getattr(error, "unexplained", False)


@pytest.mark.parametrize(
    "answer",
    [
        (400, ""),
        _openai("Bad Request"),
        _openai("Er is iets misgegaan."),
        _openai("Das Modell hat die Anfrage abgelehnt."),
        _openai("El modelo rechazó la solicitud."),
        _openai("O modelo recusou a solicitação."),
    ],
)
async def test_a_refusal_that_says_nothing(answer: Answer) -> None:
    """It may be the length; the loop finds out."""
    async with refusing(answer) as client:
        error = await _failure(client, streamed=True)
        assert isinstance(error, BadRequest) and error.unexplained
