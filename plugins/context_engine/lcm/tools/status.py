"""`lcm_status`: how the conversation stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.messages import ChatDict

from ..stats import status, status_text
from .context import Place

SCHEMA: ChatDict = {
    "name": "lcm_status",
    "description": (
        "Says how full the context is and what is stored of this conversation: tokens, messages in the context and "
        "beneath summaries, summaries by depth, the last compaction."
    ),
    "parameters": {"type": "object", "properties": {}},
}


def run(place: Place, args: Mapping[str, Any]) -> str:
    return status_text(status(place))
