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

from ..graph import Node, SummaryText
from ..messages import StoredMessage
from .prompts import Prompt, SummaryForm, prompt_for
from .sources import (
    FALLBACK_TOKENS,
    TOPICS,
    Sources,
    dated_pieces,
    make_storable,
    remove_imitations,
    sources_of_messages,
    sources_of_summaries,
    split_topics,
    summary_tokens,
    topic_tokens,
    truncate_at_sentence,
    truncate_text,
    truncate_topics,
)
from .topics import find_topics

_MIN_EXTRACT_TOKENS = 64
"""Tokens. In less, the beginning of the first message says more than the beginnings of all."""
_EXTRACT_SHARE = 0.9
"""An extract is about as large as it is asked to be, and its end must not be cut off."""
_MIN_CHILD_TOKENS = 16
_TOKENS_PER_MESSAGE = 24
"""So that a message is shown with a few words of it."""
_NO_WORDS = "[nothing was said in words]"
_GAP = "…"


def fallback_summary(sources: Sources, target: int) -> SummaryText:
    """Smaller than its sources wherever these have a token, and empty only where they have less than two."""
    limit = max(0, min(FALLBACK_TOKENS, target, sources.size - 1))
    text = _fallback_text(sources, limit)
    topics = find_topics(sources, topic_tokens(limit)) if limit >= _MIN_EXTRACT_TOKENS else ""
    content = truncate_text(text, limit - estimate_text_tokens(topics)).strip()
    if not content:
        content = next((each for each in (_NO_WORDS, _GAP) if estimate_text_tokens(each) <= limit), "")
        topics = truncate_topics(topics, limit - estimate_text_tokens(content))
    return SummaryText("stand_in", content, topics, summary_tokens(content, topics))


def _fallback_text(sources: Sources, limit: int) -> str:
    room = int((limit - topic_tokens(limit)) * _EXTRACT_SHARE)
    if sources.kind == "condensed":
        text = _beginnings([chat["content"] for chat in sources.chats], room)
    elif limit < _MIN_EXTRACT_TOKENS:
        text = "\n".join(sources.record())
    else:
        text = extract(_sample(sources.chats, room // _TOKENS_PER_MESSAGE), room)
    return make_storable(strip_role_markers(text))


def _sample(chats: Sequence[ChatDict], most: int) -> Sequence[ChatDict]:
    """From the whole stretch, where there are too many: what people said before what tools returned."""
    if len(chats) <= most:
        return chats
    said = [chat for chat in chats if chat["role"] != "tool"] or chats
    return said[:: -(-len(said) // max(1, most))]


def _beginnings(contents: Sequence[str], room: int) -> str:
    """Of each child, without labels: these would pile up with every level."""
    cap = fair_cap([estimate_text_tokens(content) for content in contents], room, _MIN_CHILD_TOKENS)
    return "\n".join(filter(None, (truncate_text(content, cap) for content in contents)))


log = structlog.get_logger(__name__)

_USABLE_WINDOW = 0.7
"""Token counts here are estimates; this much of the window is safe to fill."""
_MIN_PIECE_TOKENS = 256
_MAX_HALVINGS = 3
"""How often the pieces are made smaller when the model says that they do not fit."""
_TOLERANCE = 1.3
"""Estimates are off by so much. What is larger still was not written within its limit."""


class _UnusableSummary(Exception):
    """An answer that cannot take the place of its sources."""


_RETRY_SHORTER = (_UnusableSummary, EmptyAnswer, StreamCut)
"""A cut answer is mostly one that ran into its limit, and bullet points are shorter."""


class Summariser:
    def __init__(self, ask: Summarize, *, window: int) -> None:
        """`window` is that of the model which `ask` asks, in tokens."""
        self._ask = ask
        self._window = window
        self.is_unreachable = False
        """A model failed in a way that another question cannot help. It is not asked again by this summariser."""
        self._bullets_only = False
        """It ran into both limits. From then on it is asked for bullet points at once."""

    def leaf(
        self, messages: Sequence[StoredMessage], *, target: int, focus: str | None = None
    ) -> SummaryText:
        """Over messages. Raises AuthenticationFailed and QuotaExhausted: a person has to put these right."""
        return self._write(sources_of_messages(messages), max(1, target), focus)

    def condensed(self, children: Sequence[Node], *, target: int, focus: str | None = None) -> SummaryText:
        """Over summaries. Raises AuthenticationFailed and QuotaExhausted."""
        return self._write(sources_of_summaries(children), max(1, target), focus)

    def _write(self, sources: Sources, target: int, focus: str | None) -> SummaryText:
        record = list(map(make_storable, sources.record()))
        # Where nothing was said, or nothing but one token, no model can say it in less.
        if record and sources.size > 1:
            written = self._ask_model(sources, record, target, redact(focus) if focus else None)
            if written:
                return written
        return fallback_summary(sources, target)

    def _ask_model(
        self, sources: Sources, record: Sequence[str], target: int, focus: str | None
    ) -> SummaryText | None:
        if self.is_unreachable:
            return None
        forms: tuple[tuple[SummaryForm, int], ...] = (("detailed", target), ("bullets", max(1, target // 2)))
        for form, limit in forms[self._bullets_only :]:
            # Asked for less than the limit, because a summary that runs into it is cut off and lost.
            tokens = min(limit * 3 // 4, sources.size // 2)
            prompt = prompt_for(sources.kind, form, tokens=tokens, focus=focus)
            try:
                answer = self._answer(prompt, record, limit, form)
                return _accept(answer, form, limit, sources)
            except (AuthenticationFailed, QuotaExhausted):
                raise
            except _RETRY_SHORTER as failure:
                log.warning("lcm.summary_failed", form=form, reason=str(failure))
            except Exception as failure:  # noqa: BLE001 - whatever a summariser raises, the conversation goes on
                log.warning("lcm.summary_failed", form=form, reason=str(failure) or type(failure).__name__)
                self.is_unreachable = True
                return None
        return None

    def _answer(self, prompt: Prompt, record: Sequence[str], limit: int, form: SummaryForm) -> str:
        """How small a model's window turns out to be is remembered for the next question."""
        asked = estimate_text_tokens("\n".join(record)) + 2 * limit
        for _ in range(_MAX_HALVINGS):
            try:
                return self._roll(prompt, record, limit, form)
            except ContextOverflow:
                self._window = min(self._window, asked) // 2
        return self._roll(prompt, record, limit, form)

    def _roll(self, prompt: Prompt, record: Sequence[str], limit: int, form: SummaryForm) -> str:
        """Piece by piece, each with the summary of those before it."""
        beside = estimate_text_tokens(prompt("", "-")) + 2 * limit
        room = max(_MIN_PIECE_TOKENS, int(self._window * _USABLE_WINDOW) - beside)
        so_far = ""
        for piece in dated_pieces(record, room):
            try:
                answer = self._ask(prompt(piece, so_far), limit)
            except StreamCut as cut:
                answer = _whole_points(cut.partial_text, limit) if form == "bullets" else ""
                if not answer:
                    raise
                self._bullets_only = True
            so_far = _clean_answer(answer)
        return so_far


def _whole_points(cut: str, limit: int) -> str:
    """Nothing where it was not the limit that cut it off."""
    return truncate_at_sentence(cut) if estimate_text_tokens(cut) >= limit // 2 else ""


def _clean_answer(answer: str | None) -> str:
    """What the engine can take over of an answer, with its topics in the last line."""
    content, topics = split_topics(redact(make_storable((answer or "").strip())))
    content = remove_imitations(content)
    if not content:
        raise EmptyAnswer("It was asked for a summary.")
    return f"{content}\n{TOPICS} {topics}" if topics else content


def _accept(answer: str, form: SummaryForm, limit: int, sources: Sources) -> SummaryText:
    content, topics = split_topics(answer)
    content = check_summary(content, sources.user_quotes()).text
    if not content:
        raise _UnusableSummary("the summary held nothing that could be used")
    tokens = estimate_text_tokens(content)
    if tokens >= sources.size:
        raise _UnusableSummary("the summary was not smaller than what it was to replace")
    if tokens > limit * _TOLERANCE:
        raise _UnusableSummary(f"the summary had {tokens} tokens where {limit} were allowed")
    room = min(topic_tokens(limit), sources.size - 1 - tokens)
    topics = truncate_topics(topics, room) or find_topics(sources, room)
    return SummaryText(form, content, topics, summary_tokens(content, topics))
