"""The composition root: the one place that knows the concrete classes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import structlog

from agent.aio import run_in_daemon_thread
from agent.compression.summariser import ask_main
from agent.context.auto_compaction import AutoCompaction
from agent.context.compaction import Compactor
from agent.context.engine_pool import EnginePool
from agent.context.memory_flush import MemoryFlush
from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from agent.llm import LLMClient
from agent.loop import Agent
from agent.models.budget import budgeted
from agent.models.selection import ModelSelector
from agent.models.windows import Windows, measured
from agent.prompt_caching import PromptCaching, supports_prompt_caching
from agent.redaction import keeping_secret
from agent.sandbox.sandbox import Sandbox
from agent.store import SessionStore
from agent.tokens import estimate_tools_tokens
from agent.tool import discover
from agent.toolbox import Toolbox, choose_tools
from agent.tools.memory import memory
from agent.tools.terminal import terminal_in
from gateway.banner import program
from gateway.commands import Commands
from gateway.config.loader import Loaded, ensure_home
from gateway.config.schema import Config
from gateway.config.secrets import secrets_of
from gateway.core.gateway import Gateway
from gateway.limits import Limits
from gateway.media.attachments import AttachmentReader
from gateway.models import embedded
from gateway.models.selection import auxiliary_llm, configured_llm, configured_names, named_llm, resolver
from gateway.observability import Metrics
from gateway.observability.logs import on_warning
from gateway.observability.tracing import configured_tracing
from gateway.platforms.base import Platform
from gateway.plugins import Plugins, engine_or_built_in, load_plugins
from gateway.process_lock import hold_lock
from gateway.reload import LiveConfig
from gateway.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    pass

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class App:
    """Everything put together, with no platform started."""

    loaded: Loaded
    settings: LiveConfig
    store: SqliteStore
    llm: LLMClient
    gateway: Gateway
    model_choice: str
    """Which model answers and why."""
    model_line: str
    """What a person should know about it; empty for an ordinary model."""
    caching_line: str
    """Whether prompts are cached."""
    metrics: Metrics
    traces_line: str
    """Where traces go, or why they do not; empty where nobody wants any."""


@asynccontextmanager
async def build_app(loaded: Loaded) -> AsyncIterator[App]:
    """Hermes on its state directory, which no other process may use meanwhile."""
    config, settings = loaded.config, await asyncio.to_thread(LiveConfig, loaded)
    ensure_home(loaded.home)
    async with AsyncExitStack() as stack:
        stack.enter_context(keeping_secret(await asyncio.to_thread(secrets_of, loaded)))
        stack.enter_context(hold_lock(loaded.home, loaded.database))
        metrics, traces_line = await _metrics(stack, loaded)
        # Choosing a model and loading plugins read files.
        choice, llm = await asyncio.to_thread(configured_llm, config.model)
        stack.push_async_callback(llm.close)
        helper = await asyncio.to_thread(auxiliary_llm, config.auxiliary.compression, config.model, llm)
        if helper is not llm:
            stack.push_async_callback(helper.close)
        # Foreign code may hang, and a stop does not wait for it.
        plugins = await run_in_daemon_thread(
            lambda: load_plugins(loaded.home, config.plugins.enabled), "plugins"
        )

        def compressor() -> ContextEngine:
            return _compressor(config, llm, helper, toolbox_for(""))

        # The engine comes first: its folder may bring tools and commands of its own.
        new_engine = await run_in_daemon_thread(lambda: _engines(loaded, plugins, llm, compressor), "engine")
        toolbox_for = await asyncio.to_thread(_toolboxes, loaded, plugins)
        metrics.know_tools(each["function"]["name"] for each in toolbox_for("").definitions)
        commands = await asyncio.to_thread(Commands.discover, plugins.commands)
        store = await SqliteStore.open(loaded.database)
        stack.push_async_callback(store.close)
        # The state directory is locked, so whoever held a conversation is gone.
        await store.leases.expire_all()
        limits, windows = Limits(config.limits, store), await Windows.load(store)

        def paid(client: LLMClient, max_tokens: int | None = None) -> LLMClient:
            """Whatever asks a model asks for its price first, and is counted."""
            counted = budgeted(metrics.observed(client), limits.budget)
            return measured(counted, windows, max_tokens=max_tokens)

        models = await _models(config, llm, store, windows, paid)
        stack.push_async_callback(models.close)
        cached = config.prompt_caching
        caching = PromptCaching(strategy=cached.strategy, cache_ttl=cached.cache_ttl)
        engines = EnginePool(new_engine, models, hermes_home=loaded.home)
        summariser = None if helper is llm else paid(helper)
        keeper = _keeper(config, store, engines, metrics, helper=summariser)
        agent = Agent(
            models,
            store,
            toolbox_for,
            keeper,
            caching=caching,
            instructions=config.agent.system_prompt,
            max_iterations=config.agent.max_iterations,
        )
        stack.push_async_callback(agent.close)
        gateway = _gateway(settings, loaded, agent, store, commands, plugins, limits, metrics)
        settings.followed_by(gateway.apply)
        metrics.follow(gateway)
        stack.push_async_callback(gateway.close)
        honest, caching_line = _honest_line(config, choice.model), caching.status(choice.model)
        yield App(
            loaded, settings, store, llm, gateway, choice.why, honest, caching_line, metrics, traces_line
        )


def _honest_line(config: Config, model: str) -> str:
    """What the start says about the embedded model, where that one answers."""
    if model != embedded.MODEL_ID:
        return ""
    told = embedded.CHOSEN_LINE if config.model.name == embedded.MODEL_ID else embedded.HONEST_LINE
    return told.replace("`hermes ", f"`{program()} ")


async def _metrics(stack: AsyncExitStack, loaded: Loaded) -> tuple[Metrics, str]:
    """What counts and traces from here on, and where traces go."""
    tracing, traces_line = await asyncio.to_thread(configured_tracing, loaded)
    stack.push_async_callback(asyncio.to_thread, tracing.close)
    metrics = Metrics(tracing)
    stack.enter_context(on_warning(metrics.logged))
    return metrics, traces_line


def _engines(
    loaded: Loaded, plugins: Plugins, llm: LLMClient, compressor: Callable[[], ContextEngine]
) -> Callable[[], ContextEngine]:
    context = loaded.config.context
    return engine_or_built_in(
        context.engine,
        home=loaded.home,
        plugins=plugins,
        compressor=compressor,
        context_length=llm.context_length,
        model=llm.model,
        options=context.options,
        options_at=loaded.place_of("context.options"),
    )


async def _models(
    config: Config, llm: LLMClient, store: SqliteStore, windows: Windows, paid: Callable[..., LLMClient]
) -> ModelSelector:
    most = config.model.max_tokens

    def named(name: str) -> LLMClient:
        return paid(named_llm(config.model, name), most)

    names = await asyncio.to_thread(configured_names, config.model)
    return ModelSelector(paid(llm, most), store, choices=names, build=named, windows=windows)


def _gateway(
    settings: LiveConfig,
    loaded: Loaded,
    agent: Agent,
    store: SqliteStore,
    commands: Commands,
    plugins: Plugins,
    limits: Limits,
    metrics: Metrics,
) -> Gateway:
    config = loaded.config
    return Gateway(
        agent,
        store,
        commands,
        plugins,
        workspaces=loaded.workspaces,
        busy=config.gateway.busy,
        sessions=config.sessions,
        ask_before_danger=config.tools.approval == "ask",
        drain_seconds=config.gateway.drain_seconds,
        limits=limits,
        needs_restart=lambda: settings.needs_restart,
        refused=lambda: settings.refused,
        observer=metrics,
    )


def _platforms(hermes: App) -> list[Platform]:
    from gateway.limits.paid_transcription import PaidTranscriber  # noqa: PLC0415
    from gateway.models.catalog import Vision  # noqa: PLC0415
    from gateway.models.transcription import transcriber  # noqa: PLC0415
    from gateway.platforms.registry import build_platforms  # noqa: PLC0415

    config, gateway = hermes.loaded.config, hermes.gateway
    vision = Vision(gateway.agent.models, config.model.vision)
    listen = transcriber(config.auxiliary.transcription)
    counted = hermes.metrics.observed_transcriber(listen) if listen else None
    transcribe = PaidTranscriber(counted, gateway.store, gateway.limits.budget) if counted else None
    media = AttachmentReader(vision, transcribe)
    return build_platforms(
        hermes.settings,
        gateway,
        hermes.store.people,
        hermes.store.insight,
        media,
        model=hermes.model_choice,
        model_line=hermes.model_line,
        metrics=hermes.metrics,
    )


def _toolboxes(loaded: Loaded, plugins: Plugins) -> Callable[[str], Toolbox]:
    """A plugin's tools are on because the plugin is."""
    config = loaded.config
    terminal = terminal_in(build_sandbox(loaded))
    available = discover() | {terminal.name: terminal} | plugins.tools

    @cache
    def toolbox_for(platform: str) -> Toolbox:
        chosen = choose_tools(available, config.tools.enabled, config.tools.platforms, platform)
        return Toolbox(chosen).with_tools(list(plugins.tools.values()))

    toolbox_for("")  # an unknown tool name is found now, not at the first message
    return toolbox_for


def _keeper(
    config: Config, store: SessionStore, engines: EnginePool, metrics: Metrics, *, helper: LLMClient | None
) -> AutoCompaction:
    """`helper` writes the summaries; without one, the model that answers does."""
    compactor = Compactor(
        store,
        engines,
        auxiliary=lambda main: resolver(main, helper or main),
        background_at=config.compression.background_at,
        flush_memory=_memory_flush(config, engines.models, store),
        watch=metrics.compaction,
    )
    return AutoCompaction(compactor, enabled=config.compression.enabled)


def _memory_flush(config: Config, models: ModelSelector, store: SessionStore) -> MemoryFlush | None:
    """Only where the memory tool is on."""
    wanted = config.compression.memory_flush and memory.name in config.tools.enabled
    return MemoryFlush(models, store, memory) if wanted else None


def _compressor(config: Config, llm: LLMClient, helper: LLMClient, toolbox: Toolbox) -> ContextCompressor:
    settings = config.compression
    return ContextCompressor(
        llm.context_length,
        threshold=settings.threshold,
        target_ratio=settings.target_ratio,
        protect_last_n=settings.protect_last_n,
        as_fork=helper is llm and supports_prompt_caching(llm.model),
        summarize_with_main=None if helper is llm else ask_main,
        # Where the model that answers writes the summaries, too, the engine knows its window already.
        summary_context_length=None if helper is llm else helper.context_length,
        overhead_tokens=estimate_tools_tokens(toolbox.definitions) if llm.supports_tools else 0,
    )


def build_sandbox(loaded: Loaded) -> Sandbox | None:
    """None where the owner wants none."""
    config = loaded.config.tools.sandbox
    if config.mode == "off":
        return None
    # The system's folders can be read there. Whoever keeps Hermes in one of them keeps its secrets all the same.
    hidden = (loaded.home, loaded.database.parent, *([loaded.path] if loaded.path else ()))
    return Sandbox(
        network=config.network,
        memory_mb=config.memory_mb,
        processes=config.processes,
        seconds=config.seconds,
        cpu_seconds=config.cpu_seconds,
        file_mb=config.file_mb,
        hidden=hidden,
    )
