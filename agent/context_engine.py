"""The contract of a context engine: when to make a conversation smaller, and how.

Engines are synchronous and work on message lists in OpenAI's chat format. A conversation has an instance of its own, so
an engine may keep state. The host may add a durable `"message_id"` to each message, `"created_at"`, when it was said,
and `"kind"` to those that an engine wrote. An engine that does not know these keys can ignore them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from agent.compression.outcome import CompressionOutcome
from agent.messages import ChatDict

_DEFAULT_THRESHOLD = 0.50


class ContextEngine(ABC):
    """Subclass this, implement the four abstract members, and select it by name with `context.engine`."""

    last_prompt_tokens: int = 0
    last_completion_tokens: int = 0
    last_total_tokens: int = 0
    threshold_tokens: int = 0
    """Prompt tokens from which the conversation is compacted."""
    context_length: int = 0
    """The model's whole window."""
    compression_count: int = 0
    """How often compress() has made the conversation smaller."""
    last_outcome: CompressionOutcome | None = None
    """Result of the last compress(), for the user. None: the host derives it from the messages."""
    has_fallback_summary: bool = False
    """A summary could not be written, so an extract replaces it. The host calls compress() again between turns."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The value of `context.engine` that selects this engine."""

    @abstractmethod
    def update_from_response(self, usage: dict[str, Any]) -> None:
        """Called after every model call with its usage; sets the three `last_*` attributes."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Return whether to compact now. Without a number, the last reported one counts."""

    @abstractmethod
    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        """Return a valid, smaller message list, or the given one if nothing can be gained. The input stays as it is.

        `focus_topic` comes from `/compress <topic>`; an engine may ignore it.
        """

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:  # noqa: B027 - optional, nothing by default
        """Called when a conversation begins, or continues in a child session (`boundary_reason="compression"`)."""

    def on_session_end(self, session_id: str, messages: list[ChatDict]) -> None:  # noqa: B027 - optional
        """Called at reset, expiry and shutdown. Flush state and close connections here."""

    def on_session_reset(self) -> None:
        """`/new` and `/reset`: forget what belongs to the old session."""
        self.last_prompt_tokens = 0
        self.last_completion_tokens = 0
        self.last_total_tokens = 0
        self.compression_count = 0

    def update_model(
        self, model: str, context_length: int, base_url: str = "", api_key: str = "", provider: str = ""
    ) -> None:
        """Called when the model was switched. The threshold stays at the same fraction of the window."""
        ratio = self.threshold_tokens / self.context_length if self.context_length else 0.0
        self.context_length = context_length
        self.threshold_tokens = round(context_length * (ratio or _DEFAULT_THRESHOLD))

    def get_tool_schemas(self) -> list[ChatDict]:
        """Return tools that the model may call, each with `name`, `description` and `parameters`."""
        return []

    def handle_tool_call(self, name: str, args: Mapping[str, Any], **kwargs: Any) -> str:
        """Answer a call of one of the engine's tools with JSON text."""
        return json.dumps({"error": f"The context engine {self.name} has no tool named {name}."})

    def should_compress_preflight(self, messages: list[ChatDict]) -> bool:
        """Return whether to compact, from the messages alone. Called before a model call; it must be cheap."""
        return False

    def hint(self, messages: list[ChatDict]) -> str | None:
        """Return a short text for the model to read after the newest message of the user, or None.

        It is stored and stays in the context, so that what a provider has cached stays the same and only grows.
        """
        return None

    def problem(self) -> str:
        """Return why the engine cannot work now, in a sentence for the owner; empty if it can.

        `hermes doctor` and `/status` show it, also before a session has begun. It must only look and take no time.
        """
        return ""

    def get_status(self) -> dict[str, Any]:
        """Return what `/status` shows: these values, and numbers and short texts of your own."""
        used = self.last_prompt_tokens / self.context_length if self.context_length else 0.0
        return {
            "engine": self.name,
            "last_prompt_tokens": self.last_prompt_tokens,
            "last_completion_tokens": self.last_completion_tokens,
            "last_total_tokens": self.last_total_tokens,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": min(100.0, 100.0 * used),
            "compression_count": self.compression_count,
        }
