"""Originals on a page: a header in brackets, then exactly as many characters as it says.

    [m12 user 2026-03-01 10:02 text 5 Anna]
    Hello
    [m13 assistant 2026-03-01 10:02 call 16 lookup call_7]
    {"word":"hello"}
    [m14 tool 2026-03-01 10:02 text 0-4000/90210]
    ...

The count makes it impossible for a text to pass for a header. `0-4000/90210` stands where a text is longer than a page:
these are the characters from 0 up to 4000 of 90210, and the pieces of all pages together are the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent.chat_text import call_of
from agent.messages import ChatDict
from agent.tokens import estimate_text_tokens
from agent.untrusted import in_a_note

from ..messages import Stored
from ..report import moment, period
from ..summaries import Node

Kind = Literal["text", "call", "attachment", "raw", "summary"]

_HEADER = re.compile(
    r"\[(?P<id>(?:c\d+\.)?[ms]\d+) (?P<role>\w+) (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d) "
    r"(?P<kind>text|call|attachment|raw|summary) (?P<start>\d+)(?:-(?P<end>\d+)/(?P<total>\d+))?"
    r"(?: (?P<label>[^\n]*))?\]"
)
_LABEL = 60
_TOPICS = 120
_UNFIT_FOR_A_ROLE = re.compile(r"\W")


@dataclass(frozen=True, slots=True)
class Section:
    """One text of a message: what was said, or the arguments of one call."""

    id: str
    role: str
    time: str
    kind: Kind
    text: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A section, or some of its characters."""

    section: Section
    start: int
    end: int

    @property
    def is_whole(self) -> bool:
        return self.end - self.start == len(self.section.text)

    def render(self) -> str:
        section = self.section
        count = str(self.end) if self.is_whole else f"{self.start}-{self.end}/{len(section.text)}"
        header = " ".join(
            filter(None, (section.id, section.role, section.time, section.kind, count, section.label))
        )
        return f"[{header}]\n{section.text[self.start : self.end]}\n"


@dataclass(frozen=True, slots=True)
class Read:
    """A piece as it was found on a page."""

    id: str
    role: str
    kind: Kind
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
    """Several texts of one message stand one behind the other, with a line break between."""
    calls: tuple[tuple[str, str], ...]
    """Label and arguments of each."""
    raw: ChatDict | None


def sections_of(message: Stored, prefix: str = "", *, raw: bool = False) -> list[Section]:
    """The texts of a message, in order. Attachments are named; `raw` has them, too."""
    said, role, time = message.chat, _role(message.role), moment(message.said_at)

    def section(kind: Kind, text: str, label: str = "") -> Section:
        return Section(f"{prefix}{message.id}", role, time, kind, text, in_a_note(label)[:_LABEL].strip())

    if raw:
        return [section("raw", _as_json(said))]
    name = str(said.get("name") or said.get("tool_call_id") or "")
    content = said.get("content")
    if isinstance(content, str):
        texts = [section("text", content, name)]
    else:
        texts = [_part(section, part, name) for part in content or ()]
    calls = [
        section("call", arguments, f"{called} {call.get('id') or ''}")
        for call in said.get("tool_calls") or ()
        for called, arguments in [call_of(call)]
    ]
    return [*texts, *calls] or [section("text", "", name)]


def section_of(node: Node, prefix: str = "") -> Section:
    """A summary, with what the engine knows about it."""
    span = f"{prefix}m{node.first_seq}-m{node.last_seq}, {period(node.earliest, node.latest)}"
    about = f", about: {in_a_note(node.topics)[:_TOPICS]}" if node.topics else ""
    note = ", an extract with gaps" if node.is_stand_in else ""
    time = moment(node.earliest)
    return Section(
        f"{prefix}{node.id}", f"depth{node.depth}", time, "summary", node.content, f"{span}{note}{about}"
    )


def page_of(
    sections: Iterable[Section], page: int, *, tokens: int, characters: int
) -> tuple[list[Piece], bool]:
    """What stands on a page, counted from 1, and whether another follows. Reads no further than that."""
    number, pieces = 1, list[Piece]()
    tokens_left, characters_left = tokens, characters
    for piece in _pieces(sections, tokens, characters):
        shown = piece.render()
        size = estimate_text_tokens(shown) + 1
        if pieces and (size > tokens_left or len(shown) > characters_left):
            if number == page:
                return pieces, True
            number, pieces = number + 1, []
            tokens_left, characters_left = tokens, characters
        pieces.append(piece)
        tokens_left, characters_left = tokens_left - size, characters_left - len(shown)
    return (pieces if number == page else []), False


def render(pieces: Sequence[Piece]) -> str:
    return "".join(piece.render() for piece in pieces)


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
        kind: Kind = header["kind"]  # type: ignore[assignment] # the pattern has all kinds and no other
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


def _pieces(sections: Iterable[Section], tokens: int, characters: int) -> Iterator[Piece]:
    """Whole where a page has room for it."""
    for section in sections:
        header = Piece(section, 0, 0).render()
        room = tokens - estimate_text_tokens(header) - _COUNT_TOKENS
        space = characters - len(header) - _COUNT_CHARACTERS
        if not section.text or (len(section.text) <= space and estimate_text_tokens(section.text) <= room):
            yield Piece(section, 0, len(section.text))
            continue
        start = 0
        while start < len(section.text):
            end = start + _fitting(section.text, start, max(1, room), max(1, space))
            yield Piece(section, start, end)
            start = end


_COUNT_CHARACTERS = 40
"""Three numbers, where a piece has them."""
_COUNT_TOKENS = 12


def _fitting(text: str, start: int, tokens: int, characters: int) -> int:
    """How many characters from there on fit; at least one."""
    count = min(len(text) - start, characters, tokens * 4)
    while count > 1 and (size := estimate_text_tokens(text[start : start + count])) > tokens:
        count = max(1, min(count - 1, count * tokens // size))
    return count


def _part(section: Callable[[Kind, str, str], Section], part: object, name: str) -> Section:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return section("text", part["text"], name)
    kind = str(part.get("type") or "") if isinstance(part, dict) else ""
    return section("attachment", "", f"{kind} of {len(_as_json(part)):,} characters, shown by raw")


def _role(role: str) -> str:
    return _UNFIT_FOR_A_ROLE.sub("_", role)[:20] or "_"


def _as_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
