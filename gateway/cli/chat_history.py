"""What was said last in a chat that goes on: its answer may have come while nobody watched."""

from __future__ import annotations

from typing import NamedTuple

from agent.messages import without_notes
from agent.store import SessionStore
from agent.untrusted import without_marks
from gateway.cli.output import one_line, printable

_LONGEST_QUESTION = 200
_MOST_LINES = 12
_LONGEST_ANSWER = 1200


class Exchange(NamedTuple):
    question: str
    answer: str

    def __str__(self) -> str:
        """The beginning of it."""
        lines = printable(self.answer).strip()[:_LONGEST_ANSWER].splitlines()[:_MOST_LINES]
        answer = "\n".join(lines)
        more = "" if len(answer) == len(printable(self.answer).strip()) else " …"
        return f"You: {one_line(self.question, _LONGEST_QUESTION)}\n\n{answer}{more}"


async def last_exchange(store: SessionStore, conversation_id: str) -> Exchange | None:
    """None where nothing was said, or the answer is still to come: that will be seen as it is written."""
    conversation = await store.conversation(conversation_id)
    history = without_notes(await store.history(conversation.live_session_id))
    if not history or history[-1].role != "assistant" or history[-1].tool_calls:
        return None
    asked = next((message for message in reversed(history) if message.role == "user"), None)
    if asked is None or not history[-1].content.strip():
        return None
    return Exchange(without_marks(asked.content), without_marks(history[-1].content))
