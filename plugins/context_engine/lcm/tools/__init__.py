"""The tools that the model can call. They only read. Refusals and database errors are JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

import structlog

from agent.messages import ChatDict
from agent.tool import did_you_mean

from ..database import ForeignDatabase, NewerDatabase
from . import describe, doctor, expand, expand_query, grep, status
from .tool import CallContext, ToolRefusal, result_tokens, truncate_result

log = structlog.get_logger(__name__)

_TOOLS = {module.TOOL.name: module.TOOL for module in (grep, describe, expand, expand_query, status, doctor)}


def schemas() -> list[ChatDict]:
    """The schemas of all tools, always in the same order: the provider's cache depends on it."""
    return [tool.schema for tool in _TOOLS.values()]


def answer(name: str, args: Mapping[str, Any], call: CallContext) -> str:
    """Run a tool and return text for the model, bounded. The host catches what a bug raises."""
    try:
        if name not in _TOOLS:
            raise ToolRefusal(f"There is no tool `{name}`. {did_you_mean(name, _TOOLS)}")
        return truncate_result(_TOOLS[name].call(call, args), result_tokens(call))
    except (ToolRefusal, NewerDatabase, ForeignDatabase) as error:
        refusal = str(error)
    except (sqlite3.Error, OSError) as error:
        log.warning("lcm.tool_failed", tool=name, error=str(error))
        refusal = (
            f"The store of earlier messages could not be read ({error}). Continue without it, and tell the user to "
            "run `hermes doctor`."
        )
    return json.dumps({"error": refusal}, ensure_ascii=False)
