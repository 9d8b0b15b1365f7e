"""`lcm_status`: how the conversation stands."""

from __future__ import annotations

from ..stats import status, status_text
from .context import Place
from .tool import Arguments, EngineTool


def run(place: Place, args: Arguments) -> str:
    return status_text(status(place))


TOOL = EngineTool(
    "lcm_status",
    (
        "Says how full the context is and what is stored of this conversation: tokens, messages in the context and "
        "beneath summaries, summaries by depth, the last compaction."
    ),
    Arguments,
    run,
)
