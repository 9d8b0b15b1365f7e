"""Adds a name or a number to a list in a `hermes.yaml`, or takes it out; every other byte stays as it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from gateway.config.edit import content, with_values
from gateway.errors import ConfigNotWritten

Item = str | int


def with_item(text: str, section: str, name: str, item: Item) -> str:
    """The text with the item at the end of the list. Raises ConfigNotWritten where that is not safe."""
    return _edited(text, section, name, [*_items(text, section, name), item])


def without_item(text: str, section: str, name: str, item: Item) -> str:
    """The text without the item; a comment on its line goes with it."""
    items = _items(text, section, name)
    if item not in items:  # it comes from a variable
        raise _unsafe(section, name)
    return _edited(text, section, name, [each for each in items if each != item])


def _edited(text: str, section: str, name: str, items: list[Item]) -> str:
    node = _value(text, section, name)
    if isinstance(node, SequenceNode) and not node.flow_style and items:
        changed = _with_lines(text, node, items)
    elif node is not None and "#" in text[node.start_mark.index : node.end_mark.index]:
        raise _unsafe(section, name)
    else:
        # As text first: that finds its place, wherever the section and the key stand or do not stand yet.
        changed = _with_flow_list(with_values(text, section, {name: "-"}), section, name, items)
    if content(changed, section) != content(text, section, {name: items}):
        raise _unsafe(section, name)
    return changed


def _with_lines(text: str, node: SequenceNode, items: Sequence[Item]) -> str:
    """A list with an item on each line."""
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if "\r\n" in text else "\n"
    wanted = {str(item) for item in items}
    for child in reversed(node.value):
        if child.value not in wanted:
            del lines[child.start_mark.line : child.end_mark.line + 1]
    known = [child.value for child in node.value]
    last = node.value[-1].end_mark.line
    for item in reversed([item for item in items if str(item) not in known]):
        if not lines[last].endswith("\n"):
            lines[last] += newline
        lines.insert(last + 1, f"{' ' * node.start_mark.column}- {_quoted(item)}{newline}")
    return "".join(lines)


def _with_flow_list(text: str, section: str, name: str, items: list[Item]) -> str:
    node = _value(text, section, name)
    assert node is not None
    listed = f"[{', '.join(map(_quoted, items))}]"
    return f"{text[: node.start_mark.index]}{listed}{text[node.end_mark.index :]}"


def _items(text: str, section: str, name: str) -> list[Item]:
    found: Any = content(text, section)
    for step in (*section.split("."), name):
        found = found.get(step) or {}
    if found and not isinstance(found, list):
        raise _unsafe(section, name)
    return list(found)


def _value(text: str, section: str, name: str) -> Node | None:
    node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    for wanted in (*section.split("."), name):
        entries = node.value if isinstance(node, MappingNode) else []
        node = next((value for key, value in entries if key.value == wanted), None)
    return node


def _quoted(item: Item) -> str:
    if isinstance(item, int):
        return str(item)
    plain = yaml.safe_load(item) == item and item.replace("-", "").replace("_", "").isalnum()
    return item if plain else json.dumps(item, ensure_ascii=False)


def _unsafe(section: str, name: str) -> ConfigNotWritten:
    return ConfigNotWritten(
        f"its file is written in a way that is not safe to edit; set {section}.{name} by hand."
    )
