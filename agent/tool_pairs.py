"""Tool calls and their results belong together.

Providers refuse a history in which a result has no call before it, or a call has no result right after it. A *group*
is an assistant message with calls and the tool messages that directly follow it.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.messages import ChatDict

STUB_RESULT = "[The result of this call is not in the context any more; see the summary of earlier turns]"


def align_backward(messages: Sequence[ChatDict], index: int) -> int:
    """The nearest boundary at or before `index` that does not part a call from its results."""
    if not 0 < index < len(messages) or messages[index].get("role") != "tool":
        return index
    parent = index
    while parent > 0 and messages[parent].get("role") == "tool":
        parent -= 1
    return parent if messages[parent].get("tool_calls") else parent + 1


def next_group(messages: Sequence[ChatDict], index: int) -> int:
    """The boundary after the message or group that begins at `index`."""
    index += 1
    while index < len(messages) and messages[index].get("role") == "tool":
        index += 1
    return index


def is_paired(messages: Sequence[ChatDict]) -> bool:
    """Whether every call is answered once, by the messages right after it, and nothing else is."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            if call_id not in waiting:
                return False
            waiting.remove(call_id)
        elif waiting:
            return False
        elif calls := message.get("tool_calls"):
            waiting = [call["id"] for call in calls]
    return not waiting


def repair(messages: Sequence[ChatDict]) -> list[ChatDict]:
    """Without results that answer nothing, and with a stub for each call that has none. Changes no message."""
    if is_paired(messages):
        return list(messages)
    repaired: list[ChatDict] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            if call_id in waiting:
                waiting.remove(call_id)
                repaired.append(message)
            continue
        repaired += map(_stub, waiting)
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        repaired.append(message)
    return [*repaired, *map(_stub, waiting)]


def _stub(call_id: str) -> ChatDict:
    return {"role": "tool", "tool_call_id": call_id, "content": STUB_RESULT}
