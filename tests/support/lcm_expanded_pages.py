"""Parses the pages of `lcm_expand` back into messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.messages import ChatDict
from plugins.context_engine.lcm.tools.expand import SectionKind

_HEADER = re.compile(
    r"\[(?P<id>(?:c\d+\.)?[ms]\d+) (?P<role>\w+) (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d) "
    r"(?P<kind>text|call|attachment|raw|summary) (?P<start>\d+)(?:-(?P<end>\d+)/(?P<total>\d+))?"
    r"(?: (?P<label>[^\n]*))?\]"
)


@dataclass(frozen=True, slots=True)
class Read:
    """A piece as it was found on a page."""

    id: str
    role: str
    kind: SectionKind
    label: str
    start: int
    total: int
    text: str


@dataclass(frozen=True, slots=True)
class Original:
    """A message put together again."""

    id: str
    role: str
    content: str
    """Several texts of one message follow each other, separated by a line break."""
    calls: tuple[tuple[str, str], ...]
    """Label and arguments of each."""
    raw: ChatDict | None


def parse_expanded(text: str) -> list[Read]:
    """The pieces of a page. Raises ValueError where the text is none."""
    found: list[Read] = []
    position = text.index("\n") + 1 if not text.startswith("[") and "\n" in text else 0
    while header := _HEADER.match(text, position):
        start, end = int(header["start"]), int(header["end"] or 0)
        if header["end"] is None:
            start, end = 0, start
        begin = header.end() + 1
        position = begin + end - start
        if text[begin - 1 : begin] != "\n" or text[position : position + 1] != "\n":
            raise ValueError(f"The text of {header['id']} is not as long as its header says.")
        kind: SectionKind = header["kind"]  # type: ignore[assignment] # the pattern has all kinds and no other
        total = int(header["total"] or end)
        found.append(
            Read(
                header["id"], header["role"], kind, header["label"] or "", start, total, text[begin:position]
            )
        )
        position += 1
    if position < len(text):
        raise ValueError(f"There is no header at character {position}.")
    return found


def originals(pages: Iterable[str]) -> dict[str, Original]:
    """The messages of consecutive pages, by id. Raises ValueError where a piece is missing."""
    found: dict[str, Original] = {}
    for first, text in _joined(read for page in pages for read in parse_expanded(page)):
        before = found.get(first.id) or Original(first.id, first.role, "", (), None)
        content, calls, raw = before.content, before.calls, before.raw
        if first.kind == "call":
            calls = (*calls, (first.label, text))
        elif first.kind == "raw":
            raw = json.loads(text)
        elif first.kind != "attachment":
            content = f"{content}\n{text}" if content else text
        found[first.id] = Original(first.id, first.role, content, calls, raw)
    return found


def _joined(pieces: Iterable[Read]) -> Iterator[tuple[Read, str]]:
    waiting: list[Read] = []
    for piece in pieces:
        have = sum(len(each.text) for each in waiting)
        if piece.start != have or (waiting and (piece.id, piece.total) != (waiting[0].id, waiting[0].total)):
            raise ValueError(f"The characters of {piece.id} from {have} on are missing.")
        waiting.append(piece)
        if have + len(piece.text) == piece.total:
            yield waiting[0], "".join(each.text for each in waiting)
            waiting = []
    if waiting:
        raise ValueError(f"The end of {waiting[0].id} is missing.")
