"""`parse_mode=MarkdownV2`: every reserved character is a mark or is escaped."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.fakes.telegram.errors import Refused, bad_request
from tests.fakes.telegram.text import Entity, Formatted, is_link, units

_RESERVED = frozenset("_*[]()~`>#+-=|{}.!")
_MARKS = {"__": "underline", "||": "spoiler", "*": "bold", "_": "italic", "~": "strikethrough"}
_NAMES = {
    "bold": "Bold", "italic": "Italic", "underline": "Underline", "strikethrough": "Strikethrough",
    "spoiler": "Spoiler", "text_link": "TextUrl", "code": "Code", "pre": "Pre", "custom_emoji": "CustomEmoji",
}  # fmt: skip


@dataclass(slots=True)
class _Open:
    kind: str
    start: int
    byte: int


@dataclass(slots=True)
class _Parsing:
    source: str
    at: int = 0
    text: str = ""
    length: int = 0
    entities: list[Entity] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)
    quote_from: int | None = None

    @property
    def byte(self) -> int:
        return len(self.source[: self.at].encode())

    def say(self, text: str) -> None:
        self.text += text
        self.length += units(text)

    def ahead(self, mark: str) -> bool:
        return self.source.startswith(mark, self.at)

    def add(self, kind: str, start: int, **more: str) -> None:
        if self.length > start:
            self.entities.append({"type": kind, "offset": start, "length": self.length - start, **more})


def parse_markdown(source: str) -> Formatted:
    parsing = _Parsing(source)
    while parsing.at < len(source):
        _step(parsing)
    _end_quote(parsing)
    if parsing.open:
        opened = parsing.open[-1]
        raise _broken(f"Can't find end of {_NAMES[opened.kind]} entity at byte offset {opened.byte}")
    entities = sorted(parsing.entities, key=lambda entity: (entity["offset"], -entity["length"]))
    return Formatted(parsing.text, entities)


def _step(parsing: _Parsing) -> None:
    character = parsing.source[parsing.at]
    at_line_start = parsing.at == 0 or parsing.source[parsing.at - 1] == "\n"
    if at_line_start and character != ">":
        _end_quote(parsing)
    if character == "\\" and _escapes(parsing):
        parsing.say(parsing.source[parsing.at + 1])
        parsing.at += 2
    elif at_line_start and character == ">":
        if parsing.quote_from is None:
            parsing.quote_from = parsing.length
        parsing.at += 1
    elif character == "`":
        _code(parsing)
    elif character == "]" and parsing.open and parsing.open[-1].kind in ("text_link", "custom_emoji"):
        _link_end(parsing)
    elif character == "[" or parsing.ahead("!["):
        kind = "text_link" if character == "[" else "custom_emoji"
        parsing.open.append(_Open(kind, parsing.length, parsing.byte))
        parsing.at += 1 if character == "[" else 2
    elif (mark := next((mark for mark in _MARKS if parsing.ahead(mark)), None)) is not None:
        _mark(parsing, mark)
    elif character in _RESERVED:
        raise _broken(f"Character '{character}' is reserved and must be escaped with the preceding '\\'")
    else:
        parsing.say(character)
        parsing.at += 1


def _escapes(parsing: _Parsing) -> bool:
    following = parsing.source[parsing.at + 1 : parsing.at + 2]
    return bool(following) and 0 < ord(following) <= 126


def _mark(parsing: _Parsing, mark: str) -> None:
    kind = _MARKS[mark]
    if parsing.quote_from is not None and mark == "||" and not any(o.kind == "spoiler" for o in parsing.open):
        rest = parsing.source[parsing.at + 2 :]
        if not rest or rest.startswith("\n"):
            parsing.at += 2
            _end_quote(parsing, "expandable_blockquote")
            return
    if parsing.open and parsing.open[-1].kind == kind:
        parsing.add(kind, parsing.open.pop().start)
    else:
        parsing.open.append(_Open(kind, parsing.length, parsing.byte))
    parsing.at += len(mark)


def _code(parsing: _Parsing) -> None:
    fence = "```" if parsing.ahead("```") else "`"
    kind = "pre" if fence == "```" else "code"
    start, byte = parsing.length, parsing.byte
    parsing.at += len(fence)
    more: dict[str, str] = {}
    if kind == "pre":
        line, newline, _ = parsing.source[parsing.at :].partition("\n")
        if newline and "`" not in line and not any(character.isspace() for character in line):
            parsing.at += len(line) + 1
            more = {"language": line} if line else {}
    while not parsing.ahead(fence):
        if parsing.at >= len(parsing.source):
            raise _broken(f"Can't find end of {_NAMES[kind]}Code entity at byte offset {byte}")
        if parsing.ahead("\\") and _escapes(parsing):
            parsing.at += 1
        elif parsing.ahead("`"):
            raise _broken("Character '`' is reserved and must be escaped with the preceding '\\'")
        parsing.say(parsing.source[parsing.at])
        parsing.at += 1
    parsing.at += len(fence)
    parsing.add(kind, start, **more)


def _link_end(parsing: _Parsing) -> None:
    opened = parsing.open.pop()
    parsing.at += 1
    if not parsing.ahead("("):
        raise _broken("Character ']' is reserved and must be escaped with the preceding '\\'")
    parsing.at += 1
    url = ""
    while not parsing.ahead(")"):
        if parsing.at >= len(parsing.source):
            raise _broken(f"Can't find end of a URL at byte offset {opened.byte}")
        if parsing.ahead("\\") and _escapes(parsing):
            parsing.at += 1
        url += parsing.source[parsing.at]
        parsing.at += 1
    parsing.at += 1
    if opened.kind == "custom_emoji":
        parsing.add(opened.kind, opened.start, custom_emoji_id=url.rpartition("=")[2])
    elif is_link(url):
        parsing.add(opened.kind, opened.start, url=url)


def _end_quote(parsing: _Parsing, kind: str = "blockquote") -> None:
    if parsing.quote_from is not None:
        parsing.add(kind, parsing.quote_from)
        parsing.quote_from = None


def _broken(reason: str) -> Refused:
    return bad_request(f"can't parse entities: {reason}")
