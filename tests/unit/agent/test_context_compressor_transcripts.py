"""Every cut point of a hundred real tool-calling conversations, in windows that are far too small for them."""

from __future__ import annotations

import copy

import pytest

from agent.context_compressor import ContextCompressor
from agent.tokens import estimate_messages_tokens_rough
from tests.support.histories import Chat, check_sendable, check_turns_alternate, tau_transcripts


def engine(window: int) -> ContextCompressor:
    return ContextCompressor(window, summarize=lambda prompt, max_tokens: "## Goal\nThe person wants to fly.")


@pytest.mark.parametrize("window", [2_000, pytest.param(4_000, marks=pytest.mark.long), 8_000])
def test_every_cut_point(window: int) -> None:
    """Valid for both providers, smaller or the same list, newest request kept, idempotent, input untouched."""
    compacted = 0
    for transcript in tau_transcripts():
        before = copy.deepcopy(transcript)
        for end in range(1, len(transcript) + 1):
            compacted += check_cut_point(transcript[:end], window)
        assert transcript == before
    assert compacted > 100, "the windows are too large to show anything"


def check_cut_point(messages: list[Chat], window: int) -> bool:
    result = engine(window).compress(messages)
    if result is messages:
        return False
    check_sendable(result)
    check_turns_alternate(result)
    assert estimate_messages_tokens_rough(result) < estimate_messages_tokens_rough(messages)
    newest = [message for message in messages if message["role"] == "user"][-1]
    assert newest in result
    assert engine(window).compress(result) is result
    return True
