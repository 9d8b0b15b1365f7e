"""Asks the configured model one tiny question, for `hermes setup` and `hermes doctor`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from agent.errors import ModelError
from agent.llm import ChatRequest, LLMClient, Retrying
from gateway.config.schema import ModelConfig
from gateway.models.litellm_runtime import load_litellm
from gateway.models.selection import configured_llm

_QUESTION = ChatRequest(
    [{"role": "user", "content": "Say ok."}],
    max_tokens=16,  # some providers refuse to answer in less
    purpose="check",
)


class NoAnswer(ModelError):
    """The model did not answer:"""

    transient = True


def ask_model(model: ModelConfig, *, seconds: float) -> str:
    """Return the id of the model that answered. Raises the ModelError that kept it from answering."""
    _, llm = configured_llm(model.model_copy(update={"fallbacks": (), "max_tokens": None}))
    return asyncio.run(_ask(llm, seconds))


async def _ask(llm: LLMClient, seconds: float) -> str:
    await load_litellm()  # on a busy machine, loading takes longer than the deadline of the model
    try:
        async with asyncio.timeout(seconds), aclosing(llm.stream(_QUESTION)) as events:
            async for event in events:
                # The person wants to know the first failure, not how retrying goes.
                if isinstance(event, Retrying):
                    raise NoAnswer(event.reason)
    except TimeoutError:
        raise NoAnswer(f"no answer within {seconds:.0f} seconds.") from None
    finally:
        await llm.close()
    return llm.model
