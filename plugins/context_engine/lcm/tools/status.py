"""`lcm_status`: numbers about the context and what is stored."""

from __future__ import annotations

from ..stats import status_text
from .tool import Arguments, EngineTool

TOOL = EngineTool(
    "lcm_status",
    (
        "Says how full the context is and what is stored of this conversation: tokens, messages in the context and "
        "below summaries, summaries by depth, the last compaction."
    ),
    Arguments,
    lambda call, args: status_text(call),
)
