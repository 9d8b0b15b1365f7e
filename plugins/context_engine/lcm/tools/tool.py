"""A tool of the engine: its name, its description, and a pydantic model that checks the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from agent.messages import ChatDict
from agent.tool import did_you_mean

from .context import CallContext, ToolRefusal

_MAX_SHOWN = 60
_WANTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
}
"""By pydantic's type of an error."""


class Arguments(BaseModel):
    """The arguments of a call. Names that are not fields are refused."""

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
        """The schema that the host offers to the model."""
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
        """Say what is wrong with an argument and what to write instead."""
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
        return f"`{name}` must be {_WANTED.get(kind, 'something else')}, not {given}."


def _plain(field: ChatDict) -> ChatDict:
    """Drop titles and defaults, which only cost tokens, and the null of an optional field."""
    for option in field.get("anyOf", ()):
        if option.get("type") != "null":
            field = {**option, **field}
    return {key: value for key, value in field.items() if key not in ("title", "default", "anyOf")}
