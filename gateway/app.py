"""Builds the application from the configuration: the only module that knows the concrete classes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from agent.aio import run_in_daemon_thread
from agent.compression.summariser import ask_main
from agent.context.auto_compaction import AutoCompaction
from agent.context.compaction import Compactor
from agent.context.engine_pool import EnginePool
from agent.context.memory_flush import MemoryFlush
from agent.context_compressor import ContextCompressor
from agent.context_engine import ContextEngine
from agent.llm import LLMClient
from agent.llm.guards import Windows, budget_guard
from agent.llm.retry import RetryingLLM
from agent.llm.selection import ModelSelector
from agent.loop import Agent
from agent.prompt_caching import PromptCaching, supports_prompt_caching
from agent.redaction import keeping_secret
from agent.sandbox.sandbox import Sandbox
from agent.tokens import estimate_tools_tokens
from agent.tool import discover
from agent.toolbox import Toolbox, choose_tools
from agent.tools.memory import memory
from agent.tools.terminal import terminal_in
from gateway.commands.registry import Commands
from gateway.config.loader import LoadedConfig, ensure_home
from gateway.config.schema import Config
from gateway.config.secrets import all_secrets
from gateway.core.gateway import Gateway
from gateway.limits import Limits
from gateway.media.attachments import AttachmentReader
from gateway.models import embedded
from gateway.models.selection import (
    ModelDecision,
    auxiliary_llm,
    auxiliary_resolver,
    configured_llm,
    configured_names,
    named_llm,
)
from gateway.observability.logs import on_warning
from gateway.observability.metrics import Metrics
from gateway.observability.tracing import configured_tracing
from gateway.platforms.base import Platform, Services
from gateway.platforms.registry import PlatformRegistry, resolve
from gateway.plugins.engines import engine_or_built_in
from gateway.plugins.loader import Plugins, load_plugins
from gateway.process_lock import hold_lock
from gateway.reload import LiveConfig
from gateway.store import open_store
from gateway.store.ports import GatewayStore

ToolboxFactory = Callable[[str], Toolbox]
"""Returns the tools of a platform; "" means any platform."""


@dataclass(frozen=True, slots=True)
class App:
    """The parts of a running Hermes, before any platform starts."""

    loaded: LoadedConfig
    settings: LiveConfig
    platforms: PlatformRegistry
    store: GatewayStore
    llm: LLMClient
    gateway: Gateway
    model_choice: str
    """Names the model that answers and why it was chosen."""
    model_line: str
    """Start-up line about the embedded model; empty if another model answers."""
    caching_line: str
    """Says whether prompts are cached."""
    metrics: Metrics
    traces_line: str
    """Says where traces go or why none are sent; empty if tracing is off."""


@dataclass(frozen=True, slots=True)
class _Clients:
    """The configured model clients, before limits and metrics wrap them."""

    choice: ModelDecision
    main: RetryingLLM
    auxiliary: RetryingLLM
    """Writes summaries; `main` itself unless `auxiliary.compression` names another model."""

    @property
    def has_auxiliary(self) -> bool:
        return self.auxiliary is not self.main


@dataclass(frozen=True, slots=True)
class _Meter:
    """Guards model clients so that their calls are counted, stay within the budget and correct the known window."""

    metrics: Metrics
    limits: Limits
    windows: Windows

    def wrap(self, llm: RetryingLLM, max_tokens: int | None = None) -> LLMClient:
        guards = budget_guard(self.limits.budget), self.metrics.model_guard
        return llm.guarded(*guards, windows=self.windows, max_tokens=max_tokens)


@asynccontextmanager
async def build_app(loaded: LoadedConfig) -> AsyncIterator[App]:
    """Build Hermes and hold the lock on its state directory, so that no other process uses it."""
    ensure_home(loaded.home)
    async with AsyncExitStack() as stack:
        stack.enter_context(keeping_secret(await asyncio.to_thread(all_secrets, loaded)))
        stack.enter_context(hold_lock(loaded.home, loaded.database))
        # Foreign code may hang; a stop does not wait for a daemon thread.
        home, enabled = loaded.home, loaded.config.plugins.enabled
        plugins = await run_in_daemon_thread(lambda: load_plugins(home, enabled), "plugins")
        platforms, loaded = await asyncio.to_thread(resolve, loaded, plugins)
        stack.enter_context(keeping_secret(await asyncio.to_thread(all_secrets, loaded)))
        config, settings = loaded.config, await asyncio.to_thread(LiveConfig, loaded)
        metrics, traces_line = await _open_metrics(stack, loaded)
        clients = await _open_clients(stack, config)
        new_engine, toolbox_for = await _load_engine_and_tools(loaded, clients, plugins)
        metrics.register_tools(each["function"]["name"] for each in toolbox_for("").definitions)
        commands = await asyncio.to_thread(
            Commands.discover, plugins.commands, hyphens=platforms.command_hyphens
        )
        store = await stack.enter_async_context(open_store(loaded))
        # This process holds the lock on the state directory, so every lease belongs to a process that has ended.
        await store.leases.expire_all()
        limits = Limits(config.limits, store.sessions)
        meter = _Meter(metrics, limits, await Windows.load(store.sessions))
        models = await _open_models(stack, config, clients.main, store, meter)
        engines = EnginePool(new_engine, models, hermes_home=loaded.home)
        summariser = meter.wrap(clients.auxiliary) if clients.has_auxiliary else None
        compaction = _build_compaction(config, engines, metrics, summariser)
        agent = _open_agent(stack, config, models, store, toolbox_for, compaction)
        gateway = Gateway(
            agent,
            store,
            commands,
            plugins,
            workspaces=loaded.workspaces,
            settings=settings,
            limits=limits,
            observer=metrics,
        )
        settings.subscribe(lambda new: limits.apply(new.limits), partial(_configure_agent, agent))
        metrics.attach(gateway)
        stack.push_async_callback(gateway.close)
        yield App(
            loaded,
            settings,
            platforms,
            store,
            clients.main,
            gateway,
            clients.choice.why,
            _embedded_model_line(config, clients.choice.model),
            agent.caching.status(clients.choice.model),
            metrics,
            traces_line,
        )


def build_platforms(app: App) -> list[Platform]:
    """Build every platform that is on; none is started."""
    from gateway.models.catalog import VisionCheck  # noqa: PLC0415
    from gateway.models.transcription import PaidTranscriber, transcriber  # noqa: PLC0415 - not for `hermes chat`

    config, gateway = app.loaded.config, app.gateway
    vision = VisionCheck(gateway.agent.models, config.model.vision)
    configured = transcriber(config.auxiliary.transcription)
    counted = app.metrics.observe_transcriber(configured) if configured else None
    transcribe = PaidTranscriber(counted, gateway.store.sessions, gateway.limits.budget) if counted else None
    return app.platforms.build(
        Services(
            live_config=app.settings,
            gateway=gateway,
            access=app.store.access,
            media=AttachmentReader(vision, transcribe),
            model=app.model_choice,
            model_line=app.model_line,
            metrics=app.metrics,
        )
    )


async def _open_metrics(stack: AsyncExitStack, loaded: LoadedConfig) -> tuple[Metrics, str]:
    """Return the metrics, and the line that says where traces go."""
    tracing, traces_line = await asyncio.to_thread(configured_tracing, loaded)
    stack.push_async_callback(asyncio.to_thread, tracing.close)
    metrics = Metrics(tracing)
    stack.enter_context(on_warning(metrics.count_warning))
    return metrics, traces_line


async def _open_clients(stack: AsyncExitStack, config: Config) -> _Clients:
    choice, main = await asyncio.to_thread(configured_llm, config.model)
    stack.push_async_callback(main.close)
    auxiliary = await asyncio.to_thread(auxiliary_llm, config.auxiliary.compression, config.model, main)
    if auxiliary is not main:
        stack.push_async_callback(auxiliary.close)
    return _Clients(choice, main, auxiliary)


async def _load_engine_and_tools(
    loaded: LoadedConfig, clients: _Clients, plugins: Plugins
) -> tuple[Callable[[], ContextEngine], ToolboxFactory]:
    """Load the context engine, whose folder may add tools and commands, then the tools."""

    def compressor() -> ContextEngine:
        return _build_compressor(loaded.config, clients, toolbox_for(""))

    context, main = loaded.config.context, clients.main
    new_engine = await run_in_daemon_thread(
        lambda: engine_or_built_in(
            context.engine,
            home=loaded.home,
            plugins=plugins,
            compressor=compressor,
            context_length=main.context_length,
            model=main.model,
            options=context.options,
            options_position=loaded.position_of("context.options"),
        ),
        "engine",
    )
    toolbox_for = await asyncio.to_thread(_build_toolboxes, loaded, plugins)
    return new_engine, toolbox_for


def _build_toolboxes(loaded: LoadedConfig, plugins: Plugins) -> ToolboxFactory:
    """Every platform gets its configured tools and those of the enabled plugins."""
    config = loaded.config
    terminal = terminal_in(build_sandbox(loaded))
    available = discover() | {terminal.name: terminal} | plugins.tools

    @cache
    def toolbox_for(platform: str) -> Toolbox:
        chosen = choose_tools(available, config.tools.enabled, config.tools.platforms, platform)
        return Toolbox(chosen).with_tools(list(plugins.tools.values()))

    toolbox_for("")  # report an unknown tool name now, not at the first message
    return toolbox_for


async def _open_models(
    stack: AsyncExitStack, config: Config, main: RetryingLLM, store: GatewayStore, meter: _Meter
) -> ModelSelector:
    max_tokens = config.model.max_tokens

    def build(name: str) -> LLMClient:
        return meter.wrap(named_llm(config.model, name), max_tokens)

    names = await asyncio.to_thread(configured_names, config.model)
    models = ModelSelector(
        meter.wrap(main, max_tokens), store.sessions, choices=names, build=build, windows=meter.windows
    )
    stack.push_async_callback(models.close)
    return models


def _open_agent(
    stack: AsyncExitStack,
    config: Config,
    models: ModelSelector,
    store: GatewayStore,
    toolbox_for: ToolboxFactory,
    compaction: AutoCompaction,
) -> Agent:
    agent = Agent(
        models,
        store.sessions,
        toolbox_for,
        compaction,
        caching=PromptCaching(
            strategy=config.prompt_caching.strategy, cache_ttl=config.prompt_caching.cache_ttl
        ),
        instructions=config.agent.system_prompt,
        max_iterations=config.agent.max_iterations,
    )
    stack.push_async_callback(agent.close)
    return agent


def _build_compaction(
    config: Config, engines: EnginePool, metrics: Metrics, summariser: LLMClient | None
) -> AutoCompaction:
    """Without a `summariser`, the model that answers writes the summaries."""
    flushes = config.compression.memory_flush and memory.name in config.tools.enabled
    compactor = Compactor(
        engines,
        auxiliary=lambda main: auxiliary_resolver(main, summariser or main),
        background_at=config.compression.background_at,
        flush_memory=MemoryFlush(engines.models, memory) if flushes else None,
        watch=metrics.compaction,
    )
    return AutoCompaction(compactor, enabled=config.compression.enabled)


def _build_compressor(config: Config, clients: _Clients, toolbox: Toolbox) -> ContextCompressor:
    compression, main = config.compression, clients.main
    return ContextCompressor(
        main.context_length,
        threshold=compression.threshold,
        target_ratio=compression.target_ratio,
        protect_last_n=compression.protect_last_n,
        as_fork=not clients.has_auxiliary and supports_prompt_caching(main.model),
        summarize_with_main=ask_main if clients.has_auxiliary else None,
        overhead_tokens=estimate_tools_tokens(toolbox.definitions) if main.supports_tools else 0,
    )


def _configure_agent(agent: Agent, config: Config) -> None:
    """Use other settings from the next turn on."""
    agent.instructions = config.agent.system_prompt
    agent.max_iterations = config.agent.max_iterations


def build_sandbox(loaded: LoadedConfig) -> Sandbox | None:
    """Build the sandbox of the terminal tool; None if `tools.sandbox.mode` is off."""
    config = loaded.config.tools.sandbox
    if config.mode == "off":
        return None
    # Commands can read system folders, so the state directory is hidden in case it lies in one of them.
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


def _embedded_model_line(config: Config, model: str) -> str:
    """Return the start-up line about the embedded model; empty if another model answers."""
    if model != embedded.MODEL_ID:
        return ""
    line = embedded.DEMO_CHOSEN_NOTICE if config.model.name == embedded.MODEL_ID else embedded.DEMO_NOTICE
    return line.replace("`hermes ", f"`{program()} ")


def program() -> str:
    """Return the command as the person typed it: `hermes` may not be on their PATH."""
    return sys.argv[0] if Path(sys.argv[0]).name == "hermes" else "hermes"
