"""Prints the session tree of a conversation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from agent.store import Compaction, Overview, Session, SessionStore
from gateway.cli.output import local_time, one_line
from gateway.cli.sessions_format import shortest_apart
from gateway.session_tree import Gap, SessionBranch, build_tree, shown_sessions

_LEFT_BEHIND = "left behind"


class Size(NamedTuple):
    """The numbers of messages of a session."""

    said: int
    """Messages in the session itself."""
    in_context: int
    """Messages that the model sees."""


@dataclass(frozen=True, slots=True)
class Lineage:
    overview: Overview
    sessions: list[Session]
    """Oldest first."""
    sizes: dict[str, Size]
    """Sizes of the sessions to show."""
    compactions: dict[str, Compaction]
    """Compactions by child session."""
    tree: SessionBranch[Session]


async def read_lineage(store: SessionStore, overview: Overview, *, everything: bool) -> Lineage:
    """Read the tree; without `everything`, the middle of long lines is left out."""
    conversation = overview.conversation
    sessions = await store.sessions(conversation.id)
    tree = build_tree(sessions, conversation.live_session_id, everything=everything)
    sizes = {session.id: await _size(store, session.id) for session in shown_sessions(tree)}
    return Lineage(overview, sessions, sizes, dict(await store.compactions(conversation.id)), tree)


async def _size(store: SessionStore, session_id: str) -> Size:
    history = await store.history(session_id)
    own = sum(message.session_id == session_id and message.kind == "said" for message in history)
    return Size(own, len(history))


# -- on paper ------------------------------------------------------------------------------------------------


def as_dict(lineage: Lineage) -> dict[str, Any]:
    return {
        "conversation": asdict(lineage.overview.conversation),
        "sessions": [
            _session_as_dict(lineage, each) for each in lineage.sessions if each.id in lineage.sizes
        ],
    }


def _session_as_dict(lineage: Lineage, session: Session) -> dict[str, Any]:
    fields = {key: value for key, value in asdict(session).items() if key != "system_prompt"}
    compaction = lineage.compactions.get(session.id)
    return {
        **fields,
        "live": session.id == lineage.overview.conversation.live_session_id,
        "messages": lineage.sizes[session.id]._asdict(),
        "compaction": asdict(compaction) if compaction else None,
    }


def print_lineage(lineage: Lineage, console: Console) -> None:
    tree = Tree(_heading(lineage.overview), guide_style="dim")
    _Printer(lineage, brief=console.is_terminal).add(tree, lineage.tree)
    console.print(tree)


def _heading(overview: Overview) -> Text:
    conversation, address = overview.conversation, overview.conversation.address
    where = f"{address.platform} {one_line(address.chat_id, 40)}"
    size = f"{overview.messages} messages, {overview.sessions} sessions"
    title = one_line(overview.title, 80) or "An empty conversation"
    return Text.assemble((title, "bold"), "\n", (f"{conversation.id} · {where} · {size}", "dim"))


class _Printer:
    """Prints sessions: two lines with a short id if `brief` (at a terminal), one line with the whole id in a pipe."""

    def __init__(self, lineage: Lineage, *, brief: bool) -> None:
        self._lineage = lineage
        self._brief = brief
        self._shown = shortest_apart([session.id for session in lineage.sessions]) if brief else None

    def add(self, tree: Tree, strand: SessionBranch[Session]) -> None:
        """Yield the lines of a branch; only branches that leave it are indented."""
        for member in strand.line:
            if isinstance(member, Gap):
                tree.add(Text(f"… {member.sessions} more sessions in line; --all shows them", "dim"))
                continue
            node = tree.add(self._entry(member))
            for branch in strand.branches.get(member.id, ()):
                self.add(node.add(Text(_LEFT_BEHIND, "dim italic")), branch)

    def _entry(self, session: Session) -> Text:
        is_live = session.id == self._lineage.overview.conversation.live_session_id
        return Text.assemble(
            (session.id[: self._shown], "bold cyan" if is_live else "cyan"),
            f" · {session.reason or 'first'} · {local_time(session.created_at)}",
            (" · live", "bold green") if is_live else "",
            "\n" if self._brief else " · ",
            (" · ".join(self._details(session)), "dim"),
        )

    def _details(self, session: Session) -> Iterator[str]:
        size, compaction = self._lineage.sizes[session.id], self._lineage.compactions.get(session.id)
        yield f"{size.said} said, {size.in_context} in context"
        if compaction:
            yield from _figures(compaction)
        if made_by := " with ".join(filter(None, (session.model, session.engine))):
            yield one_line(made_by, 60)


def _figures(compaction: Compaction) -> Iterator[str]:
    yield f"~{compaction.tokens_before:,} -> ~{compaction.tokens_after:,} tokens"
    yield f"{compaction.seconds:.1f} s"
    if compaction.cost_usd is not None:
        yield f"${compaction.cost_usd:.4f}"
    if compaction.outcome != "ok":
        yield one_line(compaction.outcome, 40)
    if compaction.focus:
        yield f"focus: {one_line(compaction.focus, 40)}"
