"""Builds an agent as `gateway/run.py` does, with the model, store and tools of a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agent.context.auto_compaction import AutoCompaction
from agent.context.compaction import Compactor, Watch
from agent.context.compaction_pace import SummaryTimeout
from agent.context.engine_pool import EnginePool
from agent.context.engine_runner import DEADLINES
from agent.context.memory_flush import MemoryFlush
from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from agent.llm import LLMClient
from agent.llm.selection import ModelSelector
from agent.loop import Agent
from agent.prompt_caching import PromptCaching
from agent.store import SessionStore
from agent.tool import Tool
from agent.toolbox import Toolbox


def make_agent(
    llm: LLMClient,
    store: SessionStore,
    tools: Sequence[Tool] = (),
    *,
    engine: Callable[[], ContextEngine] | None = None,
    auxiliary: LLMClient | None = None,
    caching: PromptCaching | None = None,
    background_at: float = 0.80,
    flush_memory: MemoryFlush | None = None,
    models: ModelSelector | None = None,
    max_iterations: int = 5,
    home: Path = Path("hermes-home"),
    watch: Watch | None = None,
    summary_timeout: SummaryTimeout | None = None,
    deadlines: Mapping[str, float] = DEADLINES,
) -> Agent:
    """Make an agent. Defaults: the built-in compressor, and summaries by the same model.

    `deadlines`: seconds for each method of the engine.
    """
    models = models or ModelSelector(llm, store)
    engines = EnginePool(
        engine or (lambda: ContextCompressor(llm.context_length)),
        models,
        hermes_home=home,
        seconds=deadlines,
    )
    compactor = Compactor(
        engines,
        auxiliary=lambda main: lambda task, model: auxiliary or main,
        background_at=background_at,
        flush_memory=flush_memory,
        summary_timeout=summary_timeout,
        **({"watch": watch} if watch else {}),
    )
    toolbox = Toolbox(tools)
    return Agent(
        models,
        store,
        lambda platform: toolbox,
        AutoCompaction(compactor, enabled=True),
        caching=caching or PromptCaching(),
        instructions="Be brief.",
        max_iterations=max_iterations,
    )
