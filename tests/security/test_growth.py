"""No text from outside can freeze the process: the cost of whatever looks at it grows with its length, not with the
square of its length.

Every function that sees text of strangers, of models or of web pages is here, called as production calls it. A new one
belongs here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from telegram import MessageEntity, User
from telegram.constants import MessageEntityType

from agent import fts_text, untrusted
from agent.compression import (
    identifiers,
    ledger,
    ledger_entries,
    message_dates,
    pinned,
    prompt,
    revocations,
    standing_instructions,
    summary_check,
    summary_message,
    truncate,
)
from agent.context.branches import first_words
from agent.llm.retry import OverlapTrimmer
from agent.messages import CREATED_AT
from agent.redaction import Rule, all_rules, redact, rules_that_may_fire
from agent.redaction.known import StreamRedactor
from agent.tokens import cut_to_tokens, estimate_text_tokens
from agent.tool_support import search_worker
from agent.tools.fetch_url import html_to_text
from gateway.chat import group_context as chat_wording
from gateway.cli.chat_markdown import split_finished
from gateway.importers import parsing as values
from gateway.media import attachments
from gateway.models import errors
from gateway.models import errors as error_map
from gateway.observability import logs
from gateway.platforms.discord import message_reader as discord_wording
from gateway.platforms.telegram import formatting as mentions
from gateway.platforms.telegram import message_reader as addressing
from gateway.platforms.telegram import message_reader as content
from gateway.platforms.telegram.formatting import LIMIT, format_markdown
from gateway.platforms.web import renderer
from gateway.platforms.web.dashboard import conversations
from gateway.platforms.web.markdown import render_markdown
from gateway.store.sql import rows as store_rules
from gateway.store.sqlite.search import snippets
from gateway.text import display, unicode
from gateway.text.code_blocks import find_long_code, markdown_blocks
from gateway.text.outline import outline
from gateway.text.splitter import split_first
from gateway.text.tables import render_tables
from gateway.text.unicode import utf16_length
from gateway.types import parse_command
from tests.support.growth import Work, grows_too_fast, hostile_texts, repeated
from tests.support.joined_text import split_text
from tests.support.secret_samples import SAMPLES

_QUERY = fts_text.parse_query('hello "big world" 漢字 abc')
_ME = User(1, "Bot", is_bot=True, username="bot")
_OFFER = "1. the night train\n2. the early train\nWhich one?"
_STREAM = StreamRedactor(["sk-" + "a1b2c3d4" * 3, "`" * 20 + "x"])


def _said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _exchange(text: str) -> list[dict[str, Any]]:
    offer = {"role": "assistant", "content": f"{_OFFER}\n{text}"}
    return [*_said("Find me a train."), offer, *_said(text[:600])]


def _called(text: str) -> list[dict[str, Any]]:
    call = {"id": "1", "function": {"name": "send", "arguments": text}}
    return [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": text},
    ]


def _addressed(text: str) -> object:
    """A message has at most a hundred entities."""
    entities = [MessageEntity(MessageEntityType.MENTION, at, 4) for at in range(0, min(400, len(text)), 4)]
    return addressing.addressed_text(text, entities, _ME, {"help"})


def _on_discord(text: str) -> object:
    message: Any = SimpleNamespace(content=text, mentions=[], guild=None)
    return discord_wording.resolve_mentions(discord_wording._written_text(message, 1), message)


def _continued(text: str) -> object:
    """The model says the same again, in small chunks."""
    trimmer = OverlapTrimmer(text)
    return [trimmer.feed(text[at : at + 16]) for at in range(0, len(text), 16)] + [trimmer.flush()]


def _telegram(text: str) -> object:
    """No longer text than a message is ever formatted."""
    return format_markdown(text) if utf16_length(text) <= LIMIT else None


def _queried(text: str) -> object:
    return snippets({1: "hello " + text}, fts_text.parse_query("hello " + text[:500]))


WORK: dict[str, Work] = {
    # what others wrote, and what was said
    "untrusted.marked": untrusted.wrap_untrusted,
    "untrusted.parts_of": lambda text: list(untrusted.parts_of(text + untrusted.wrap_untrusted(text))),
    "untrusted.strip_added_role_markers": untrusted.strip_added_role_markers,
    "untrusted.in_a_note": untrusted.in_a_note,
    "first_words": first_words,
    "title_from": store_rules.title_from,
    "storable": store_rules.storable,
    "estimate_text_tokens": estimate_text_tokens,
    "cut_to_tokens": lambda text: cut_to_tokens(text, len(text) // 8),
    "OverlapTrimmer": _continued,
    "OverlapTrimmer, almost the same": lambda text: OverlapTrimmer(text + "!").feed(text + "?"),
    "chat.wording.speaker": chat_wording.safe_name,
    "chat.wording quote": lambda text: chat_wording._one_line(text, 500),
    # the search
    "fts_text.parse_query": lambda text: fts_text.parse_query(text).marks,
    "fts_text.indexable": fts_text.indexable,
    "snippets of a text": lambda text: snippets({1: text}, _QUERY),
    "snippets of a query": _queried,
    # secrets
    "redact": redact,
    "rules_that_may_fire": lambda text: rules_that_may_fire(text.split()),
    "known secrets in a stream": lambda text: [
        _STREAM.feed(text[at : at + 500]) for at in range(0, len(text), 500)
    ],
    "logs.redact_event": lambda text: logs.redact_event(None, "", {"event": text, "of": {"a": [text]}}),
    # the summary and its ledger
    "identifiers.find_identifiers": lambda text: identifiers.find_identifiers(text.split()),
    "identifiers.find_effects": lambda text: identifiers.find_effects(_called(text)),
    "identifiers.changes_something": identifiers.changes_something.__wrapped__,
    "standing_instructions.telling_words": lambda text: standing_instructions.telling_words(text.split()),
    "standing_instructions.find_instructions": standing_instructions.find_instructions,
    "standing_instructions.is_lasting": standing_instructions.is_lasting,
    "standing_instructions.last_statement": standing_instructions.last_statement,
    "revocations.revocation_kind": revocations.revocation_kind,
    "revocations.without_revoked": lambda text: revocations.without_revoked(["Never call."], text),
    "revocations.speaker_in": revocations.speaker_in,
    "revocations.topic_words": lambda text: revocations.topic_words(text.split(), [text]),
    "revocations.find_remarks": lambda text: revocations.find_remarks(
        [(1, text)], [(0, f"Never call {text}")]
    ),
    "standing_instructions.possible_remarks": standing_instructions.possible_remarks,
    "ledger_entries.typed_parts": lambda text: list(ledger_entries.typed_parts(text)),
    "summary_check": lambda text: summary_check.check_summary(text, [text]),
    "identifiers.find_phrases": lambda text: identifiers.find_phrases([text]),
    "pinned.offers_options": pinned.offers_options,
    "pinned.has_chosen, an offer": lambda text: pinned.has_chosen("The second one, please.", text),
    "pinned.has_chosen, a reply": lambda text: pinned.has_chosen(text, _OFFER),
    "pinned.find_pinned": lambda text: pinned.find_pinned(_exchange(text), ()),
    "pinned.find_pinned, many messages": lambda text: pinned.find_pinned(
        [message for line in text.splitlines() for message in _exchange(line)], ()
    ),
    "message_dates.first_of_each_day": lambda text: message_dates.first_of_each_day(
        [_said(text)[0] | {CREATED_AT: 1.0}]
    ),
    "message_dates.with_day": lambda text: message_dates.with_day(text, "Wed 2026-11-18"),
    "errors.is_overflow": lambda text: errors.is_overflow(text, 400),
    "errors.limit_in": errors.limit_in,
    "ledger.split_ledger": ledger.split_ledger,
    "ledger.without_ledger_marks": ledger.without_ledger_marks,
    "vocabulary_of": lambda text: ledger_entries.vocabulary_of(_said(text), _said(text)),
    "truncate": lambda text: truncate.truncate(_said(untrusted.wrap_untrusted(text))[0], 200),
    "find_earlier": lambda text: summary_message.find_earlier(_said(text)),
    "foreign_text": lambda text: summary_message.foreign_text(_said(f"[LCM RECORD]\n{text}")[0]),
    "foreign_text, marked lines": lambda text: summary_message.foreign_text(
        _said("[LCM RECORD]\n" + text.replace("a", "[s1 · m1"))[0]
    ),
    "record_of": lambda text: prompt.record_of([*_said(text), *_called(text)]),
    # tools
    "html_to_text": lambda text: html_to_text(text, base_url="https://example.org/a"),
    "html_to_text, preformatted": lambda text: html_to_text(f"<pre>{text}x"),
    "html_to_text of a tag": lambda text: html_to_text(f"<a {text}>", base_url="https://example.org/a"),
    "search_worker.without_keys": search_worker.without_keys,
    "search_worker.snippet": lambda text: search_worker.snippet(text, len(text) // 2),
    # messages to a chat
    "split_text": lambda text: split_text(text, 1_000, utf16_length),
    "split_first": lambda text: split_first(text, 1_000, len),
    "outline": outline,
    "markdown_blocks": lambda text: [block.code for block in markdown_blocks(text) if block.fence],
    "find_long_code": lambda text: find_long_code(text, longer_than=10),
    "render_tables": render_tables,
    "render_tables of a cell": lambda text: render_tables(f"| a | b |\n|---|---|\n| {text} |"),
    "inside_graphemes": unicode.inside_graphemes,
    "repair_surrogates": unicode.repair_surrogates,
    "escape_confusables": unicode.escape_confusables,
    "display.one_line": lambda text: display.one_line(text, 80),
    "display.summarize_arguments": display.summarize_arguments,
    "display.format_arguments": display.format_arguments,
    "display.code_block": display.code_block,
    "telegram.formatted": _telegram,
    "telegram.suppress_mentions": lambda text: mentions.suppress_mentions(text[:LIMIT], []),
    "telegram.addressed_text": _addressed,
    "telegram.display_name": content.display_name,
    "discord words": _on_discord,
    "parse_command": parse_command,
    "parse_command of a command": lambda text: parse_command("/" + text),
    # the web and the terminal
    "render_markdown": render_markdown,
    "renderer.redact_and_truncate": lambda text: renderer.redact_and_truncate(text, 6_000),
    "renderer of a call": lambda text: renderer._pretty(text, renderer.parse_arguments(text)),
    "dashboard render_snippet": conversations.render_snippet,
    "split_finished": split_finished,
    # files and foreign programs
    "safe_filename": attachments.safe_filename,
    "documents": lambda text: attachments._decode(text.encode("utf-8", "surrogatepass")),
    "import of a time": lambda text: values._seconds(text),
    "error of a provider": lambda text: error_map._message(Exception(text)),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What cannot be formatted is logged, once for each text."""
    with structlog.testing.capture_logs():
        yield


@pytest.mark.parametrize("name", WORK)
def test_the_cost_grows_with_the_length(name: str) -> None:
    """Four times the text costs about four times as much; with the square of its length it would be sixteen."""
    slow = {what: found for what, text in hostile_texts() if (found := grows_too_fast(WORK[name], text))}

    assert not slow


def test_a_quadratic_pattern_is_found() -> None:
    """A pattern that once split excerpts, on white space alone."""
    split = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\s*\n+\s*").split
    assert grows_too_fast(split, repeated(" "))


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: f"{rule.what}, {rule.hints[0]}")
def test_a_redaction_rule_grows_with_the_length(rule: Rule) -> None:
    """On texts full of what it looks for: its hints, its samples, and beginnings of its samples."""
    samples = [around.format(secret) for what, around, secret in SAMPLES if what == rule.what][:4]
    atoms = [*rule.hints[:4], *(hint + end for hint in rule.hints[:2] for end in "=: -"), *samples]
    atoms += [sample[: len(sample) * part // 4] for sample in samples for part in (1, 2, 3)]

    slow = [
        (atom, found)
        for atom in filter(None, atoms)
        if (found := grows_too_fast(lambda text: list(rule.find(text)), repeated(atom)))
    ]

    assert not slow
