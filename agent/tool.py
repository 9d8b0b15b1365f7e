"""A tool is one async function in a file of `agent/tools/`: signature and docstring describe it."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from agent.errors import ToolError
from agent.events import FileSent
from agent.messages import ChatDict
from agent.store import SessionStore

_SHOWN_PROBLEMS = 5
_SHOWN_INPUT = 60


SendFile = Callable[[FileSent], Awaitable[None]]
"""Puts a file on its way to the person."""


async def send_no_file(file: FileSent) -> None:
    """Drop the file: there is no chat to send it to."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The conversation, person and folder that a tool may use."""

    conversation_id: str
    session_id: str
    person: str
    platform: str
    workspace: Path
    store: SessionStore
    send_file: SendFile = send_no_file
    approve: Approve | None = None
    """Asks the person before a dangerous tool runs; None if the owner has switched that off."""


ToolFunction = Callable[..., Awaitable[str]]
"""Takes the context, then the arguments by name; returns text for the model or raises a ToolError."""


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A function the model may call."""

    name: str
    description: str
    parameters: ChatDict
    """JSON schema of the arguments: no titles, no references."""
    timeout: float
    """Seconds after which a call is stopped."""
    dangerous: bool
    """A person has to approve each call."""
    effects: bool
    """It changes something outside the conversation, so it must not silently run a second time."""
    arguments: type[BaseModel] | None
    """Model that checks the arguments; None if the function checks them itself."""
    function: ToolFunction
    outside: bool = False
    """The result is untrusted text, which the model reads between marks."""

    @property
    def definition(self) -> ChatDict:
        """Return the OpenAI form."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    async def call(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        """Call the function. Raises ToolError if the arguments do not fit, and all that the function raises."""
        return await self.call_validated(ctx, self.validated(arguments))

    async def call_validated(self, ctx: ToolContext, arguments: Mapping[str, Any]) -> str:
        result: object = await self.function(ctx, **arguments)
        if not isinstance(result, str):
            raise TypeError(f"The tool {self.name} must return text, not {type(result).__name__}.")
        return result

    def validated(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them. Raises ToolError if they do not fit."""
        if self.arguments is None:
            return dict(arguments)
        fields = self.arguments.model_fields
        # Models write null where they mean "not given".
        given = {
            name: value
            for name, value in arguments.items()
            if value is not None or name not in fields or fields[name].is_required()
        }
        try:
            valid = self.arguments.model_validate(given)
        except ValidationError as exc:
            raise ToolError(_as_sentences(exc, list(fields))) from exc
        return {name: getattr(valid, name) for name in fields}


def tool(
    *, timeout: float = 30.0, dangerous: bool = False, effects: bool = False, outside: bool = False
) -> Callable[[ToolFunction], Tool]:
    """Make a tool of an async function whose first parameter is `ctx` and whose others are described."""

    def make(function: ToolFunction) -> Tool:
        arguments = _arguments_model(function)
        schema = arguments.model_json_schema()
        return Tool(
            name=function.__name__,
            description=" ".join((function.__doc__ or "").split()),
            parameters=_clean(schema, schema.get("$defs", {})),
            timeout=timeout,
            dangerous=dangerous,
            effects=effects,
            arguments=arguments,
            function=function,
            outside=outside,
        )

    return make


def discover(package: str = "agent.tools") -> dict[str, Tool]:
    """Return every tool of the package by name: module `x` exports the tool `x` and no other."""
    found: dict[str, Tool] = {}
    for _, name, _ in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if name.startswith("_"):
            continue
        module = importlib.import_module(f"{package}.{name}")
        exported = {key: value for key, value in vars(module).items() if isinstance(value, Tool)}
        if list(exported) != [name] or exported[name].name != name:
            raise TypeError(f"{package}.{name} must export exactly one tool, and it must be named {name}.")
        found[name] = exported[name]
    return dict(sorted(found.items()))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known names, or else with all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3)
    if near:
        return f"Did you mean {' or '.join(f'`{match}`' for match in near)}?"
    return f"Known are: {', '.join(names) or 'none'}."


def _arguments_model(function: ToolFunction) -> type[BaseModel]:
    name, hints = function.__name__, get_type_hints(function, include_extras=True)
    context, *parameters = inspect.signature(function).parameters.values()
    if not inspect.iscoroutinefunction(function) or hints.get(context.name) is not ToolContext:
        raise TypeError(f"The tool {name} must be an async function that takes a ToolContext first.")
    fields: dict[str, Any] = {}
    for each in parameters:
        fields[each.name] = hints[each.name], ... if each.default is each.empty else each.default
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def _clean(schema: ChatDict, definitions: Mapping[str, ChatDict]) -> ChatDict:
    """Remove titles, which cost tokens, and references, which some providers refuse."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _clean({**target, **beside}, definitions)
    cleaned: ChatDict = {}
    for key, value in schema.items():
        if key in ("title", "$defs"):
            continue
        if key == "properties":
            cleaned[key] = {name: _clean(field, definitions) for name, field in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            cleaned[key] = _clean(value, definitions)
        elif key in ("anyOf", "allOf", "oneOf", "prefixItems"):
            cleaned[key] = [_clean(option, definitions) for option in value]
        else:
            cleaned[key] = value
    return cleaned


def _as_sentences(error: ValidationError, known: list[str]) -> str:
    problems = error.errors(include_url=False, include_context=False)
    sentences = [_as_sentence(dict(problem), known) for problem in problems[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        sentences.append(f"And {len(problems) - _SHOWN_PROBLEMS} more.")
    return " ".join(sentences)


def _as_sentence(problem: dict[str, Any], known: list[str]) -> str:
    where = "`" + ".".join(str(step) for step in problem["loc"]) + "`"
    if problem["type"] == "missing":
        return f"{where} is required."
    if problem["type"] == "extra_forbidden":
        hint = did_you_mean(str(problem["loc"][0]), known) if len(problem["loc"]) == 1 else ""
        return f"{where} is not a parameter. {hint}".strip()
    given = repr(problem["input"])
    if len(given) > _SHOWN_INPUT:
        given = given[:_SHOWN_INPUT] + "…"
    return f"{where}: {problem['msg'][:1].lower()}{problem['msg'][1:]}, not {given}."


Choice = Literal["once", "conversation", "deny"]


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """Exactly what is to be run: another argument is another request."""

    tool: str
    arguments: str
    """As one line of JSON with sorted keys, so that the same call always reads the same."""


Approve = Callable[[ApprovalRequest], Awaitable[str]]
"""Waits for the person. Empty text means yes; else it is the sentence for the model that says why not."""
