"""The conversation's task list."""

from __future__ import annotations

from typing import Annotated, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent.aio import keyed_lock
from agent.errors import ToolError
from agent.store import SessionStore
from agent.tool import ToolContext, tool

log = structlog.get_logger(__name__)

_KEY = "todo"
_MAX_ITEMS = 50
_MARKS = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}


class TodoItem(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: Annotated[int, Field(ge=0, description="Number of the item. Leave it out for a new one.")] = 0
    text: Annotated[str, Field(max_length=300, description="What is to be done.")] = ""
    status: Annotated[Literal["pending", "in_progress", "done"], Field(description="How far it is.")] = (
        "pending"
    )


_ITEMS = TypeAdapter(list[TodoItem])


@tool()
async def todo(
    ctx: ToolContext,
    action: Annotated[
        Literal["show", "replace", "update"],
        Field(description="`replace` sets the whole list; `update` changes items by id, adds those without."),
    ] = "show",
    items: Annotated[
        list[TodoItem], Field(max_length=_MAX_ITEMS, description="For `update`, only what changes.")
    ] = [],  # noqa: B006 - never changed, and a schema needs a value
) -> str:
    """Keep the task list of this conversation, for work of several steps. Returns the list."""
    async with keyed_lock(f"todo {ctx.conversation_id}"):
        current = await _load(ctx.store, ctx.conversation_id)
        if action == "show":
            return _as_text(current)
        changed = _updated(current, items) if action == "update" else _updated([], items, new_ids=True)
        await ctx.store.save_state(ctx.conversation_id, _KEY, _ITEMS.dump_json(changed).decode())
        return _as_text(changed)


async def task_list(store: SessionStore, conversation_id: str) -> str:
    """Return the list as text; empty if there is none."""
    items = await _load(store, conversation_id)
    return _as_text(items) if items else ""


async def _load(store: SessionStore, conversation_id: str) -> list[TodoItem]:
    saved = await store.load_state(conversation_id, _KEY)
    if saved is None:
        return []
    try:
        return _ITEMS.validate_json(saved)
    except ValidationError:
        # Perhaps another version wrote it. The tool must stay usable.
        log.warning("todo.unreadable", conversation_id=conversation_id)
        return []


def _updated(current: list[TodoItem], changes: list[TodoItem], *, new_ids: bool = False) -> list[TodoItem]:
    """Return the list with the given fields changed; with `new_ids`, unknown ids name new items."""
    by_id = {item.id: item for item in current}
    given = [change.id for change in changes if change.id]
    if len(set(given)) < len(given):
        raise ToolError("two items have the same id.")
    for change in changes:
        if change.id in by_id:
            by_id[change.id] = by_id[change.id].model_copy(update=change.model_dump(exclude_unset=True))
        elif change.id and not new_ids:
            raise ToolError(f"there is no item {change.id}; the list has {sorted(by_id) or 'no items'}.")
        elif not change.text:
            raise ToolError("a new item needs a text.")
        else:
            number = change.id or max([0, *by_id, *given]) + 1
            by_id[number] = change.model_copy(update={"id": number})
    if len(by_id) > _MAX_ITEMS:
        raise ToolError(f"a list holds at most {_MAX_ITEMS} items; replace it with a shorter one.")
    return list(by_id.values())


def _as_text(items: list[TodoItem]) -> str:
    if not items:
        return "The task list is empty."
    done = sum(item.status == "done" for item in items)
    lines = [f"{_MARKS[item.status]} {item.id}. {item.text}" for item in items]
    return "\n".join([*lines, f"({done} of {len(items)} done)"])
