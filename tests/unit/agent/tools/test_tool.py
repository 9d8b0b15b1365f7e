"""From a function to a tool: schema, validation, discovery."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from agent.errors import ToolError
from agent.tool import Tool, ToolContext, discover, tool
from agent.toolbox import Toolbox

SNAPSHOT = Path(__file__).with_name("definitions.json")


class Stop(BaseModel):
    title: Annotated[str, Field(description="Its name.")]
    minutes: int = 0


@tool(timeout=5, dangerous=True, effects=True)
async def journey(
    ctx: ToolContext,
    title: Annotated[str, Field(description="What to call it.")],
    stops: Annotated[list[Stop], Field(description="In order.")] = [],  # noqa: B006
    limit: Annotated[int, Field(ge=1, le=9, description="How many.")] = 3,
) -> str:
    """Plan a journey,
    stop by stop."""
    return f"{title}: {[stop.title for stop in stops]}, {limit}"


async def complaint(ctx: ToolContext, arguments: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as raised:
        await journey.call(ctx, arguments)
    return raised.value.detail


def test_a_function_becomes_a_tool() -> None:
    """Name, description and properties come from the function and its decorator."""
    assert (journey.name, journey.description) == ("journey", "Plan a journey, stop by stop.")
    assert (journey.timeout, journey.dangerous, journey.effects) == (5, True, True)


def test_the_schema_is_clean() -> None:
    """No titles, no references, though a parameter called title stays; unknown arguments are forbidden."""
    assert json.dumps(journey.parameters) == json.dumps(
        {
            "additionalProperties": False,
            "properties": {
                "title": {"description": "What to call it.", "type": "string"},
                "stops": {
                    "default": [],
                    "description": "In order.",
                    "items": {
                        "properties": {
                            "title": {"description": "Its name.", "type": "string"},
                            "minutes": {"default": 0, "type": "integer"},
                        },
                        "required": ["title"],
                        "type": "object",
                    },
                    "type": "array",
                },
                "limit": {
                    "default": 3,
                    "description": "How many.",
                    "maximum": 9,
                    "minimum": 1,
                    "type": "integer",
                },
            },
            "required": ["title"],
            "type": "object",
        }
    )


def test_what_the_model_is_offered() -> None:
    """The definitions are part of every cached prompt, so they change only on purpose.

    After such a change: `python -m tests.unit.agent.tools.test_tool`.
    """
    assert _offered() == SNAPSHOT.read_text()


def _offered() -> str:
    return json.dumps(Toolbox(list(discover().values())).definitions, indent=1, ensure_ascii=False) + "\n"


def test_every_tool_and_parameter_is_described() -> None:
    """A model knows a tool only by what is said about it."""
    for each in discover().values():
        assert each.description, each.name
        for name, field in each.parameters["properties"].items():
            assert field.get("description"), f"{each.name}.{name}"


def test_which_tools_are_marked() -> None:
    """What needs approval, and what must not silently run twice."""
    tools = discover().values()
    assert {each.name for each in tools if each.dangerous} == {"terminal"}
    assert {each.name for each in tools if each.effects} == {"memory", "send_file", "terminal", "write_file"}


async def test_arguments_arrive_validated(ctx: ToolContext) -> None:
    """Nested values become their types, numbers may come as text, null means not given."""
    result = await journey.call(ctx, {"title": "t", "stops": [{"title": "a"}], "limit": "4"})
    assert result == "t: ['a'], 4"
    assert await journey.call(ctx, {"title": "t", "limit": None}) == "t: [], 3"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "`title` is required."),
        ({"title": None}, "`title`: input should be a valid string, not None."),
        ({"title": "t", "limits": 3}, "`limits` is not a parameter. Did you mean `limit`?"),
        ({"title": "t", "limit": 10}, "`limit`: input should be less than or equal to 9, not 10."),
        ({"title": "t", "stops": [{}]}, "`stops.0.title` is required."),
        ({"title": ["x" * 500]}, f"`title`: input should be a valid string, not ['{'x' * 58}…."),
    ],
)
async def test_wrong_arguments_are_explained(
    ctx: ToolContext, arguments: dict[str, Any], sentence: str
) -> None:
    """Short sentences that name the argument."""
    assert await complaint(ctx, arguments) == sentence


async def test_many_wrong_arguments_are_not_all_listed(ctx: ToolContext) -> None:
    """Fifty mistakes do not fill the context."""
    text = await complaint(ctx, {"title": "t", "stops": [{}] * 50})
    assert text.endswith("`stops.4.title` is required. And 45 more.")


async def test_a_tool_must_return_text(ctx: ToolContext) -> None:
    """A tool that returns something else has a bug, which is named."""

    async def count(ctx: ToolContext) -> str:
        return 3  # type: ignore[return-value]

    with pytest.raises(TypeError, match="must return text, not int"):
        await tool()(count).call(ctx, {})


def test_a_tool_needs_an_async_function_with_a_context() -> None:
    """The two mistakes a newcomer makes fail at import, with a sentence."""

    async def no_context(path: str) -> str:
        return path

    def not_async(ctx: ToolContext) -> str:
        return ""

    for function in (no_context, not_async):
        with pytest.raises(TypeError, match="must be an async function that takes a ToolContext first"):
            tool()(function)  # type: ignore[arg-type]


GOOD = """
from agent.tool import ToolContext, tool

@tool()
async def {name}(ctx: ToolContext) -> str:
    "Do it."
    return ""
"""


def make_package(folder: Path, name: str, files: dict[str, str]) -> None:
    (folder / name).mkdir()
    for file, text in {"__init__": "", **files}.items():
        (folder / name / f"{file}.py").write_text(text)


def test_discovery_finds_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file is all it takes; files that begin with an underscore are none."""
    make_package(
        tmp_path, "found_tools", {"b": GOOD.format(name="b"), "a": GOOD.format(name="a"), "_c": "oops("}
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = discover("found_tools")
    assert list(found) == ["a", "b"]
    assert all(isinstance(each, Tool) for each in found.values())


@pytest.mark.parametrize(
    "text", ["", GOOD.format(name="other"), GOOD.format(name="mine") + GOOD.format(name="second")]
)
def test_discovery_refuses_a_file_without_its_one_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """No tool, another name, two tools: the file is named."""
    make_package(tmp_path, "bad_tools", {"mine": text})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TypeError, match=r"bad_tools\.mine must export exactly one tool"):
        discover("bad_tools")
    for module in [name for name in sys.modules if name.startswith("bad_tools")]:
        monkeypatch.delitem(sys.modules, module)


if __name__ == "__main__":
    SNAPSHOT.write_text(_offered())
