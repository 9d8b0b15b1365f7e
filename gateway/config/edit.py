"""Changes a few values of a `hermes.yaml` and leaves every other byte as it was.

Libraries that write YAML back normalise spaces and empty values; a person's file is not ours to tidy. So the
parser only says where a value stands, and the text is changed there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node

from gateway.errors import ConfigNotWritten

Values = dict[str, str | None]


def with_values(text: str, section: str, values: Values) -> str:
    """The text with these keys of a section set. Raises ConfigNotWritten where that would disturb others."""
    changed = text
    try:
        for name, value in reversed(values.items()):
            changed = _with_value(changed, section, name, value)
        succeeded = _content(changed, section) == _content(text, section, values)
    except (yaml.YAMLError, TypeError, ValueError):
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


def _content(text: str, section: str, values: Values | None = None) -> dict[str, Any]:
    """What the text says, with these values; a key that is null and one that is missing are the same."""
    content: dict[str, Any] = yaml.safe_load(text) or {}
    merged = {**(content.get(section) or {}), **(values or {})}
    return {**content, section: {name: value for name, value in merged.items() if value is not None}}


def _with_value(text: str, section: str, name: str, value: str | None) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    header, body = _entry(root, section)
    _, old = _entry(body, name)
    if value is None and old is None:
        return text
    if header is None or body is None:
        return _with_section(text, root, f"{section}:", name, value)
    if not isinstance(body, MappingNode):  # `model:`, with nothing or null behind it
        return _replace(text, body, f"{{{name}: {_scalar(value, in_flow=True)}}}")
    if old is not None:
        return _replace(text, old, _scalar(value, in_flow=body.flow_style))
    if body.flow_style:
        return _insert_first(text, body, f"{name}: {_scalar(value, in_flow=True)}")
    # Directly below the section's name: further down, a comment could be torn from what it speaks about.
    indent = " " * body.value[0][0].start_mark.column
    below = text.index("\n", header.end_mark.index) + 1
    return f"{text[:below]}{indent}{name}: {_scalar(value)}{_newline(text)}{text[below:]}"


def _with_section(text: str, root: Node | None, header: str, name: str, value: str | None) -> str:
    if isinstance(root, MappingNode) and root.flow_style:
        return _insert_first(text, root, f"{header} {{{name}: {_scalar(value, in_flow=True)}}}")
    newline = _newline(text)
    gap = newline if text and not text.endswith("\n") else ""
    return f"{text}{gap}{header}{newline}  {name}: {_scalar(value)}{newline}"


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
