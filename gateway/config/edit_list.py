"""Adds a name to a list in a `hermes.yaml`, or takes it out, and leaves every other byte as it was."""

from __future__ import annotations

import json
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from gateway.config.edit import with_values
from gateway.errors import ConfigNotWritten


def with_item(text: str, section: str, name: str, item: str) -> str:
    """The text with the item at the end of the list. Raises ConfigNotWritten where that is not safe."""
    return _edited(text, section, name, [*_items(text, section, name), item])


def without_item(text: str, section: str, name: str, item: str) -> str:
    """The text without the item; a comment on its line goes with it."""
    items = _items(text, section, name)
    if item not in items:  # it comes from a variable
        raise _unsafe(section, name)
    return _edited(text, section, name, [each for each in items if each != item])


def _edited(text: str, section: str, name: str, items: list[str]) -> str:
    node = _value(text, section, name)
    if isinstance(node, SequenceNode) and not node.flow_style and items:
        changed = _with_lines(text, node, items)
    elif node is not None and "#" in text[node.start_mark.index : node.end_mark.index]:
        raise _unsafe(section, name)
    else:
        # As text first: that finds its place, wherever the section and the key stand or do not stand yet.
        changed = _with_flow_list(with_values(text, section, {name: "-"}), section, name, items)
    if _content(changed) != _merged(_content(text), section, name, items):
        raise _unsafe(section, name)
    return changed


def _with_lines(text: str, node: SequenceNode, items: list[str]) -> str:
    """A list with an item on each line."""
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if "\r\n" in text else "\n"
    for child in reversed(node.value):
        if child.value not in items:
            del lines[child.start_mark.line : child.end_mark.line + 1]
    known = [child.value for child in node.value]
    last = node.value[-1].end_mark.line
    for item in reversed([item for item in items if item not in known]):
        if not lines[last].endswith("\n"):
            lines[last] += newline
        lines.insert(last + 1, f"{' ' * node.start_mark.column}- {_quoted(item)}{newline}")
    return "".join(lines)


def _with_flow_list(text: str, section: str, name: str, items: list[str]) -> str:
    node = _value(text, section, name)
    assert node is not None
    listed = f"[{', '.join(map(_quoted, items))}]"
    return f"{text[: node.start_mark.index]}{listed}{text[node.end_mark.index :]}"


def _items(text: str, section: str, name: str) -> list[str]:
    found = (_content(text).get(section) or {}).get(name) or []
    if not isinstance(found, list):
        raise _unsafe(section, name)
    return found


def _value(text: str, section: str, name: str) -> Node | None:
    node: Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    for wanted in (section, name):
        entries = node.value if isinstance(node, MappingNode) else []
        node = next((value for key, value in entries if key.value == wanted), None)
    return node


def _content(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(text) or {}
    return content


def _merged(content: dict[str, Any], section: str, name: str, items: list[str]) -> dict[str, Any]:
    return {**content, section: {**(content.get(section) or {}), name: items}}


def _quoted(item: str) -> str:
    plain = yaml.safe_load(item) == item and item.replace("-", "").replace("_", "").isalnum()
    return item if plain else json.dumps(item, ensure_ascii=False)


def _unsafe(section: str, name: str) -> ConfigNotWritten:
    return ConfigNotWritten(
        f"its file is written in a way that is not safe to edit; set {section}.{name} by hand."
    )
