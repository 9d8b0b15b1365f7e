"""Makes a conversation fit after a model has refused it: compacts by the window that is known now, and tries again."""

from __future__ import annotations

from dataclasses import dataclass

from agent.context.auto_compaction import AutoCompaction
from agent.context.live import LiveContext
from agent.errors import BadRequest, ContextOverflow
from agent.events import Notice, TurnEvent
from agent.llm import ChatRequest
from agent.llm.selection import ModelSelector
from agent.llm.windows import estimated_size
from agent.store import LearnedWindow

_MOST_ATTEMPTS = 4
"""Compactions for one model call: from 131k to 8k by halving."""
_LONG_PROMPT = 3_000
"""Tokens. Of a shorter prompt the length is hardly what the provider minds."""


@dataclass(slots=True)
class Refusals:
    """The refusals of one model call so far."""

    attempts: int = 0
    learned: LearnedWindow | None = None


class OverflowRecovery:
    def __init__(self, models: ModelSelector, auto_compaction: AutoCompaction) -> None:
        self._models = models
        self._auto_compaction = auto_compaction
        self._in_vain: set[str] = set()
        """Conversations in which a compaction did not help against a refusal without a reason."""

    async def after_refusal(
        self, live: LiveContext, refusal: ContextOverflow | BadRequest, request: ChatRequest, so_far: Refusals
    ) -> list[TurnEvent] | None:
        """Compacts the conversation, so that the call can be tried again. None if that would not help."""
        compacted = await self._compacted(live, refusal, estimated_size(request), so_far)
        if compacted is None:
            # The next message is not to be compacted for a window that was only tried.
            await self._models.note_use(live.conversation, "", 0)
            if so_far.learned and self._models.windows:
                await self._models.windows.withdraw(so_far.learned)
        so_far.attempts += 1
        return compacted

    async def given_up(self, live: LiveContext, so_far: Refusals) -> None:
        """The call ended otherwise: a window that was only tried does not stay in force."""
        if so_far.attempts:
            await self._models.note_use(live.conversation, "", 0)

    async def _compacted(
        self, live: LiveContext, refusal: ContextOverflow | BadRequest, tokens: int, so_far: Refusals
    ) -> list[TurnEvent] | None:
        if isinstance(refusal, BadRequest):
            if not self._may_be_the_length(live, refusal, tokens, so_far):
                return None
            used = await self._models.in_use(live.conversation)
            model, window, learned = used.model, min(used.context_length // 2, tokens), None
        else:
            so_far.learned = learned = refusal.learned or so_far.learned
            first = await self._models.of(live.conversation)
            model, window = refusal.model, refusal.context_length or first.context_length
            if so_far.attempts and refusal.learned is None:
                window = min(window // 2, tokens)
        if so_far.attempts >= _MOST_ATTEMPTS:
            return None
        await self._models.note_use(live.conversation, model, window)
        compacted = await self._auto_compaction.after_overflow(live)
        if compacted is None and learned and not so_far.attempts and tokens < learned.tokens:
            return []  # it is the answer that had no room; it is asked to be shorter now
        return compacted

    def _may_be_the_length(
        self, live: LiveContext, refusal: BadRequest, tokens: int, so_far: Refusals
    ) -> bool:
        if not refusal.unexplained or tokens < _LONG_PROMPT:
            return False
        if so_far.attempts:
            self._in_vain.add(live.conversation.id)
        return live.conversation.id not in self._in_vain

    def answered(self, live: LiveContext, so_far: Refusals) -> list[TurnEvent]:
        """Return what to tell the owner once the call has succeeded."""
        self._in_vain.discard(live.conversation.id)
        if not so_far.learned:
            return []
        return [Notice(in_words(so_far.learned, self._models.default_name), for_admins=True)]


def in_words(window: LearnedWindow, main_model: str, *, summarises: bool = False) -> str:
    """Tell the owner what was found, and what to set. `summarises`: the model only writes summaries."""
    found = "holds" if window.named else "seems to hold"
    if summarises:
        return (
            f"{window.model}, which writes the summaries, {found} {window.tokens:,} tokens, not {window.believed:,} "
            "as believed. Hermes keeps to that from now on."
        )
    setting = f"`model.context_length: {window.tokens}`"
    if window.model != main_model:
        setting = f"`context_length: {window.tokens}` for it"
    return (
        f"{window.model} {found} {window.tokens:,} tokens, not {window.believed:,} as believed. Hermes keeps to that "
        f"from now on; set {setting} in hermes.yaml."
    )
