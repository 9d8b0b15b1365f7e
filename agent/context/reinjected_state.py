"""State re-injected after a compaction: the task list, and the files that were read and written.

It is a block at the end of the summary. Engines never see the block; each compaction writes a new one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from agent.compression.summary_state import with_block
from agent.context.child_session import ChildSession
from agent.context.live import LiveContext
from agent.messages import Message
from agent.store import SessionStore
from agent.tools.todo import task_list

_MOST_FILES = 20
_FILES = "files"
_TOUCHES = {"read_file": "read", "write_file": "written"}


async def carried_state(store: SessionStore, live: LiveContext) -> str:
    """One line for each task and file; empty where there is nothing to carry."""
    todo = await task_list(store, live.conversation.id)
    known = json.loads(await store.load_state(live.conversation.id, _FILES) or "{}")
    files = dict(list(_files_in(live.history, known).items())[-_MOST_FILES:])
    await store.save_state(live.conversation.id, _FILES, json.dumps(files))
    lines = [f"- {how}: {path}" for path, how in files.items()]
    parts = [f"Task list:\n{todo}" if todo else "", "Files:\n" + "\n".join(lines) if lines else ""]
    return "\n\n".join(part for part in parts if part)


def with_state(plan: ChildSession, state: str) -> ChildSession:
    """Add the state to the end of the first summary message."""
    context = list(plan.context)
    for index, item in enumerate(context):
        if state and isinstance(item, Message) and item.kind == "summary":
            context[index] = with_block(item, state)
            break
    return replace(plan, context=context)


def _files_in(history: Sequence[Message], known: Mapping[str, str]) -> dict[str, str]:
    """Return known and new files, the newest last, so that the oldest are dropped first."""
    files = dict(known)
    for name, path in _paths(history):
        how = "written" if files.pop(path, "") == "written" else _TOUCHES[name]
        files[path] = how
    return files


def _paths(history: Iterable[Message]) -> Iterable[tuple[str, str]]:
    for message in history:
        for call in message.tool_calls:
            if call.name in _TOUCHES and (path := _path(call.arguments)):
                yield call.name, path


def _path(arguments: str) -> str | None:
    try:
        given = json.loads(arguments)
    except ValueError:
        return None
    path = given.get("path") if isinstance(given, dict) else None
    return path if isinstance(path, str) else None
