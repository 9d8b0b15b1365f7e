"""The settings: every key with its default, its range and a description.

`hermes.yaml` shows the same keys with the same defaults, and `docs/configuration.md` is generated from here.
Descriptions are arguments, not docstrings, because reading docstrings back costs 30 ms at every start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, create_model, model_validator

from gateway.config.fields import (
    Count,
    Name,
    Number,
    Section,
    Url,
    Whole,
    false_to_off,
    reject_booleans,
    setting,
)
from gateway.config.schema_platforms import PlatformsConfig

DEFAULT_SYSTEM_PROMPT = """\
You are Hermes, a helpful assistant. Answer in the language you are spoken to, plainly and briefly.
If you do not know something, say so.
"""


def _none_to_empty(given: object) -> object:
    """Accept `options:` with every line below it commented out."""
    return {} if given in (None, "") else given


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("expected a path; the home directory `~` is unknown here") from None


class ModelChoice(Section):
    """A model and its server. In a list of models, the bare id is enough."""

    name: Name = Field(description="A litellm id such as `openai/gpt-4.1-mini`.")
    base_url: Url | None = Field(default=None, description="The server, if not the provider's own.")
    api_key: SecretStr | None = Field(default=None, description="The key, if not in the provider's variable.")
    context_length: Count | None = Field(
        default=None, description="The context window in tokens, if litellm does not know it."
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_a_bare_id(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given


class ModelConfig(Section):
    """The model that answers messages."""

    name: Name = setting(
        "auto",
        "Any litellm id, such as `anthropic/claude-sonnet-4-5`. `auto` uses the provider whose "
        "key is set (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `OPENROUTER_API_KEY`), else the embedded "
        "demonstration model, `embedded/smollm2`.",
    )
    base_url: Url | None = setting(
        None, "An OpenAI-compatible server, such as Ollama at `http://127.0.0.1:11434/v1`."
    )
    api_key: SecretStr | None = setting(None, "The key, if it is not in the provider's own variable.")
    context_length: Count | None = setting(
        None,
        "The model's context window in tokens. Empty: the value in litellm's table. If the server's is "
        "smaller, Hermes notices and says what to set.",
    )
    vision: bool | None = setting(
        None, "Whether the model accepts images. Empty: the value in litellm's table."
    )
    max_tokens: Count | None = setting(
        None, "The maximum length of an answer in tokens. Empty: the provider's limit."
    )
    fallbacks: tuple[ModelChoice, ...] = setting(
        (),
        "Models to try, in this order, when the model above fails. Each is an id, or a mapping of "
        "`name`, `base_url`, `api_key` and `context_length`.",
    )


class AgentConfig(Section):
    """How the agent works on a message."""

    max_iterations: Whole = setting(
        50,
        "The maximum number of model calls for one message. The last call must answer without tools.",
        within=(1, 1000),
        reload="live",
    )
    system_prompt: str = setting(
        DEFAULT_SYSTEM_PROMPT,
        "The instructions at the start of each session. Running sessions keep their prompt.",
        reload="live",
    )


class SandboxConfig(Section):
    """The sandbox in which the `terminal` tool runs commands. The limits are per command."""

    mode: Annotated[Literal["bubblewrap", "off"], BeforeValidator(false_to_off)] = setting(
        "bubblewrap",
        "`bubblewrap` must be installed, or `terminal` runs no command. `off`: no sandbox; a command may "
        "do everything that Hermes may, and the keys below have no effect.",
    )
    network: bool = setting(False, "Whether commands reach the network, including servers on this machine.")
    memory_mb: Whole = setting(
        1024,
        "Memory in MB of all processes of a command together, including its /tmp.",
        within=(64, 1_000_000),
    )
    processes: Whole = setting(128, "The maximum number of processes and threads.", within=(4, 10_000))
    seconds: Whole = setting(600, "The maximum run time of a command.", within=(1, 600))
    cpu_seconds: Whole = setting(300, "CPU time of each process of a command.", within=(1, 100_000))
    file_mb: Whole = setting(512, "The largest file in MB that a command may write.", within=(1, 1_000_000))


class ToolsConfig(Section):
    """The tools that the model may use."""

    enabled: tuple[Name, ...] = setting(
        ("todo", "memory", "session_search", "read_file", "write_file", "search_files", "send_file"),
        "The tools offered to the model. `terminal` runs commands and `fetch_url` uses the network: "
        "both are off unless listed here.",
    )
    platforms: Mapping[Name, tuple[Name, ...]] = setting(
        {}, "Different lists for some platforms, such as `web: [todo, memory]`."
    )
    approval: Annotated[Literal["ask", "off"], BeforeValidator(false_to_off)] = setting(
        "ask",
        "Whether Hermes asks the user before each call of a dangerous tool such as `terminal`.",
        reload="live",
    )
    sandbox: SandboxConfig = Field(default_factory=SandboxConfig)


def _check_database_url(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("postgresql://", "postgres://")):
        raise ValueError("the URL must begin with postgresql://")
    return url


class StorageConfig(Section):
    """Where conversations are stored."""

    path: Annotated[Path, AfterValidator(_expand_home)] | None = setting(
        None, "The database file, relative to the state directory. Empty: `state.db` there."
    )
    url: Annotated[SecretStr, AfterValidator(_check_database_url)] | None = setting(
        None, "A PostgreSQL database, such as `postgresql://user:password@host/name`, instead of a file."
    )


class SessionsConfig(Section):
    """When a conversation starts a new session by itself. Nothing is deleted, and the chat is told."""

    reset: Literal["none", "idle", "daily"] = setting(
        "none",
        "`none`, `idle` (after a pause) or `daily` (with the first message of the day).",
        reload="live",
    )
    idle_minutes: Count = setting(1440, "The pause after which `idle` starts a new session.", reload="live")
    daily_hour: Whole = setting(
        4, "The hour, in local time, at which a new day begins for `daily`.", within=(0, 23), reload="live"
    )


class GatewayConfig(Section):
    """How messages are received."""

    busy: Literal["queue", "steer", "interrupt"] = setting(
        "queue",
        "What happens to a message that arrives while an answer is being written: it waits (`queue`), "
        "goes to the model at its next step (`steer`), or cancels the answer and takes its place (`interrupt`).",
        reload="live",
    )
    join_seconds: Number = setting(
        1.0,
        "Parts of a long paste or an album that arrive within this time of each other are one message.",
        within=(0.0, 10.0),
        reload="live",
    )
    drain_seconds: Number = setting(
        8.0,
        "How long running answers may continue when Hermes stops. The others resume at the next start.",
        within=(0.0, 600.0),
        reload="live",
    )


Dollars = Annotated[float, Field(ge=0.01, allow_inf_nan=False), BeforeValidator(reject_booleans)]


class LimitsConfig(Section):
    """Limits on messages and on cost."""

    messages_per_minute: Count | None = setting(
        30,
        "Messages accepted from one person per minute, in all chats together. A person who sends more is "
        "told to wait a minute. Empty: no limit.",
        reload="live",
    )
    owner_messages_per_minute: Count | None = setting(
        300, "The same for the owner on the chat page and its API. Empty: no limit.", reload="live"
    )
    waiting_messages: Count = setting(
        100, "Messages of one person that may wait for an answer in one conversation.", reload="live"
    )
    daily_usd_per_person: Dollars | None = setting(
        None,
        "The maximum cost of the models for one person per day, in dollars, by the reported cost. Days "
        "begin at midnight, local time. Empty: no limit.",
        reload="live",
    )
    daily_usd_total: Dollars | None = setting(
        None,
        "The maximum cost of the models for all people per day, in dollars. Empty: no limit.",
        reload="live",
    )
    unknown_price: Number = setting(
        10.0,
        "The assumed price of a model whose price is unknown, in dollars per million tokens. Models on "
        "this machine are free.",
        within=(0.0, None),
        reload="live",
    )


class ContextConfig(Section):
    """The engine that keeps a conversation inside the model's context window."""

    engine: Name = setting(
        "compressor",
        "The context engine: `compressor`, or the name of a plugin in `plugins/context_engine/`.",
    )
    options: Annotated[Mapping[str, Any], BeforeValidator(_none_to_empty)] = setting(
        {},
        "Options of the engine; see its documentation. `compressor` has none: its settings are under "
        "`compression`.",
    )


class CompressionConfig(Section):
    """The built-in context engine."""

    enabled: bool = setting(True, "Whether long conversations are compressed.")
    threshold: Number = setting(
        0.50,
        "Compress when the prompt fills this fraction of the window. 0.0: whenever it saves tokens.",
        within=(0.0, 1.0),
    )
    target_ratio: Number = setting(
        0.20,
        "The newest messages that stay unchanged, as a fraction of the threshold in tokens.",
        within=(0.1, 0.8),
    )
    protect_last_n: Count = setting(20, "At least this many of the newest messages stay unchanged.")
    background_at: Number = setting(
        0.80,
        "From this fraction of the threshold on, Hermes prepares the summary between turns and uses it at "
        "the threshold, so that users do not wait. 1.0: prepare it only at the threshold.",
        within=(0.0, 1.0),
    )
    memory_flush: bool = setting(
        True, "Whether the model may save lasting facts with the `memory` tool before a compaction."
    )


class AuxiliaryModelConfig(Section):
    """The model that writes summaries."""

    model: Name | None = setting(None, "The model that writes summaries. Empty: the model that answers.")
    provider: Name = setting(
        "auto",
        "The provider of that model. `main`: the server and key of the model that answers. `auto`: the "
        "same for a model of the same provider, else the provider in its id. Or a provider: `openrouter`, `nous`, "
        "`anthropic`, ...",
    )
    base_url: Url | None = setting(None, "An OpenAI-compatible server to use instead.")


class TranscriptionConfig(Section):
    """The model that transcribes voice messages."""

    model: Name | None = setting(
        None, "A litellm id such as `openai/whisper-1`. Empty: voice messages are not transcribed."
    )
    base_url: Url | None = setting(None, "Where it is served, if not at its provider.")
    api_key: SecretStr | None = setting(None, "Its key, if not the provider's variable.")


class AuxiliaryConfig(Section):
    """Models for side tasks."""

    compression: AuxiliaryModelConfig = Field(default_factory=AuxiliaryModelConfig)
    transcription: TranscriptionConfig = Field(default_factory=TranscriptionConfig)


class PromptCachingConfig(Section):
    """Prompt caching by Anthropic's models."""

    cache_ttl: Literal["5m", "1h"] = setting(
        "5m", "How long the provider keeps a cached prompt. `1h` costs more and pays off if users pause."
    )
    strategy: Literal["system_and_3", "turn_aware"] = setting(
        "system_and_3",
        "`system_and_3` marks the system prompt and the last three messages. `turn_aware` chooses the "
        "lifetime itself and keeps a marker where the last request ended.",
    )


class PluginsConfig(Section):
    """General plugins: folders in `$HERMES_HOME/plugins/`."""

    enabled: tuple[Name, ...] = setting(
        (), "The plugins to load, by folder name. `hermes plugins` lists them."
    )


class LoggingConfig(Section):
    """The log: on standard error, and in a file that `hermes logs` reads."""

    level: Literal["debug", "info", "warning", "error"] = setting(
        "info", "The least severe event to write.", reload="live"
    )
    format: Literal["human", "json"] = setting(
        "human", "Log lines for people or for programs.", reload="live"
    )
    file: bool = setting(
        True,
        "Whether `hermes run` also writes `logs/hermes.log` in the state directory: JSON lines, at most "
        "10 MB, read by `hermes logs`.",
        reload="live",
    )


class Config(Section):
    """All of `hermes.yaml`."""

    model: ModelConfig = Field(default_factory=ModelConfig)
    agent: AgentConfig = Field(default_factory=AgentConfig)
    tools: ToolsConfig = Field(default_factory=ToolsConfig)
    storage: StorageConfig = Field(default_factory=StorageConfig)
    platforms: PlatformsConfig = Field(default_factory=PlatformsConfig)
    gateway: GatewayConfig = Field(default_factory=GatewayConfig)
    sessions: SessionsConfig = Field(default_factory=SessionsConfig)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    context: ContextConfig = Field(default_factory=ContextConfig)
    compression: CompressionConfig = Field(default_factory=CompressionConfig)
    auxiliary: AuxiliaryConfig = Field(default_factory=AuxiliaryConfig)
    prompt_caching: PromptCachingConfig = Field(default_factory=PromptCachingConfig)
    plugins: PluginsConfig = Field(default_factory=PluginsConfig)
    logging: LoggingConfig = Field(default_factory=LoggingConfig)


PlatformSections = Mapping[str, type[Section]]
"""Configuration models of the platforms that plugins add, by platform."""


def config_with(sections: PlatformSections, *, unchecked: Iterable[str] = ()) -> type[Config]:
    """Return `Config` with more sections under `platforms`. An `unchecked` section may hold anything."""
    fields: dict[str, Any] = {
        name: (model, Field(default_factory=model, description=model.__doc__))
        for name, model in sections.items()
    }
    fields |= {name: (dict[str, Any], Field(default={}, description="")) for name in unchecked}
    if not fields:
        return Config
    platforms = create_model("PlatformsConfig", __base__=PlatformsConfig, **fields)
    return create_model("Config", __base__=Config, platforms=(platforms, Field(default_factory=platforms)))
