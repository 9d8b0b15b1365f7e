"""`/lcm`: numbers about the conversation. The command reads the database, so it also works while no engine is
loaded."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

import structlog

from gateway.commands import Command, CommandContext

from .database import FILE_NAME, Database, ForeignDatabase, NewerDatabase, rename_earlier_file
from .stats import status_text
from .tools.doctor import doctor_report
from .tools.tool import CallContext

log = structlog.get_logger(__name__)

_NOTHING_STORED = "Nothing is stored yet. Storing begins with the next message."
_UNREADABLE = "The database of the context engine cannot be read. Run `hermes doctor`."


def make_command(hermes_home: Path | str) -> Command:
    return Command(
        "lcm",
        "shows what is stored and summarised of this conversation; `doctor` checks it",
        partial(_run, Path(hermes_home) / FILE_NAME),
        argument="doctor",
        overtakes=True,
    )


async def _run(path: Path, context: CommandContext, rest: str) -> str:
    """Show numbers only and no text of messages, because a group may read the reply."""
    if rest.lower() not in ("", "doctor"):
        return "Type /lcm for numbers about this conversation, or /lcm doctor to check it."
    conversation = context.conversation
    session = await context.store.session(conversation.live_session_id)
    call = CallContext(
        database=Database(path),
        conversation_id=conversation.id,
        person=conversation.person,
        session_id=session.id,
        context_length=(await context.agent.models.of(conversation)).context_length,
        threshold_tokens=0,
        last_prompt_tokens=session.prompt_tokens or 0,
        ask=_no_model,
    )
    return await asyncio.to_thread(_report, call, checking=bool(rest))


def _report(call: CallContext, *, checking: bool) -> str:
    path = call.database.path
    try:
        rename_earlier_file(path)
        if not path.exists():
            return _NOTHING_STORED  # opening would create it
        return doctor_report(call) if checking else status_text(call)
    except (NewerDatabase, ForeignDatabase) as error:
        return str(error)
    except (sqlite3.Error, OSError) as error:
        log.warning("lcm.command_failed", error=str(error))
        return _UNREADABLE


def _no_model(prompt: str, max_tokens: int) -> str:
    raise AssertionError("A command asks no model.")
