"""What a compaction that was prepared between turns has for the person: summaries, and those that were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.tokens import estimate_messages_tokens_rough
from tests.support.extractive_summariser import extractive_summary
from tests.support.histories import assistant, chat, user
from tests.support.lcm_chats import Host

SOFTER = 0.85
"""The share of the threshold at which the host has a compaction prepared."""


@pytest.mark.parametrize(("window", "words"), [(32_000, 570), (100_000, 2_280), (200_000, 3_430)])
def test_a_few_large_messages(tmp_path: Path, window: int, words: int) -> None:
    """They fill a leaf, however few they are; digests are for what is too large for one."""
    host = Host(tmp_path, window)
    while (before := estimate_messages_tokens_rough(host.messages)) < SOFTER * host.engine.threshold_tokens:
        number = len(host.messages)
        host.say(user(f"word{number} " * words), assistant(f"Answer {number}."))
    assert host.compress(current_tokens=before)
    texts = [str(message["content"]) for message in host.messages]
    assert any(text.startswith("[LCM RECORD]") for text in texts)
    assert not any(text.startswith("[LCM COPY") for text in texts)
    host.close()


def test_a_topic_after_a_draft(tmp_path: Path) -> None:
    """What was prepared without the topic, and never used, is summarised again with it."""
    prompts: list[str] = []

    def summarise(prompt: str, max_tokens: int) -> str:
        prompts.append(prompt)
        return extractive_summary(prompt, max_tokens)

    host = Host(tmp_path, 8_000, summarize=summarise)
    host.say(user("The first thing."), *chat(20, words=100)[1:])
    host.engine.compress(host.messages)
    prepared = len(prompts)
    assert any("The first thing." in prompt for prompt in prompts)
    assert host.compress(focus_topic="billing")
    again = [prompt for prompt in prompts[prepared:] if "The first thing." in prompt]
    assert again and all("billing" in prompt for prompt in again)
    host.close()
