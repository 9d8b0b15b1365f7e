"""The budget for models, checked before every call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Protocol

from agent.errors import ModelError
from agent.llm import ChatRequest, Completion, LLMClient, LLMEvent, TextChunk, Usage, WrappedLLM
from agent.llm.retry import RetryingLLM
from agent.tokens import estimate_messages_tokens_rough, estimate_text_tokens, estimate_tools_tokens

_spender: ContextVar[str] = ContextVar("spender", default="")


def spender() -> str:
    """Return the person whose budget the current code spends; empty if there is none."""
    return _spender.get()


@contextmanager
def spending_for(person: str) -> Iterator[None]:
    """Charge the code inside, and the tasks and threads that it starts, to a person."""
    token = _spender.set(person)
    try:
        yield
    finally:
        _spender.reset(token)


class Budget(Protocol):
    async def check(self, spender: str) -> None:
        """Raises BudgetReached if this person may not spend anything now."""
        ...

    def note_price(self, model: str, usage: Usage) -> None:
        """Note the usage of a finished call."""
        ...

    def note_abandoned(self, spender: str, model: str, tokens: int) -> None:
        """Note a call that ended before its price was known. `tokens` estimates prompt and answer."""
        ...


def budgeted(llm: LLMClient, budget: Budget) -> LLMClient:
    """Wrap a client with the budget. In a chain every attempt is checked: failed ones may cost money, too."""
    if isinstance(llm, RetryingLLM):
        return llm.around_each(lambda client: BudgetedLLM(client, budget))
    return BudgetedLLM(llm, budget)


class BudgetedLLM(WrappedLLM):
    """A model that is asked only while the budget allows it. The caller records what a call costs."""

    def __init__(self, llm: LLMClient, budget: Budget) -> None:
        super().__init__(llm)
        self._budget = budget

    async def stream(self, request: ChatRequest) -> AsyncGenerator[LLMEvent, None]:
        await self._budget.check(spender())
        written: list[str] = []
        may_cost = True
        try:
            async with aclosing(self._llm.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Completion):
                        may_cost = False  # the price is known
                        self._budget.note_price(event.model, event.usage)
                    elif isinstance(event, TextChunk):
                        written.append(event.text)
                    yield event
        except ModelError as error:
            may_cost = may_cost and (error.may_cost or bool(written))
            raise
        finally:
            # A cancelled call costs money, too.
            if may_cost:
                self._abandoned(request, "".join(written))

    async def complete(self, request: ChatRequest) -> Completion:
        await self._budget.check(spender())
        may_cost = True
        try:
            completion = await self._llm.complete(request)
            may_cost = False
        except ModelError as error:
            may_cost = error.may_cost
            raise
        finally:
            if may_cost:
                self._abandoned(request, "")
        self._budget.note_price(completion.model, completion.usage)
        return completion

    async def close(self) -> None:
        await self._llm.close()

    def _abandoned(self, request: ChatRequest, written: str) -> None:
        asked = estimate_messages_tokens_rough(request.messages) + estimate_tools_tokens(request.tools)
        self._budget.note_abandoned(spender(), self.model, asked + estimate_text_tokens(written))
