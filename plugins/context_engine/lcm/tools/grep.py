"""`lcm_grep`: searches all messages of the conversation, in several modes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from sqlite3 import Connection
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from agent.tokens import cut_to_tokens, estimate_text_tokens

from ..context_membership import ContextMembers
from ..formatting import format_time, pluralize
from ..messages import make_storable
from ..search import search
from ..search.page import LEGEND, Page, PageInputs, pages, with_neighbours
from ..search.request import InvalidSearch, Mode, SearchRequest, SearchResult, parse_timestamp
from .tool import (
    MAX_CHARACTERS,
    Arguments,
    CallContext,
    EngineTool,
    ToolRefusal,
    WholeNumber,
    current_turn_keys,
    result_tokens,
    visible_conversations,
)

if TYPE_CHECKING:
    from ..search.embeddings import EmbeddingModel

_DEFAULT_TOKENS = 2_000
_MAX_CONTEXT = 5
_MAX_CONVERSATIONS = 200
_MAX_PAGE = 10_000
Role = Literal["user", "assistant", "tool"]
HEADER_TOKENS = 30
"""Room for the first line."""


class GrepArguments(Arguments):
    query: str = Field(description="A question, words, a phrase or a pattern.")
    mode: Mode | None = Field(
        None,
        description="natural (default): any of the words, best first. phrase: these words in this order. "
        "all: all of the words. regex: a regular expression, case ignored. The last three: newest first.",
    )
    role: Role | None = Field(None, description="Only what was said in this role.")
    since: str = Field("", description="From this date or time on: 2026-03-01, UTC.")
    until: str = Field("", description="Up to the end of this date, or up to this time.")
    limit: WholeNumber = Field(0, ge=1, description="Hits at most. Default: as many as fit.")
    context: WholeNumber = Field(
        0, ge=0, description="Messages before and after each hit to show as well. Default 0, at most 5."
    )
    page: WholeNumber = Field(1, ge=1, le=_MAX_PAGE, description="The next best ones. Default 1.")
    everywhere: bool = Field(
        False, description="Also in the 200 newest other conversations of this person. Default false."
    )
    max_tokens: WholeNumber = Field(_DEFAULT_TOKENS, ge=200, description="Size of the result. Default 2000.")


def run(call: CallContext, args: GrepArguments) -> str:
    try:
        model = call.model() if args.mode in (None, "natural") else None
        with call.database.reading() as connection:
            return _answer(connection, call, args, model)
    except InvalidSearch as error:
        raise ToolRefusal(str(error)) from None


def _request(connection: Connection, call: CallContext, args: GrepArguments) -> SearchRequest:
    within = visible_conversations(connection, call, everywhere=args.everywhere)
    newest_first = sorted(within, key=lambda key: (within[key] != call.conversation_id, -key))
    request = SearchRequest(
        newest_first[:_MAX_CONVERSATIONS],
        make_storable(args.query),
        args.mode or "natural",
        args.role or "",
        parse_timestamp(args.since, end_of_day=False, name="since") if args.since else None,
        parse_timestamp(args.until, end_of_day=True, name="until") if args.until else None,
        current_turn_keys(connection, call),
    )
    if not request.text.strip():
        raise ToolRefusal("`query` is empty. Give a question or words to look for.")
    if request.since is not None and request.until is not None and request.since >= request.until:
        raise ToolRefusal("`since` is later than `until`.")
    return request


def _answer(
    connection: Connection, call: CallContext, args: GrepArguments, model: EmbeddingModel | None
) -> str:
    request = _request(connection, call, args)
    found = search(connection, request, model)
    if not found.hits:
        return _no_hits(request, found, args.everywhere)
    hits = found.hits[: args.limit or None]
    shown = with_neighbours(connection, hits, min(_MAX_CONTEXT, args.context))
    room = min(result_tokens(call, args.max_tokens), MAX_CHARACTERS // 4)
    left = room - HEADER_TOKENS - estimate_text_tokens(_time_note(found))
    inputs = PageInputs(connection, ContextMembers.load(connection, call), found.words, left)
    before = list(islice(pages(inputs, shown), args.page))
    if len(before) < args.page:
        raise ToolRefusal(f"There is no page {args.page}: page {len(before)} is the last one.")
    return _text(before, found, len(shown), request, room)


def _text(before: Sequence[Page], found: SearchResult, total: int, request: SearchRequest, room: int) -> str:
    page = before[-1]
    left = total - sum(len(each.shown) for each in before)
    order = "best first" if request.mode == "natural" else "newest first"
    more = f"{left:,}{' or more' if found.more else ''} further: page={len(before) + 1}. " if left else ""
    header = f"{pluralize(len(page.shown), 'message')}, {order}; {LEGEND}. {more}{_time_note(found)}".strip()
    return cut_to_tokens(f"{header}\n{page.text()}", room)


def _time_note(found: SearchResult) -> str:
    """Point to the end of that minute, so that no message is skipped."""
    if found.searched_back_to is None:
        return ""
    return (
        f"Time ran out; for older ones: until={format_time(found.searched_back_to + 60).replace(' ', 'T')}. "
    )


def _no_hits(request: SearchRequest, found: SearchResult, everywhere: bool) -> str:
    tries = {
        "natural": "Try other words for the same thing",
        "phrase": "Try mode natural, which needs no exact wording",
        "all": "Try fewer words, or mode natural",
        "regex": "Try a simpler pattern, or mode natural",
    }[request.mode]
    bounds = [name for name in ("role", "since", "until") if getattr(request, name) not in ("", None)]
    without = f", or leave out {' and '.join(bounds)}" if bounds else ""
    wider = "" if everywhere else ", or everywhere=true for this person's other conversations"
    return f"Nothing found. {tries}{without}{wider}. {_time_note(found)}".strip()


TOOL = EngineTool(
    "lcm_grep",
    (
        "Searches everything that was ever said in this conversation, word for word, also what has left your context. "
        "Use it before you say that you do not know or remember something, and whenever a detail matters: names, "
        "numbers, dates, decisions, what a tool returned. Ask the question as it is, or give the words to look for. "
        "The best matching messages come back with their ids, under the summary that covers them; lcm_expand gives "
        "the messages around an id."
    ),
    GrepArguments,
    run,
)
