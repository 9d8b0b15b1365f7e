"""A summariser for tests, and an engine that uses it."""

from __future__ import annotations

from typing import Any

from agent.context_compressor import ContextCompressor


class Recorder:
    """A summariser that answers what it is told and keeps what it was asked."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers) or ["## Goal\nGo on."]
        self.asked: list[tuple[str, int]] = []

    def __call__(self, prompt: str, max_tokens: int) -> str:
        self.asked.append((prompt, max_tokens))
        return self._answers[min(len(self.asked), len(self._answers)) - 1]

    @property
    def prompts(self) -> list[str]:
        return [prompt for prompt, _ in self.asked]


def engine(context_length: int = 4_000, summarize: Any = None, **options: Any) -> ContextCompressor:
    """Make the built-in engine; by default its summary model has a large window."""
    options.setdefault("summary_context_length", 200_000)
    return ContextCompressor(context_length, summarize=summarize or Recorder(), **options)
