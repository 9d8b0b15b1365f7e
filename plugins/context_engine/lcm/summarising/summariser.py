"""Asks for a summary in detail, then for bullet points, and in the end does without a model.

Bullet points that run into their limit are taken up to the last whole one: the weightiest come first, so what is
missing is the least of them, and a sign says that something is. A detailed summary that is cut off lacks its end.

What it guarantees for sources of N tokens, by the estimate that the store keeps:

- where N is 1 or more, the summary has fewer than N (`Written.tokens`, content and topics together);
- where N is 2 or more, it is not empty;
- one that a model wrote has about `target` tokens, or half of it as bullet points; a stand-in has at most 512, and no
  more than `target`, if that is at least one.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agent.compression.summariser import Summarize
from agent.compression.summary_check import check_summary
from agent.errors import AuthenticationFailed, ContextOverflow, EmptyAnswer, QuotaExhausted, StreamCut
from agent.redaction import redact
from agent.tokens import estimate_text_tokens

from ..messages import Stored
from ..summaries import Node, Written
from .marks import TOPICS, split_topics, without_imitations
from .measure import shortened_list, size_of, storable, topic_room, up_to_a_sentence_end
from .prompts import Asked, Prompt, prompt_for
from .sources import Sources, dated_pieces, of_messages, of_summaries
from .stand_in import stand_in
from .topics import topics_of

log = structlog.get_logger(__name__)

_USABLE_WINDOW = 0.7
"""Token counts here are estimates; this much of the window is safe to fill."""
_SMALLEST_PIECE = 256
_HALVINGS = 3
"""How often the pieces are made smaller when the model says that they do not fit."""
_TOLERANCE = 1.3
"""Estimates are off by so much. What is larger still was not written within its limit."""


class _Unusable(Exception):
    """An answer that cannot take the place of its sources."""


_ANOTHER_PROMPT_MAY_HELP = (_Unusable, EmptyAnswer, StreamCut)
"""A cut answer is mostly one that ran into its limit, and bullet points are shorter."""


class Summariser:
    def __init__(self, ask: Summarize, *, window: int) -> None:
        """`window` is that of the model which `ask` asks, in tokens."""
        self._ask = ask
        self._window = window
        self.is_down = False
        """A model failed in a way that another question cannot help. It is not asked again by this summariser."""
        self._never_ends = False
        """It ran into both limits. From then on it is asked for bullet points at once."""

    def leaf(self, messages: Sequence[Stored], *, target: int, focus: str | None = None) -> Written:
        """Over messages. Raises AuthenticationFailed and QuotaExhausted: a person has to put these right."""
        return self._write(of_messages(messages), max(1, target), focus)

    def condensed(self, children: Sequence[Node], *, target: int, focus: str | None = None) -> Written:
        """Over summaries. Raises AuthenticationFailed and QuotaExhausted."""
        return self._write(of_summaries(children), max(1, target), focus)

    def _write(self, sources: Sources, target: int, focus: str | None) -> Written:
        record = list(map(storable, sources.record()))
        # Where nothing was said, or nothing but one token, no model can say it in less.
        if record and sources.size > 1:
            written = self._by_a_model(sources, record, target, redact(focus) if focus else None)
            if written:
                return written
        return stand_in(sources, target)

    def _by_a_model(
        self, sources: Sources, record: Sequence[str], target: int, focus: str | None
    ) -> Written | None:
        if self.is_down:
            return None
        forms: tuple[tuple[Asked, int], ...] = (("detailed", target), ("bullets", max(1, target // 2)))
        for form, limit in forms[self._never_ends :]:
            # Asked for less than the limit, because a summary that runs into it is cut off and lost.
            tokens = min(limit * 3 // 4, sources.size // 2)
            prompt = prompt_for(sources.kind, form, tokens=tokens, focus=focus)
            try:
                answer = self._answer(prompt, record, limit, form)
                return _accepted(answer, form, limit, sources)
            except (AuthenticationFailed, QuotaExhausted):
                raise
            except _ANOTHER_PROMPT_MAY_HELP as failure:
                log.warning("lcm.summary_failed", form=form, reason=str(failure))
            except Exception as failure:  # noqa: BLE001 - whatever a summariser raises, the conversation goes on
                log.warning("lcm.summary_failed", form=form, reason=str(failure) or type(failure).__name__)
                self.is_down = True
                return None
        return None

    def _answer(self, prompt: Prompt, record: Sequence[str], limit: int, form: Asked) -> str:
        """How small a model's window turns out to be is remembered for the next question."""
        asked = estimate_text_tokens("\n".join(record)) + 2 * limit
        for _ in range(_HALVINGS):
            try:
                return self._roll(prompt, record, limit, form)
            except ContextOverflow:
                self._window = min(self._window, asked) // 2
        return self._roll(prompt, record, limit, form)

    def _roll(self, prompt: Prompt, record: Sequence[str], limit: int, form: Asked) -> str:
        """Piece by piece, each with the summary of those before it."""
        beside = estimate_text_tokens(prompt("", "-")) + 2 * limit
        room = max(_SMALLEST_PIECE, int(self._window * _USABLE_WINDOW) - beside)
        so_far = ""
        for piece in dated_pieces(record, room):
            try:
                answer = self._ask(prompt(piece, so_far), limit)
            except StreamCut as cut:
                answer = _whole_points(cut.partial_text, limit) if form == "bullets" else ""
                if not answer:
                    raise
                self._never_ends = True
            so_far = _clean(answer)
        return so_far


def _whole_points(cut: str, limit: int) -> str:
    """Nothing where it was not the limit that cut it off."""
    return up_to_a_sentence_end(cut) if estimate_text_tokens(cut) >= limit // 2 else ""


def _clean(answer: str | None) -> str:
    """What the engine can take over of an answer, with its topics in the last line."""
    content, topics = split_topics(redact(storable((answer or "").strip())))
    content = without_imitations(content)
    if not content:
        raise EmptyAnswer("It was asked for a summary.")
    return f"{content}\n{TOPICS} {topics}" if topics else content


def _accepted(answer: str, form: Asked, limit: int, sources: Sources) -> Written:
    content, topics = split_topics(answer)
    content = check_summary(content, sources.said_by_user()).text
    if not content:
        raise _Unusable("the summary held nothing that could be used")
    tokens = estimate_text_tokens(content)
    if tokens >= sources.size:
        raise _Unusable("the summary was not smaller than what it was to replace")
    if tokens > limit * _TOLERANCE:
        raise _Unusable(f"the summary had {tokens} tokens where {limit} were allowed")
    room = min(topic_room(limit), sources.size - 1 - tokens)
    topics = shortened_list(topics, room) or topics_of(sources, room)
    return Written(form, content, topics, size_of(content, topics))
