"""The summary that needs no model: the beginnings of what was said, in as little space as is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agent.compression.summariser import Summarize, extract
from agent.compression.summary_check import check_summary
from agent.compression.truncate import fair_cap
from agent.errors import AuthenticationFailed, ContextOverflow, EmptyAnswer, QuotaExhausted, StreamCut
from agent.messages import ChatDict
from agent.redaction import redact
from agent.tokens import estimate_text_tokens
from agent.untrusted import strip_role_markers

from ..graph import Node, Written
from ..messages import Stored
from .prompts import Asked, Prompt, prompt_for
from .sources import (
    STAND_IN_TOKENS,
    TOPICS,
    Sources,
    dated_pieces,
    of_messages,
    of_summaries,
    shortened,
    shortened_list,
    size_of,
    split_topics,
    storable,
    topic_room,
    up_to_a_sentence_end,
    without_imitations,
)
from .topics import topics_of

_ROOM_FOR_AN_EXTRACT = 64
"""Tokens. In less, the beginning of the first message says more than the beginnings of all."""
_EXTRACT_SHARE = 0.9
"""An extract is about as large as it is asked to be, and its end must not be cut off."""
_SMALLEST = 16
_TOKENS_FOR_EACH = 24
"""So that a message is shown with a few words of it."""
_NO_WORDS = "[nothing was said in words]"
_GAP = "…"


def stand_in(sources: Sources, target: int) -> Written:
    """Smaller than its sources wherever these have a token, and empty only where they have less than two."""
    limit = max(0, min(STAND_IN_TOKENS, target, sources.size - 1))
    text = _text(sources, limit)
    topics = topics_of(sources, topic_room(limit)) if limit >= _ROOM_FOR_AN_EXTRACT else ""
    content = shortened(text, limit - estimate_text_tokens(topics)).strip()
    if not content:
        content = next((each for each in (_NO_WORDS, _GAP) if estimate_text_tokens(each) <= limit), "")
        topics = shortened_list(topics, limit - estimate_text_tokens(content))
    return Written("stand_in", content, topics, size_of(content, topics))


def _text(sources: Sources, limit: int) -> str:
    room = int((limit - topic_room(limit)) * _EXTRACT_SHARE)
    if sources.kind == "condensed":
        text = _beginnings([chat["content"] for chat in sources.chats], room)
    elif limit < _ROOM_FOR_AN_EXTRACT:
        text = "\n".join(sources.record())
    else:
        text = extract(_shown(sources.chats, room // _TOKENS_FOR_EACH), room)
    return storable(strip_role_markers(text))


def _shown(chats: Sequence[ChatDict], most: int) -> Sequence[ChatDict]:
    """From the whole stretch, where there are too many: what people said before what tools returned."""
    if len(chats) <= most:
        return chats
    said = [chat for chat in chats if chat["role"] != "tool"] or chats
    return said[:: -(-len(said) // max(1, most))]


def _beginnings(contents: Sequence[str], room: int) -> str:
    """Of each child, without labels: these would pile up with every level."""
    cap = fair_cap([estimate_text_tokens(content) for content in contents], room, _SMALLEST)
    return "\n".join(filter(None, (shortened(content, cap) for content in contents)))


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
