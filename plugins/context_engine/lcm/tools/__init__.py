"""What the model can call. Everything here reads, and nothing raises: what cannot be done is a sentence as JSON."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from agent.messages import ChatDict
from agent.tool import did_you_mean

from ..database import ForeignDatabase, NewerDatabase
from . import describe, doctor, expand, expand_query, grep, status
from .arguments import checked
from .context import Place, Refused, as_error, bounded, most_tokens

log = structlog.get_logger(__name__)

Run = Callable[[Place, Mapping[str, Any]], str]


def schemas() -> list[ChatDict]:
    """Always in the same order: the provider's cache depends on it."""
    return [schema for schema, _ in _tools().values()]


def answer(name: str, args: Mapping[str, Any], place: Place) -> str:
    """Text for the model, bounded. Never raises."""
    try:
        tools = _tools()
        if name not in tools:
            raise Refused(f"There is no tool `{name}`. {did_you_mean(name, tools)}")
        schema, run = tools[name]
        return bounded(run(place, checked(schema, args)), most_tokens(place))
    except Refused as refused:
        return as_error(str(refused))
    except (NewerDatabase, ForeignDatabase) as error:
        return as_error(str(error))
    except (sqlite3.Error, OSError) as error:
        log.warning("lcm.tool_failed", tool=name, error=str(error))
        return as_error(
            f"The store of earlier messages could not be read ({error}). Go on without it, and tell the user that "
            "`hermes doctor` looks into it."
        )
    except Exception:  # a fault of ours must not cost the person a turn
        log.error("lcm.tool_crashed", tool=name, exc_info=True)
        return as_error(f"`{name}` broke down; the fault has been logged. Try another way.")


def _tools() -> dict[str, tuple[ChatDict, Run]]:
    modules = (grep, describe, expand, expand_query, status, doctor)
    return {module.SCHEMA["name"]: (module.SCHEMA, module.run) for module in modules}
