"""The data beside a summary, and the block of text that the host shows the model behind it.

A summary's `state` has two parts: what the engine returned under `STATE`, and the text of the host's block. Engines get
their own part back and never see the block. Nothing is read out of the text, so no copy of a mark can harm it.
"""

from __future__ import annotations

from dataclasses import replace

from agent.messages import OUTSIDE, ChatDict, Message

_BEGIN = "\n\n[STATE CARRIED OVER]\n"
_END = "\n[END OF STATE]"
MARKS = (_BEGIN.strip(), _END.strip())
_ENGINE = "engine"
_BLOCK = "block"


def new_state(of_engine: ChatDict, *, outside: bool) -> ChatDict:
    """`outside`: text of others was in the messages that the summary replaces. No later summary forgets it."""
    return {_ENGINE: of_engine, _BLOCK: "", OUTSIDE: outside}


def with_block(summary: Message, state: str) -> Message:
    block = f"{_BEGIN}{state}{_END}"
    return replace(summary, content=summary.content + block, state={**(summary.state or {}), _BLOCK: block})


def block_of(summary: Message) -> str:
    """The block with its marks. In summaries of old versions it is what follows the last mark."""
    if summary.state is not None:
        return str(summary.state.get(_BLOCK, ""))
    text = summary.content
    at = text.rfind(_BEGIN) if text.endswith(_END) else -1
    return text[at:] if at >= 0 else ""


def text_of_engine(summary: Message) -> str:
    """The content as the engine wrote it."""
    return summary.content.removesuffix(block_of(summary))


def state_of_engine(summary: Message) -> ChatDict:
    found = (summary.state or {}).get(_ENGINE)
    return found if isinstance(found, dict) else {}
