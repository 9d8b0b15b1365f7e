"""The size of a prompt in tokens: as the provider reports it, if the report can be true, else as estimated."""

from __future__ import annotations

from dataclasses import replace

from agent.context.live import LiveContext
from agent.llm import Usage
from agent.messages import as_chat
from agent.tokens import estimate_messages_tokens_rough

_MOST_PER_ESTIMATED = 3
"""The estimate is within 30 % for prose; digits, base64 and rare scripts take up to three times as many tokens."""
_UNSEEN = 1_000
"""Tokens that a provider may add to a prompt by itself."""


def estimated_tokens(live: LiveContext) -> int:
    """Estimates the whole prompt: system prompt, tool definitions and messages."""
    return fixed_tokens(live) + estimate_messages_tokens_rough(map(as_chat, live.history))


def fixed_tokens(live: LiveContext) -> int:
    """Estimates what goes with every prompt and no compaction can remove: system prompt and tool definitions."""
    system = {"role": "system", "content": live.system_prompt}
    return live.tools_tokens + estimate_messages_tokens_rough([system])


def is_plausible(reported: int, estimated: int) -> bool:
    """Return whether a prompt of this estimated size can have so many tokens.

    Some servers add up the usage of all calls, so that the report grows while the prompt does not.
    """
    return 0 < reported <= estimated * _MOST_PER_ESTIMATED + _UNSEEN


def believed_usage(live: LiveContext, usage: Usage) -> Usage:
    """The usage of a call whose prompt was `live`, with the estimate in place of a report that cannot be true."""
    estimated = estimated_tokens(live)
    return usage if is_plausible(usage.prompt_tokens, estimated) else replace(usage, prompt_tokens=estimated)


def last_prompt_tokens(live: LiveContext) -> int:
    """The prompt of the last call; the present one where no plausible report of the last call exists."""
    reported, estimated = live.session.prompt_tokens or 0, estimated_tokens(live)
    return reported if is_plausible(reported, estimated) else estimated


def next_prompt_tokens(live: LiveContext, reported: int | None = None) -> int:
    """The prompt of the next call: the last report, and an estimate of the answer and of what came after it.

    `reported` is for a report that is newer than the one in the session.
    """
    reported = live.session.prompt_tokens or 0 if reported is None else reported
    spoken = [index for index, message in enumerate(live.history) if message.role == "assistant"]
    since = live.history[spoken[-1] :] if spoken else live.history
    estimated, added = estimated_tokens(live), estimate_messages_tokens_rough(map(as_chat, since))
    return reported + added if is_plausible(reported, estimated - added) else estimated
