"""The engine: the contract of `agent.context_engine` and the state of one conversation."""

from __future__ import annotations

import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import structlog

from agent.compression.backoff import Backoff, NoGain
from agent.compression.outcome import CompressionOutcome, fallback_detail, outcome_of
from agent.compression.summariser import Summarize, ask_auxiliary
from agent.context_engine import ContextEngine
from agent.errors import AuthenticationFailed, QuotaExhausted
from agent.ids import new_id
from agent.messages import ChatDict
from agent.tokens import estimate_messages_tokens_rough

from . import tools
from .compaction import Compaction, CompactionResult, GraphBuilder
from .database import DATABASE_ERRORS, FILE_NAME, Database, close_database, find_problem, shared_database
from .graph import summaries_by_key
from .hints import find_hint
from .ingest import ParsedContext, parse_context, save_context
from .options import Options, make_limits
from .search.semantic import SemanticSearch, update_embeddings
from .stats import record_compaction, status_counts
from .summarising import Summariser
from .tools.tool import CallContext

log = structlog.get_logger(__name__)

_MAX_EMBEDDED = 20_000
"""Messages that are embedded after a compaction: one or two seconds at most."""


class LosslessContext(ContextEngine):
    """The context engine `lcm`, one instance per conversation."""

    name = "lcm"
    last_outcome: CompressionOutcome
    """Result of the last compress() call. The host reports it to the user."""
    _shows_fallback: bool
    _no_gain: NoGain
    _refusals: Backoff
    _fallbacks: Backoff

    def __init__(
        self,
        context_length: int,
        *,
        hermes_home: str = "",
        options: Mapping[str, Any] | None = None,
        summarize: Summarize = ask_auxiliary,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._options = Options.read(options)
        self._meaning = SemanticSearch(self._options.semantic)
        self._summarize = summarize
        self._clock = clock
        self._home = hermes_home
        self._database: Database | None = None
        self._temporary_folder: Path | None = None
        self._conversation_id = new_id("unnamed")
        self._session_id = ""
        self._person = ""
        self._set_window(context_length)
        self._reset_state()

    @property
    def has_fallback_summary(self) -> bool:  # type: ignore[override]  # the host only reads it
        return self._shows_fallback and not self._fallbacks.is_waiting

    # Sessions

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """Without a conversation id, each session without a parent is a conversation."""
        self._home = str(kwargs.get("hermes_home") or self._home)
        if conversation_id := kwargs.get("conversation_id"):
            self._conversation_id = str(conversation_id)
        elif not kwargs.get("parent_session_id"):
            self._conversation_id = session_id
        self._session_id = session_id
        self._person = str(kwargs.get("person") or "")
        if kwargs.get("boundary_reason") == "compression":
            self._no_gain.used()

    def on_session_end(self, session_id: str, messages: list[ChatDict]) -> None:
        try:
            self._ingest(messages)
        finally:
            if self._database:
                self._database.release()
                self._database = None

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self._reset_state()

    # When to compact

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = int(usage.get("prompt_tokens") or 0)
        self.last_completion_tokens = int(usage.get("completion_tokens") or 0)
        total = usage.get("total_tokens") or self.last_prompt_tokens + self.last_completion_tokens
        self.last_total_tokens = int(total)
        self._no_gain.judge(self.last_prompt_tokens, self.threshold_tokens)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens and not (self._no_gain.is_waiting or self._refusals.is_waiting)

    def should_compress_preflight(self, messages: list[ChatDict]) -> bool:
        """Store new messages. Raises database errors, so that the host can report them. The host decides by tokens."""
        self._ingest(messages)
        return False

    def update_model(
        self, model: str, context_length: int, base_url: str = "", api_key: str = "", provider: str = ""
    ) -> None:
        self._set_window(context_length)
        self._no_gain.clear()
        self._refusals.clear()

    # Compaction

    def compress(
        self, messages: list[ChatDict], current_tokens: int | None = None, focus_topic: str | None = None
    ) -> list[ChatDict]:
        """Return the compacted context, or the same list where nothing can be gained.

        Without `current_tokens` a user asked for it: then everything older than the tail is summarised, else as much as
        needed.
        """
        if not messages:
            return messages
        began = time.monotonic()
        try:
            reading = self._ingest(messages)
            done = self._compaction(reading, current_tokens, focus_topic)
            self._refusals.clear()
            concluded = self._conclude(messages, reading, done, time.monotonic() - began)
            if model := self._meaning.model():
                update_embeddings(self._db, self._conversation_id, model, _MAX_EMBEDDED)
            return concluded
        except (AuthenticationFailed, QuotaExhausted) as refusal:
            reason = str(refusal)
        except DATABASE_ERRORS as error:
            reason = f"The database of the context engine cannot be used: {str(error).rstrip('.')}."
        self._refusals.strike()
        self.last_outcome = CompressionOutcome("failed", reason, time.monotonic() - began)
        return messages

    def _compaction(
        self, reading: ParsedContext, current_tokens: int | None, focus: str | None
    ) -> CompactionResult:
        before, threshold = reading.tokens, self.threshold_tokens
        # The difference is mostly tool schemas, but not all of it where estimates are far off.
        overhead = min(threshold // 2, max(0, (current_tokens or 0) - before))
        beside = overhead + sum(item.tokens for item in reading.items if item.kind == "system")
        limits = make_limits(threshold, self.context_length, self._options, beside=beside)
        summariser = Summariser(self._summarize, window=self.context_length)
        graph = GraphBuilder(
            self._db, reading.conversation, summariser, limits, focus=focus, clock=self._clock
        )
        forced = current_tokens is None or focus is not None or current_tokens >= threshold > before
        return Compaction(self._db, reading, limits, graph).run(forced=forced)

    def hint(self, messages: list[ChatDict]) -> str | None:
        """Point to earlier messages like the newest one, if they have left the context."""
        reading = self._try_ingest(messages)
        return find_hint(self._db, reading) if reading and self._options.recall_hints else None

    # Tools

    def get_tool_schemas(self) -> list[ChatDict]:
        return tools.schemas()

    def handle_tool_call(self, name: str, args: Mapping[str, Any], **kwargs: Any) -> str:
        if messages := kwargs.get("messages"):
            self._try_ingest(messages)
        call = CallContext(
            self._db,
            self._conversation_id,
            self._person,
            self._session_id,
            self.context_length,
            self.threshold_tokens,
            self.last_prompt_tokens,
            self._summarize,
            self._meaning,
        )
        return tools.answer(name, args, call)

    def problem(self) -> str:
        return find_problem(Path(self._home) / FILE_NAME) if self._home else ""

    def get_status(self) -> dict[str, Any]:
        status = super().get_status()
        try:
            with self._db.reading() as connection:
                return status | status_counts(connection, self._conversation_id)
        except DATABASE_ERRORS as error:
            return status | {"problem": str(error)}

    # Helpers

    def _conclude(
        self, messages: list[ChatDict], reading: ParsedContext, done: CompactionResult, seconds: float
    ) -> list[ChatDict]:
        before, after = reading.tokens, estimate_messages_tokens_rough(done.messages)
        redone = self._shows_fallback and not done.has_fallback
        self._shows_fallback = done.has_fallback
        if done.has_fallback:
            self._fallbacks.strike()
        else:
            self._fallbacks.clear()
        if not done.changed or done.messages == messages or (after >= before and not redone):
            self.last_outcome = replace(outcome_of(messages, messages, before, before), seconds=seconds)
            return messages
        outcome = replace(
            outcome_of(messages, done.messages, before, after), seconds=seconds, shortened=done.copied
        )
        if done.has_fallback:
            outcome = replace(outcome, kind="stand_in", detail=fallback_detail("see the log"))
        self.last_outcome = outcome
        with self._db.writing() as connection:
            record_compaction(
                connection,
                reading.conversation,
                self._session_id,
                outcome,
                summaries=done.summarised,
                now=self._clock(),
            )
        self.compression_count += 1
        self._no_gain.compacted()
        return done.messages

    def _try_ingest(self, messages: list[ChatDict]) -> ParsedContext | None:
        """Store new messages if the database is usable; otherwise the next call stores them."""
        try:
            return self._ingest(messages)
        except DATABASE_ERRORS as error:
            log.warning("lcm.not_stored", reason=str(error))
            return None

    def _ingest(self, messages: list[ChatDict]) -> ParsedContext:
        now = self._clock()
        with self._db.writing() as connection:
            reading = parse_context(connection, self._conversation_id, messages, person=self._person, now=now)
            save_context(connection, reading, self._session_id, now)
            shown = summaries_by_key(connection, reading.summaries)
        self._shows_fallback = any(node.can_be_retried for node in shown.values())
        return reading

    @property
    def _db(self) -> Database:
        if self._database is None:
            self._database = shared_database(self._folder() / FILE_NAME)
        return self._database

    def _folder(self) -> Path:
        """Return the state directory, or a temporary folder that is deleted when the process ends."""
        if self._home and Path(self._home).is_dir():
            return Path(self._home)
        if self._temporary_folder is None:
            self._temporary_folder = Path(tempfile.mkdtemp(dir=_temporary_root().name))
            weakref.finalize(self, close_database, self._temporary_folder)
        return self._temporary_folder

    def _set_window(self, context_length: int) -> None:
        if context_length < 1:
            raise ValueError(f"The context length must be positive, not {context_length}.")
        self.context_length = context_length
        self.threshold_tokens = round(context_length * self._options.threshold)

    def _reset_state(self) -> None:
        self.last_outcome = CompressionOutcome("nothing_to_do", "")
        self._shows_fallback = False
        self._fallbacks = Backoff(time.monotonic)
        self._no_gain = NoGain(time.monotonic)
        self._refusals = Backoff(time.monotonic)


@cache
def _temporary_root() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hermes-lcm-")
