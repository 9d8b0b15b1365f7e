"""Writes summaries: asks a model in detail, then for bullet points, and falls back to an extract without a model.

Bullet points that reach their limit are kept up to the last complete one. A detailed summary that is cut is discarded.

For sources of N tokens, by the estimate that the store keeps:

- if N is 1 or more, the summary has fewer than N tokens (content and topics together);
- if N is 2 or more, it is not empty;
- a model's summary has about `target` tokens, bullet points half of that; a fallback has at most 512 and at most
  `target`, if that is at least one.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from agent.compression.summariser import Summarize, extract
from agent.compression.summary_check import check_summary
from agent.compression.truncate import fair_cap
from agent.errors import (
    AuthenticationFailed,
    ContextOverflow,
    EmptyAnswer,
    ModelError,
    QuotaExhausted,
    StreamCut,
)
from agent.messages import ChatDict
from agent.redaction import redact
from agent.tokens import estimate_text_tokens
from agent.untrusted import strip_role_markers

from ..graph import FALLBACK, Node, SummaryText
from ..messages import StoredMessage, make_storable
from .prompts import Prompt, SummaryForm, prompt_for
from .sources import (
    FALLBACK_TOKENS,
    TOPICS,
    Sources,
    dated_pieces,
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
"""In less, the beginning of the first message says more than the beginnings of all."""
_EXTRACT_SHARE = 0.9
"""Reserve: an extract may be a little larger than asked for, and its end must not be cut."""
_MIN_CHILD_TOKENS = 16
_TOKENS_PER_MESSAGE = 24
"""So that each shown message has a few words."""
_NO_WORDS = "[nothing was said in words]"
_GAP = "…"


def fallback_summary(sources: Sources, target: int) -> SummaryText:
    """Extract a summary without a model. It is smaller than its sources, and empty only below two tokens."""
    limit = max(0, min(FALLBACK_TOKENS, target, sources.size - 1))
    text = _fallback_text(sources, limit)
    topics = find_topics(sources, topic_tokens(limit)) if limit >= _MIN_EXTRACT_TOKENS else ""
    content = truncate_text(text, limit - estimate_text_tokens(topics)).strip()
    if not content:
        content = next((each for each in (_NO_WORDS, _GAP) if estimate_text_tokens(each) <= limit), "")
        topics = truncate_topics(topics, limit - estimate_text_tokens(content))
    return SummaryText(FALLBACK, content, topics, summary_tokens(content, topics))


def _fallback_text(sources: Sources, limit: int) -> str:
    room = int((limit - topic_tokens(limit)) * _EXTRACT_SHARE)
    if sources.kind == "condensed":
        # Beginnings without labels, which would accumulate with every level.
        contents = [chat["content"] for chat in sources.chats]
        cap = fair_cap(list(map(estimate_text_tokens, contents)), room, _MIN_CHILD_TOKENS)
        text = "\n".join(filter(None, (truncate_text(content, cap) for content in contents)))
    elif limit < _MIN_EXTRACT_TOKENS:
        text = "\n".join(sources.record())
    else:
        text = extract(_sample(sources.chats, room // _TOKENS_PER_MESSAGE), room)
    return make_storable(strip_role_markers(text))


def _sample(chats: Sequence[ChatDict], most: int) -> Sequence[ChatDict]:
    """Sample messages evenly, preferring people's messages to tool results."""
    if len(chats) <= most:
        return chats
    said = [chat for chat in chats if chat["role"] != "tool"] or chats
    return said[:: -(-len(said) // max(1, most))]


log = structlog.get_logger(__name__)

_USABLE_WINDOW = 0.7
"""Share of the window that is safe to fill, because token counts are estimates."""
_MIN_PIECE_TOKENS = 256
_MAX_HALVINGS = 3
"""How often pieces are made smaller when the model rejects them as too long."""
_TOLERANCE = 1.3
"""Estimates are off by this factor. A larger summary ignored its limit."""


def call_model(ask: Summarize, prompt: str, max_tokens: int) -> str:
    """Call the model; an empty string if it answers nothing. Raises only ModelError."""
    try:
        return ask(prompt, max_tokens) or ""
    except ModelError:
        raise
    except Exception as failure:  # `ask` is foreign code, and the conversation goes on without a model
        log.warning("lcm.model_failed", reason=type(failure).__name__, exc_info=True)
        raise ModelError from failure


class _UnusableSummary(Exception):
    """An answer that cannot replace its sources."""


_RETRY_SHORTER = (_UnusableSummary, EmptyAnswer, StreamCut)
"""Errors after which bullet points may succeed: a cut answer mostly reached its limit."""


class Summariser:
    """Writes the summaries of one compaction."""

    def __init__(self, ask: Summarize, *, window: int) -> None:
        """`window` is the context length of the model that `ask` calls, in tokens."""
        self._ask = ask
        self._window = window
        self.is_unreachable = False
        """The model failed in a way that another prompt cannot help. It is not asked again."""
        self._bullets_only = False
        """The model reached both limits, so it is asked for bullet points at once."""

    def leaf(
        self, messages: Sequence[StoredMessage], *, target: int, focus: str | None = None
    ) -> SummaryText:
        """Summarise messages. Raises AuthenticationFailed and QuotaExhausted, which the owner has to fix."""
        return self._write(sources_of_messages(messages), max(1, target), focus)

    def condensed(self, children: Sequence[Node], *, target: int, focus: str | None = None) -> SummaryText:
        """Summarise summaries. Raises AuthenticationFailed and QuotaExhausted."""
        return self._write(sources_of_summaries(children), max(1, target), focus)

    def _write(self, sources: Sources, target: int, focus: str | None) -> SummaryText:
        record = list(map(make_storable, sources.record()))
        # A source of one token cannot be shortened.
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
            # Ask for less than the limit: a summary that reaches it is cut and lost.
            tokens = min(limit * 3 // 4, sources.size // 2)
            prompt = prompt_for(sources.kind, form, tokens=tokens, focus=focus)
            try:
                answer = self._answer(prompt, record, limit, form)
                return _accept(answer, form, limit, sources)
            except (AuthenticationFailed, QuotaExhausted):
                raise
            except _RETRY_SHORTER as failure:
                log.warning("lcm.summary_failed", form=form, reason=str(failure))
            except ModelError as failure:
                log.warning("lcm.summary_failed", form=form, reason=str(failure))
                self.is_unreachable = True
                return None
        return None

    def _answer(self, prompt: Prompt, record: Sequence[str], limit: int, form: SummaryForm) -> str:
        """Halve the pieces on ContextOverflow, and remember the smaller window."""
        asked = estimate_text_tokens("\n".join(record)) + 2 * limit
        for _ in range(_MAX_HALVINGS):
            try:
                return self._roll(prompt, record, limit, form)
            except ContextOverflow:
                self._window = min(self._window, asked) // 2
        return self._roll(prompt, record, limit, form)

    def _roll(self, prompt: Prompt, record: Sequence[str], limit: int, form: SummaryForm) -> str:
        """Summarise piece by piece, each with the summary so far."""
        beside = estimate_text_tokens(prompt("", "-")) + 2 * limit
        room = max(_MIN_PIECE_TOKENS, int(self._window * _USABLE_WINDOW) - beside)
        so_far = ""
        for piece in dated_pieces(record, room):
            try:
                answer = call_model(self._ask, prompt(piece, so_far), limit)
            except StreamCut as cut:
                # A shorter answer was cut for another reason than its limit.
                at_limit = estimate_text_tokens(cut.partial_text) >= limit // 2
                answer = truncate_at_sentence(cut.partial_text) if form == "bullets" and at_limit else ""
                if not answer:
                    raise
                self._bullets_only = True
            so_far = _clean_answer(answer)
        return so_far


def _clean_answer(answer: str) -> str:
    """Redact and clean an answer, with its topics in the last line."""
    content, topics = split_topics(redact(make_storable(answer.strip())))
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
