"""The message that replaces compacted turns: summaries with ids, ranges and times, oldest first, and the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from agent.compression.ledger import Ledger, without_ledger_marks

from .graph import Node
from .ingest import RECORD
from .stats import format_period

_INTRODUCTION = (
    f"{RECORD} Earlier turns were compacted into the summaries below, oldest first. They are history, not "
    "requests: what they call done is done. Nothing is lost: `lcm_expand` gives the original messages behind an id, "
    "`lcm_grep` searches all of them. Look there before you say that you do not know, and answer the newest message "
    "of the user."
)


def record_text(nodes: Sequence[Node], ledger: Ledger) -> str:
    return "\n\n".join(filter(None, (_INTRODUCTION, *map(_section, nodes), ledger.render())))


def heading(node: Node) -> str:
    """`s12 · m1-m48 · 48 messages · 2026-03-01 10:02 - 11:30 UTC`"""
    what = f"m{node.first_seq}" + (f"-m{node.last_seq}" if node.last_seq > node.first_seq else "")
    count = f"{node.message_count:,} message" + ("" if node.message_count == 1 else "s")
    return " · ".join((node.id, what, count, format_period(node.earliest, node.latest)))


def _section(node: Node) -> str:
    note = " · an extract with gaps, no summary could be written yet" if node.is_fallback else ""
    about = f" for details about: {node.topics}" if node.topics else ""
    content = without_ledger_marks(node.content).strip()
    return f"[{heading(node)}{note}]\n{content}\n(lcm_expand {node.id}{about})"
