"""Changes a few values of a `hermes.yaml` and leaves every other byte as it was.

Libraries that write YAML back normalise spaces and empty values; a person's file is not ours to tidy. So the
parser only says where a value stands, and the text is changed there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from gateway.errors import ConfigNotWritten

Values = dict[str, str | None]


def with_values(text: str, section: str, values: Values) -> str:
    """The text with these keys of a section, such as `model` or `platforms.telegram`, set.

    Raises ConfigNotWritten where that would disturb others.
    """
    changed = text
    try:
        for name, value in reversed(values.items()):
            changed = _with_value(changed, section, name, value)
        succeeded = content(changed, section) == content(text, section, values)
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        succeeded = False
    if not succeeded:
        names = ", ".join(f"{section}.{name}" for name in values)
        raise ConfigNotWritten(f"its file is written in a way that is not safe to edit; set {names} by hand.")
    return changed


def write(path: Path, text: str) -> None:
    """All or nothing: a crash in between leaves the old file."""
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


def content(text: str, section: str, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the text says, with these values; a key that is null and one that is missing are the same."""
    return _merged(yaml.safe_load(text) or {}, section.split("."), values or {})


def _merged(mapping: dict[str, Any], path: Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    if path:
        return {**mapping, path[0]: _merged(mapping.get(path[0]) or {}, path[1:], values)}
    return {name: value for name, value in {**mapping, **values}.items() if value is not None}


def _with_value(text: str, section: str, name: str, value: str | None) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    header, body, missing = _nearest(root, section.split("."))
    _, old = _entry(body, name) if not missing else (None, None)
    if old is not None:
        assert isinstance(body, MappingNode)
        return _replace(text, old, _scalar(value, in_flow=body.flow_style))
    if value is None:
        return text
    return _with_entry(text, header, body, [*missing, name], value)


def _nearest(root: Node | None, path: Sequence[str]) -> tuple[Node | None, Node | None, Sequence[str]]:
    """How far the file goes along the path: the last name and what stands behind it, and the names not there yet."""
    header, body = None, root
    for depth, name in enumerate(path):
        key, value = _entry(body, name)
        if key is None or value is None:
            return header, body, path[depth:]
        header, body = key, value
    return header, body, ()


def _with_entry(text: str, header: Node | None, body: Node | None, names: Sequence[str], value: str) -> str:
    """The text with a new entry at this place, and around it the sections that are not there yet."""
    if isinstance(body, MappingNode) and body.flow_style:
        return _insert_first(text, body, _flow_entry(names, value))
    newline = _newline(text)
    if header is None:
        gap = newline if text and not text.endswith("\n") else ""
        return f"{text}{gap}{_block_entry(names, value, '', newline)}"
    if not isinstance(body, MappingNode):  # `model:`, with nothing or null behind it
        assert body is not None
        return _replace(text, body, f"{{{_flow_entry(names, value)}}}")
    # Directly below the section's name: further down, a comment could be torn from what it speaks about.
    indent = " " * body.value[0][0].start_mark.column
    below = text.index("\n", header.end_mark.index) + 1
    return f"{text[:below]}{_block_entry(names, value, indent, newline)}{text[below:]}"


def _block_entry(names: Sequence[str], value: str, indent: str, newline: str) -> str:
    *sections, name = names
    lines = [f"{indent}{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    lines.append(f"{indent}{'  ' * len(sections)}{name}: {_scalar(value)}")
    return "".join(f"{line}{newline}" for line in lines)


def _flow_entry(names: Sequence[str], value: str) -> str:
    *sections, name = names
    opened = "".join(f"{section}: {{" for section in sections)
    return f"{opened}{name}: {_scalar(value, in_flow=True)}{'}' * len(sections)}"


def _entry(mapping: Node | None, name: str) -> tuple[Node, Node] | tuple[None, None]:
    if isinstance(mapping, MappingNode):
        for key, value in mapping.value:
            if key.value == name:
                return key, value
    return None, None


def _replace(text: str, node: Node, new: str) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    before = " " if start == end else ""  # nothing stands there yet, directly behind the colon
    after = _newline(text) if text[start:end].endswith("\n") else ""
    return f"{text[:start]}{before}{new}{after}{text[end:]}"


def _insert_first(text: str, mapping: MappingNode, entry: str) -> str:
    inside = mapping.start_mark.index + 1
    comma = ", " if mapping.value else ""
    return f"{text[:inside]}{entry}{comma}{text[inside:]}"


def _scalar(value: str | None, *, in_flow: bool = False) -> str:
    if value is None or in_flow:
        return json.dumps(value, ensure_ascii=False)
    dumped: str = yaml.safe_dump(value, allow_unicode=True, width=float("inf"))
    return dumped.removesuffix("...\n").removesuffix("\n")


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


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
