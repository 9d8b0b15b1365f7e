"""Calls and results are matched within their group: ids may come again in every turn, and even in one message."""

from __future__ import annotations

from typing import Any

from agent.messages import Message, ToolCall, is_paired, repair, unanswered_calls
from tests.support.histories import calls, result, user


def test_calls_that_were_left_open() -> None:
    """Only those of the newest calls can still be answered: a result right behind another group answers nothing."""
    open_call, later = ToolCall("call_0", "read_file", "{}"), ToolCall("call_0", "write_file", "{}")
    history = [
        Message("assistant", tool_calls=(open_call, ToolCall("call_7", "read_file", "{}"))),
        Message("tool", "read", tool_call_id="call_0"),
        Message("user", "Go on."),
        Message("assistant", tool_calls=(later,)),
    ]
    assert unanswered_calls(history) == [later]
    assert unanswered_calls([*history, Message("tool", "written", tool_call_id="call_0")]) == []


def test_calls_of_one_message_that_share_an_id() -> None:
    """Each needs a result of its own, and keeps it."""
    both: dict[str, Any] = calls(("read_file", "{}"), ("write_file", "{}"))
    for call in both["tool_calls"]:
        call["id"] = "call_0"
    whole = [user("Both."), both, result("one"), result("two")]
    assert is_paired(whole) and repair(whole) == whole
    assert not is_paired(whole[:-1])
    assert is_paired(repair(whole[:-1]))
    twins = tuple(ToolCall("call_0", name, "{}") for name in ("read_file", "write_file"))
    asked = [Message("assistant", tool_calls=twins), Message("tool", "one", tool_call_id="call_0")]
    assert len(unanswered_calls(asked)) == 1
