"""`parse_mode=HTML`: Telegram's few tags, and its complaints about all others."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from tests.fakes.telegram.errors import Refused, bad_request
from tests.fakes.telegram.text import Entity, Formatted, is_link, units

_TAGS = {
    "b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline", "ins": "underline",
    "s": "strikethrough", "strike": "strikethrough", "del": "strikethrough", "tg-spoiler": "spoiler",
    "span": "spoiler", "code": "code", "pre": "pre", "a": "text_link", "blockquote": "blockquote",
    "tg-emoji": "custom_emoji", "tg-time": "date_time",
}  # fmt: skip
_TOKEN = re.compile(r"<(?P<tag>[^>]*)(?P<end>>?)|&(?P<name>#?\w+);|(?P<text>[^<&]+|&)")
_ATTRIBUTE = re.compile(r"""([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}


@dataclass(frozen=True, slots=True)
class _Open:
    tag: str
    start: int
    attributes: dict[str, str]


@dataclass(slots=True)
class _Parsing:
    text: str = ""
    length: int = 0
    entities: list[Entity] = field(default_factory=list)
    open: list[_Open] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.text += text
        self.length += units(text)


def parse_html(source: str) -> Formatted:
    parsing = _Parsing()
    for token in _TOKEN.finditer(source):
        if token["text"] is not None:
            parsing.say(token["text"])
        elif token["name"] is not None:
            parsing.say(_character(token["name"], token[0]))
        else:
            _tag(parsing, token, len(source[: token.start()].encode()))
    if parsing.open:
        raise _broken(f'Can\'t find end tag corresponding to start tag "{parsing.open[-1].tag}"')
    entities = sorted(parsing.entities, key=lambda entity: (entity["offset"], -entity["length"]))
    return Formatted(parsing.text, _with_languages(entities))


def _character(name: str, whole: str) -> str:
    if name.startswith("#"):
        return html.unescape(whole)
    return _NAMED.get(name, whole)


def _tag(parsing: _Parsing, token: re.Match[str], offset: int) -> None:
    inside = token["tag"]
    if not token["end"]:
        raise _broken(f"Unclosed start tag at byte offset {offset}")
    if inside.startswith("/"):
        _close(parsing, inside[1:].strip().lower(), offset)
        return
    name, _, rest = inside.partition(" ")
    name = name.lower()
    attributes = {
        found[1].lower(): next((value for value in found.groups()[1:] if value is not None), "")
        for found in _ATTRIBUTE.finditer(rest)
    }
    if name not in _TAGS or (name == "span" and attributes.get("class") != "tg-spoiler"):
        kind = "start tag" if name not in _TAGS else "tag"
        raise _broken(f'Unsupported {kind} "{name}" at byte offset {offset}')
    parsing.open.append(_Open(name, parsing.length, attributes))


def _close(parsing: _Parsing, name: str, offset: int) -> None:
    if not parsing.open:
        raise _broken(f"Unexpected end tag at byte offset {offset}")
    opened = parsing.open.pop()
    if name and name != opened.tag:
        raise _broken(
            f'Unmatched end tag at byte offset {offset}, expected "</{opened.tag}>", found "</{name}>"'
        )
    length = parsing.length - opened.start
    entity = _entity(opened, parsing.text, length)
    if entity is not None and length > 0:
        parsing.entities.append(entity)


def _entity(opened: _Open, text: str, length: int) -> Entity | None:
    entity: Entity = {"type": _TAGS[opened.tag], "offset": opened.start, "length": length}
    if opened.tag == "a":
        shown = text.encode("utf-16-le")[2 * opened.start :].decode("utf-16-le")
        url = html.unescape(opened.attributes.get("href") or shown)
        return entity | {"url": url} if is_link(url) else None
    if opened.tag == "blockquote" and "expandable" in opened.attributes:
        entity["type"] = "expandable_blockquote"
    if opened.tag == "tg-emoji":
        entity["custom_emoji_id"] = opened.attributes.get("emoji-id", "")
    language = opened.attributes.get("class", "").removeprefix("language-")
    if opened.tag in ("code", "pre") and language:
        entity["language"] = language
    return entity


def _with_languages(entities: list[Entity]) -> list[Entity]:
    """A code of the same extent as the pre around it only names the language."""
    kept: list[Entity] = []
    for entity in entities:
        around = kept[-1] if kept else None
        if around and {around["type"], entity["type"]} == {"pre", "code"}:
            same = (around["offset"], around["length"]) == (entity["offset"], entity["length"])
            if same:
                language = around.get("language") or entity.get("language")
                around["type"] = "pre"
                around.update({"language": language} if language else {})
                continue
        kept.append(entity)
    for entity in kept:
        if entity["type"] == "code":
            entity.pop("language", None)
    return kept


def _broken(reason: str) -> Refused:
    return bad_request(f"can't parse entities: {reason}")
