"""Tools of the engine: definition and arguments, the context of a call, visible ids, and size limits of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sqlite3 import Connection
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from agent.compression.summariser import Summarize
from agent.messages import ChatDict
from agent.tokens import cut_to_tokens, estimate_text_tokens
from agent.tool import did_you_mean

from ..database import Database
from ..graph import Node, node_from_row
from ..messages import last_seq
from ..search.semantic import SemanticSearch, update_embeddings

if TYPE_CHECKING:
    from ..search.embeddings import EmbeddingModel


class ToolRefusal(Exception):
    """A call that cannot be answered. The text tells the model what to do next."""


_MAX_EMBEDDED = 2_048
"""Messages that are embedded before a search: about a sixth of a second."""


@dataclass(frozen=True, slots=True)
class CallContext:
    database: Database
    conversation_id: str
    person: str
    session_id: str
    context_length: int
    threshold_tokens: int
    last_prompt_tokens: int
    ask: Summarize
    """Calls the auxiliary model. Use `call_model`, which raises only ModelError."""
    meaning: SemanticSearch | None = None

    def model(self) -> EmbeddingModel | None:
        """Return the embedding model after embedding new messages. None: search by words only."""
        model = self.meaning.model() if self.meaning else None
        if model:
            update_embeddings(self.database, self.conversation_id, model, _MAX_EMBEDDED)
        return model


_MAX_SHOWN = 60
_WANTED = {
    "string": "a text",
    "int": "a whole number",
    "finite": "a whole number",
    "bool": "true or false",
    "list": "a list",
}
"""By the first word of pydantic's type of an error."""


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _refuse_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "a boolean is not a number")
    return value


WholeNumber = Annotated[int, BeforeValidator(_refuse_bool)]
"""`3`, `3.0` and `"3"`, but not `true`."""
TextList = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
"""A list of texts; a single text is a list of one."""


@dataclass(frozen=True, slots=True)
class EngineTool:
    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[CallContext, Any], str]
    """Takes the context of the call and the checked arguments. Raises ToolRefusal."""

    @property
    def schema(self) -> ChatDict:
        made = self.arguments.model_json_schema()
        parameters: ChatDict = {
            "type": "object",
            "properties": {name: _plain(field) for name, field in made.get("properties", {}).items()},
        }
        if required := made.get("required"):
            parameters["required"] = required
        return {"name": self.name, "description": self.description, "parameters": parameters}

    def call(self, call: CallContext, given: Mapping[str, Any]) -> str:
        """Raises ToolRefusal if an argument does not fit."""
        return self.run(call, self._check(given))

    def _check(self, given: Mapping[str, Any]) -> Arguments:
        if not isinstance(given, Mapping):
            raise ToolRefusal(f"`{self.name}` takes its arguments as one JSON object.")
        fields = self.arguments.model_fields
        # Models write null where they mean "not given".
        present = {
            str(name): value
            for name, value in given.items()
            if name not in fields or (value is not None and not (value == "" and fields[name].is_required()))
        }
        try:
            return self.arguments.model_validate(present)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            # A misspelled name comes first: it may explain a missing one.
            problems.sort(key=lambda problem: problem["type"] != "extra_forbidden")
            raise ToolRefusal(self._sentence(problems[0])) from None

    def _sentence(self, problem: Mapping[str, Any]) -> str:
        name, kind, limits = str(problem["loc"][0]), problem["type"], problem.get("ctx", {})
        fields = self.arguments.model_fields
        if kind == "missing":
            return f"`{self.name}` needs `{name}`: {fields[name].description}"
        if kind == "extra_forbidden":
            return f"`{self.name}` has no parameter `{name[:_MAX_SHOWN]}`. {did_you_mean(name, fields)}"
        given = repr(problem["input"])
        given = given if len(given) <= _MAX_SHOWN else given[:_MAX_SHOWN] + "…"
        if kind == "literal_error":
            known = self.schema["parameters"]["properties"][name]["enum"]
            return f"`{name}` cannot be {given}. {did_you_mean(str(problem['input']), known)}"
        if kind == "greater_than_equal":
            return f"`{name}` must be {limits['ge']} or more, not {given}."
        if kind == "less_than_equal":
            return f"`{name}` must be {limits['le']:,} or less, not {given}."
        return f"`{name}` must be {_WANTED.get(kind.partition('_')[0], 'something else')}, not {given}."


def _plain(field: ChatDict) -> ChatDict:
    """Drop titles and defaults, which only cost tokens, and the null of an optional field."""
    for option in field.get("anyOf", ()):
        if option.get("type") != "null":
            field = {**option, **field}
    return {key: value for key, value in field.items() if key not in ("title", "default", "anyOf")}


def visible_conversations(connection: Connection, call: CallContext, *, everywhere: bool) -> dict[int, str]:
    """Return key and id of this conversation, and with `everywhere` of the same person's others."""
    rows = connection.execute(
        "SELECT key, id FROM conversations WHERE id = :here OR (:everywhere AND :person <> '' AND person = :person)",
        {"here": call.conversation_id, "everywhere": everywhere, "person": call.person},
    )
    return {row["key"]: row["id"] for row in rows}


def current_turn_keys(connection: Connection, call: CallContext) -> frozenset[int]:
    """Return the keys of the newest user message and of the messages after it."""
    rows = connection.execute(
        "SELECT messages.key, role FROM context_items JOIN sessions ON sessions.key = session "
        "JOIN conversations ON conversations.key = sessions.conversation JOIN messages ON messages.key = message "
        "WHERE conversations.id = ? AND sessions.id = ? ORDER BY position DESC",
        (call.conversation_id, call.session_id),
    )
    turn: list[int] = []
    for key, role in rows:
        turn.append(key)
        if role == "user":
            return frozenset(turn)
    return frozenset()


MAX_CHARACTERS = 11_500
"""The host truncates results above 12,000 characters. Verbatim text must not be truncated, so a page ends before
that."""

MAX_TOKENS = 12_000
MIN_TOKENS = 500
"""Room for a header and some text, even in the smallest window."""
_SHARE_OF_WINDOW = 3
_NOTE = "\n[The rest was left out. Ask for less at a time.]"


def result_tokens(call: CallContext, wanted: int = MAX_TOKENS) -> int:
    """Limit a result to a third of the window."""
    window = call.context_length // _SHARE_OF_WINDOW if call.context_length else MAX_TOKENS
    return max(MIN_TOKENS, min(wanted, MAX_TOKENS, window))


def truncate_result(text: str, tokens: int) -> str:
    if len(text) <= MAX_CHARACTERS and estimate_text_tokens(text) <= tokens:
        return text
    room = max(0, tokens - estimate_text_tokens(_NOTE))
    return cut_to_tokens(text[: MAX_CHARACTERS - len(_NOTE)], room) + _NOTE


def fit_lines(lines: list[str], tokens: int, more: str) -> list[str]:
    """Return the lines that fit. `more` is a sentence with `{}` for the number of the others."""
    room = min(tokens, MAX_CHARACTERS // 4) - estimate_text_tokens(more) - 4
    for index, line in enumerate(lines):
        room -= estimate_text_tokens(line) + 1
        if room < 0:
            return [*lines[:index], more.format(f"{len(lines) - index:,}")]
    return lines


_ID = re.compile(r"(?:c(\d{1,18})\.)?([ms])(\d{1,18})(?:-(?:(?:c(\d{1,18})\.)?m)?(\d{1,18}))?")
_AROUND = "[]()<>`'\".,;: \n\t"
_FORMS = "Ids look like `m12` (a message), `m12-m30` (a range) or `s4` (a summary)."
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class MessageRange:
    conversation: int
    prefix: str
    """`c3.` for another conversation, else empty."""
    first: int
    last: int

    @property
    def id(self) -> str:
        return f"{self.prefix}m{self.first}" + (f"-m{self.last}" if self.last > self.first else "")


@dataclass(frozen=True, slots=True)
class SummaryTarget:
    conversation: int
    prefix: str
    node: Node

    @property
    def id(self) -> str:
        return f"{self.prefix}{self.node.id}"


Target = MessageRange | SummaryTarget


def current_conversation(connection: Connection, call: CallContext) -> int:
    """Raises ToolRefusal if nothing of the conversation is stored."""
    here = visible_conversations(connection, call, everywhere=False)
    if not here:
        raise ToolRefusal("Nothing of this conversation is stored yet: all of it is still in your context.")
    return next(iter(here))


def resolve_id(connection: Connection, call: CallContext, written: str) -> Target:
    """Resolve `m12`, `m12-m30`, `s4` or `c3.m12`. Raises ToolRefusal.

    A conversation of another person is refused like one that does not exist.
    """
    text = written.strip(_AROUND).lower().replace("–", "-").replace("—", "-").replace(" ", "")
    match = _ID.fullmatch(text)
    if match is None or (match[2] == "s" and match[5]) or (match[4] and match[4] != match[1]):
        raise ToolRefusal(
            f"`{written[:_SHOWN]}` is not an id. {_FORMS} `lcm_grep` finds messages by their words."
        )
    here = current_conversation(connection, call)
    conversation = int(match[1]) if match[1] else here
    if conversation not in visible_conversations(connection, call, everywhere=conversation != here):
        raise ToolRefusal(
            f"There is no conversation `c{match[1]}` here. Leave the `c{match[1]}.` out for this one."
        )
    prefix = f"c{conversation}." if conversation != here else ""
    number = int(match[3])
    if match[2] == "m":
        first, last = sorted((number, int(match[5] or number)))
        newest = last_seq(connection, conversation)
        if not 1 <= first <= newest:
            there = f"has {prefix}m1 to {prefix}m{newest}" if newest else "has no messages yet"
            raise ToolRefusal(f"There is no {prefix}m{first}: the conversation {there}.")
        return MessageRange(conversation, prefix, first, min(last, newest))
    row = connection.execute("SELECT * FROM summaries WHERE key = ?", (number,)).fetchone()
    if row and row["conversation"] == conversation:
        return SummaryTarget(conversation, prefix, node_from_row(row))
    if row and row["conversation"] in visible_conversations(connection, call, everywhere=True):
        raise ToolRefusal(
            f"s{number} is in another conversation: ask for `c{row['conversation']}.s{number}`."
        )
    raise ToolRefusal(
        f"There is no summary {prefix}s{number}. `lcm_describe` without an id lists those of the present context."
    )
