from __future__ import annotations

from agent.rewind import NOTHING_TO_UNDO, Rewound, restore, tokens_in, undo_compaction
from gateway.commands import Command, CommandContext


async def _run(context: CommandContext, rest: str) -> str:
    if rest:
        rewound: Rewound | None = await restore(context.store, context.conversation, rest)
    else:
        rewound = await undo_compaction(context.store, context.conversation)
    if rewound is None:
        return NOTHING_TO_UNDO
    seat = await context.agent.keeper.compactor.seats.rewound(rewound.left, rewound.live)
    answer = f"{'Restored' if rest else 'Undone'}: {rewound}"
    if seat and 0 < seat.state.threshold_tokens <= tokens_in(rewound.live):
        answer += f"; {seat.name} compacts again from {seat.state.threshold_tokens:,} on"
    return f"{answer}."


COMMAND = Command(
    "undo-compress",
    "bring back what the last compaction took out of the context; or name an earlier session",
    _run,
    argument="session",
)
