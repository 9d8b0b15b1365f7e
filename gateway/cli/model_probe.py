"""Does the configured model answer? One tiny question finds out."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from agent.errors import ModelError
from agent.llm import ChatRequest, LLMClient, Retrying
from gateway.config.load import provider_keys
from gateway.config.schema import ModelConfig
from gateway.models.choose import ModelSpec, build_llm
from gateway.models.litellm_library import load_litellm

_QUESTION = ChatRequest(
    [{"role": "user", "content": "Say ok."}],
    max_tokens=16,  # some providers refuse to answer in less
    purpose="check",
)


class NoAnswer(ModelError):
    """The model did not answer:"""

    transient = True


def ask_model(model: ModelConfig, *, seconds: float) -> str:
    """The id of the model that answered. Raises the ModelError that kept it from answering."""
    spec = ModelSpec(
        name=model.name,
        base_url=model.base_url,
        api_key=model.api_key.get_secret_value() if model.api_key else None,
        context_length=model.context_length,
    )
    return asyncio.run(_answer(build_llm(spec, keys=provider_keys()), seconds))


async def _answer(llm: LLMClient, seconds: float) -> str:
    await load_litellm()  # on a busy machine this takes longer than the model may
    try:
        async with asyncio.timeout(seconds), aclosing(llm.stream(_QUESTION)) as events:
            async for event in events:
                # The first failure is what the person wants to know about, not how retrying goes.
                if isinstance(event, Retrying):
                    raise NoAnswer(event.reason)
    except TimeoutError:
        raise NoAnswer(f"{seconds:.0f} seconds are over.") from None
    finally:
        await llm.close()
    return llm.model
