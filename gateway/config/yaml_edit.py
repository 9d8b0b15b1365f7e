"""Edits a few values of a `hermes.yaml` and keeps every other byte.

The parser finds where a value is; the edit replaces the text there. ruamel.yaml does not fit: writing a file back, it
changes indentation, spacing, line ends and the spelling of nulls, and drops comments inside brackets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from gateway.errors import ConfigNotWritten

Item = str | int
Value = str | Sequence[Item] | None
"""A list is written in brackets."""


def set_values(text: str, section: str, values: Mapping[str, Value]) -> str:
    """Return the text with these keys set in a section such as `model` or `platforms.telegram`.

    Raises ConfigNotWritten if the edit would change anything else.
    """
    changed = text
    try:
        for name, value in reversed(list(values.items())):
            changed = _set_value(changed, (*section.split("."), name), value)
        is_safe = _content(changed, section) == _content(text, section, values)
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        is_safe = False
    if not is_safe:
        raise _unsafe(section, *values)
    return changed


def add_item(text: str, section: str, name: str, item: Item) -> str:
    """Return the text with `item` at the end of a list. Raises ConfigNotWritten as `set_values` does."""
    return _set_list(text, section, name, [*_items(text, section, name), item])


def remove_item(text: str, section: str, name: str, item: Item) -> str:
    """Return the text without `item` and without the comment on its line."""
    items = _items(text, section, name)
    if item not in items:  # it comes from a variable
        raise _unsafe(section, name)
    return _set_list(text, section, name, [each for each in items if each != item])


def write_atomically(path: Path, text: str) -> None:
    """Replace the file. A crash leaves either the old file or the new one."""
    target = path.resolve()
    draft = target.with_name(f".{target.name}.new")
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft.write_bytes(text.encode())
        draft.chmod(mode)
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigNotWritten(f"{path}: {error.strerror}.") from None


def _unsafe(section: str, *names: str) -> ConfigNotWritten:
    keys = ", ".join(f"{section}.{name}" for name in names)
    return ConfigNotWritten(f"its file is written in a way that is not safe to edit; set {keys} by hand.")


def _content(text: str, section: str, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the data in the text, updated with `values`. In the section, a null key counts as a missing one."""
    return _merge(yaml.safe_load(text) or {}, section.split("."), values or {})


def _merge(mapping: dict[str, Any], path: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    if path:
        return {**mapping, path[0]: _merge(mapping.get(path[0]) or {}, path[1:], values)}
    return {name: value for name, value in {**mapping, **values}.items() if value is not None}


def _items(text: str, section: str, name: str) -> list[Item]:
    found: Any = _content(text, section)
    for step in (*section.split("."), name):
        found = found.get(step) or {}
    if found and not isinstance(found, list):
        raise _unsafe(section, name)
    return list(found)


def _set_list(text: str, section: str, name: str, items: list[Item]) -> str:
    _, node, missing = _find(text, (*section.split("."), name))
    if not missing and isinstance(node, SequenceNode) and not node.flow_style and items:
        changed = _edit_lines(text, node, items)
        if _content(changed, section) != _content(text, section, {name: items}):
            raise _unsafe(section, name)
        return changed
    if not missing and node and "#" in text[node.start_mark.index : node.end_mark.index]:
        raise _unsafe(section, name)
    return set_values(text, section, {name: items})


def _edit_lines(text: str, node: SequenceNode, items: Sequence[Item]) -> str:
    """Edit a list that has each item on a line of its own."""
    lines = text.splitlines(keepends=True)
    newline = _newline(text)
    wanted = {str(item) for item in items}
    for child in reversed(node.value):
        if child.value not in wanted:
            del lines[child.start_mark.line : child.end_mark.line + 1]
    present = [child.value for child in node.value]
    last = node.value[-1].end_mark.line
    for item in reversed([item for item in items if str(item) not in present]):
        if not lines[last].endswith("\n"):
            lines[last] += newline
        lines.insert(last + 1, f"{' ' * node.start_mark.column}- {_item(item)}{newline}")
    return "".join(lines)


def _set_value(text: str, path: Sequence[str], value: Value) -> str:
    header, node, missing = _find(text, path)
    if not missing:
        assert node is not None
        _, section, _ = _find(text, path[:-1])
        in_flow = isinstance(section, MappingNode) and bool(section.flow_style)
        return _replace(text, node, _render(value, in_flow=in_flow))
    return text if value is None else _insert(text, header, node, missing, value)


def _find(text: str, path: Sequence[str]) -> tuple[Node | None, Node | None, Sequence[str]]:
    """Follow the path. Return the last key and value that exist, and the names that do not exist yet."""
    key, value = None, yaml.compose(text, Loader=yaml.SafeLoader)
    for depth, name in enumerate(path):
        entries = value.value if isinstance(value, MappingNode) else []
        entry = next(((k, v) for k, v in entries if k.value == name), None)
        if entry is None:
            return key, value, path[depth:]
        key, value = entry
    return key, value, ()


def _insert(text: str, header: Node | None, body: Node | None, names: Sequence[str], value: Value) -> str:
    """Insert a new key, and around it the sections that do not exist yet."""
    if isinstance(body, MappingNode) and body.flow_style:
        inside = body.start_mark.index + 1
        comma = ", " if body.value else ""
        return f"{text[:inside]}{_flow_entry(names, value)}{comma}{text[inside:]}"
    newline = _newline(text)
    if header is None:
        gap = newline if text and not text.endswith("\n") else ""
        return f"{text}{gap}{_block_entry(names, value, '', newline)}"
    if not isinstance(body, MappingNode):  # `model:` with nothing or null behind it
        assert body is not None
        return _replace(text, body, f"{{{_flow_entry(names, value)}}}")
    # Directly below the section's name: further down, a comment could be separated from its key.
    indent = " " * body.value[0][0].start_mark.column
    below = text.index("\n", header.end_mark.index) + 1
    return f"{text[:below]}{_block_entry(names, value, indent, newline)}{text[below:]}"


def _block_entry(names: Sequence[str], value: Value, indent: str, newline: str) -> str:
    *sections, name = names
    lines = [f"{indent}{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    lines.append(f"{indent}{'  ' * len(sections)}{name}: {_render(value)}")
    return "".join(f"{line}{newline}" for line in lines)


def _flow_entry(names: Sequence[str], value: Value) -> str:
    *sections, name = names
    opened = "".join(f"{section}: {{" for section in sections)
    return f"{opened}{name}: {_render(value, in_flow=True)}{'}' * len(sections)}"


def _replace(text: str, node: Node, new: str) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    before = " " if start == end else ""  # an empty value begins directly behind the colon
    after = _newline(text) if text[start:end].endswith("\n") else ""
    return f"{text[:start]}{before}{new}{after}{text[end:]}"


def _render(value: Value, *, in_flow: bool = False) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_item, value))}]"
    if value is None or in_flow:
        return json.dumps(value, ensure_ascii=False)
    dumped: str = yaml.safe_dump(value, allow_unicode=True, width=float("inf"))
    return dumped.removesuffix("...\n").removesuffix("\n")


def _item(item: Item) -> str:
    if isinstance(item, int):
        return str(item)
    is_plain = yaml.safe_load(item) == item and item.replace("-", "").replace("_", "").isalnum()
    return item if is_plain else json.dumps(item, ensure_ascii=False)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
