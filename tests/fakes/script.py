"""Script of a model server: a `Reply` with its `Call`s, or a `Failure`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

Trouble = Literal["drop", "cut"]
"""`drop` tears the connection down, `cut` ends the stream cleanly but early."""

ARGUMENT_PIECE = 12
"""Characters of tool-call arguments in one streamed piece, where the test does not say."""


def count_tokens(text: str) -> int:
    """The rule of both servers: four bytes of UTF-8 are a token, a begun one counts."""
    return ceil(len(text.encode()) / 4)


def compact(value: Any) -> str:
    """JSON as it is counted: no spaces, keys in the order they came."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `arguments`: an object, raw text (broken JSON if you like), or a list of pieces."""

    name: str
    arguments: dict[str, Any] | str | list[str]
    id: str = ""
    """Given by the server when empty."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def pieces(self) -> list[str]:
        if isinstance(self.arguments, list):
            return self.arguments
        text = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)
        return [text[at : at + ARGUMENT_PIECE] for at in range(0, len(text), ARGUMENT_PIECE)]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error in the provider's own words; the server fills in message and code when they are empty."""

    status: int
    message: str = ""
    code: str = ""
    retry_after: float | str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and what goes wrong with it."""

    text: str = ""
    tool_calls: Sequence[Call] = ()
    chunks: Sequence[str] | None = None
    """The text as it is streamed; words when None."""
    finish: str = ""
    """`stop`, `length`, `tool_calls` or `content_filter`; worked out when empty."""
    interleave: bool = False
    """Stream the pieces of parallel calls in turns instead of one call after the other (OpenAI only)."""
    hold: bool = False
    """Wait for `server.release()`, then go on (to the trouble, if there is one)."""
    trouble: Trouble | None = None
    failure: Failure | None = None
    """With `after`: an error event in the middle of the stream. Without: the whole response."""
    after: int | None = None
    """Pieces of text or arguments sent before hold and trouble. None: before the headers; a cut: after all."""
    pace: float = 0.0
    """Seconds before each piece of a stream."""

    @property
    def pieces(self) -> list[str]:
        return list(self.chunks) if self.chunks is not None else re.findall(r"\s*\S+|\s+\Z", self.text)

    @property
    def whole_text(self) -> str:
        return "".join(self.pieces)

    @property
    def tokens(self) -> int:
        return count_tokens(self.whole_text) + sum(
            count_tokens(call.name + call.text) for call in self.tool_calls
        )

    def within(self, max_tokens: int | None) -> Reply:
        """The same answer as a model stops it at `max_tokens` (text only: calls are never cut here)."""
        if max_tokens is None or count_tokens(self.whole_text) <= max_tokens:
            return self
        kept = self.whole_text.encode()[: max_tokens * 4].decode(errors="ignore")
        return Reply(text=kept, finish="length", hold=self.hold, trouble=self.trouble, after=self.after)

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.tool_calls else "stop")
