"""Keeps the secrets of this installation out of an answer while it is written, also where a chunk ends inside one.

Only secrets that are known word for word: what looks like a key in an answer may be an example the person asked for.
Keys in what tools return never reach the model (`agent/toolbox.py`), so it cannot repeat them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from agent.llm import Completion, LLMEvent, TextChunk
from agent.redaction import REDACTED
from agent.redaction.known import known_forms


async def redact_stream(answer: AsyncGenerator[LLMEvent, None]) -> AsyncGenerator[LLMEvent, None]:
    """The same stream. A chunk is held back only while it may be the beginning of a secret."""
    secrets = _Secrets(known_forms())
    held = ""
    async with aclosing(answer) as events:
        async for event in events:
            if isinstance(event, TextChunk):
                said, held = secrets.said(held + event.text)
                if said:
                    yield TextChunk(said)
            elif isinstance(event, Completion):
                if held:
                    yield TextChunk(secrets.said(held, is_whole=True)[0])
                yield replace(event, text=secrets.said(event.text, is_whole=True)[0])
            else:
                yield event


class _Secrets:
    def __init__(self, forms: list[str]) -> None:
        self._forms = forms
        self._beginnings = {form[0] for form in forms}
        self._longest = max(map(len, forms), default=0)
        self._pattern = re.compile("|".join(map(re.escape, forms))) if forms else None

    def said(self, text: str, *, is_whole: bool = False) -> tuple[str, str]:
        """What may be shown of it, and what has to wait for more."""
        if self._pattern is None:
            return text, ""
        shown: list[str] = []
        done, limit = 0, len(text) if is_whole else self._doubtful(text)
        for match in self._pattern.finditer(text):
            if match.start() >= limit:
                break
            shown += [text[done : match.start()], REDACTED]
            done = match.end()
        return "".join((*shown, text[done:limit])), text[max(done, limit) :]

    def _doubtful(self, text: str) -> int:
        """Where an end of the text begins that more text could turn into a secret."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start] in self._beginnings and any(form.startswith(text[start:]) for form in self._forms):
                return start
        return len(text)
