from __future__ import annotations

from agent.context.branches import NOTHING_TO_UNDO, UndoResult, restore, tokens_in, undo_compaction
from gateway.commands.registry import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    if rest:
        rewound: UndoResult | None = await restore(context.store, context.conversation, rest)
    else:
        rewound = await undo_compaction(context.store, context.conversation)
    if rewound is None:
        return NOTHING_TO_UNDO
    engine = await context.agent.replace_engine(rewound.left, rewound.live)
    answer = f"{'Restored' if rest else 'Undone'}: {rewound}"
    if engine and 0 < engine.threshold_tokens <= tokens_in(rewound.live):
        answer += f"; {engine.name} compacts again from {engine.threshold_tokens:,} on"
    return f"{answer}."


COMMAND = Command(
    "undo-compress",
    "bring back what the last compaction took out of the context; or name an earlier session",
    _run,
    argument="session",
)
