"""Real conversations come back byte for byte."""

from __future__ import annotations

from pathlib import Path

from agent.tokens import estimate_messages_tokens_rough as tokens_in
from tests.support.histories import check_sendable, tau_transcripts
from tests.support.lcm_chats import Host, plain_chat
from tests.support.lcm_expanded_pages import originals

TRANSCRIPTS = 12


def test_tool_calling_transcripts(tmp_path: Path) -> None:
    """One person's bookings, one after another in one chat; every message is still there word for word."""
    host = Host(tmp_path, 12_000)
    for transcript in tau_transcripts()[:TRANSCRIPTS]:
        for message in transcript[1:]:
            host.say(plain_chat(message))
            if message["role"] == "user" and tokens_in(host.messages) >= host.engine.threshold_tokens:
                host.look()
                assert host.compress(current_tokens=tokens_in(host.messages))
                check_sendable(host.messages)
    assert host.engine.compression_count >= 5
    host.look()
    pages, page = list[str](), 1
    while not pages or "the last" not in pages[-1].partition("\n")[0]:
        pages.append(host.tool("lcm_expand", id=f"m1-m{len(host.said)}", page=page))
        page += 1
    said = [str(message.get("content") or "") for message in host.said]
    assert [each.content for each in originals(pages).values()] == said
    assert "All is well" in host.tool("lcm_doctor")
    host.close()
