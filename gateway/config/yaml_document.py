"""Reads a YAML file into plain data with line numbers, and substitutes variables.

Problems are collected, not raised, so that a person sees all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

KeyPath = tuple[str | int, ...]
"""The path to a value: `("model", "fallbacks", 0, "name")`."""

MAX_NODES = 10_000
MAX_DEPTH = 20

_PLAIN_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}
_CONSTRUCTOR_ERRORS = (ValueError, IndexError, KeyError, AttributeError, OverflowError)
"""Raised by PyYAML for 2024-99-99, which looks like a date, and for `!!int ''` or `!!bool perhaps`."""

_VARIABLE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_]\w*)(:-(?P<default>[^{}]*))?\}|\$\{", re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake in the file and its position."""

    path: KeyPath
    line: int
    text: str


@dataclass(slots=True)
class Document:
    """The content of a file. `variables` lists the substituted variables by path."""

    tree: Any = field(default_factory=dict, repr=False)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    variables: dict[KeyPath, list[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unreadable: set[KeyPath] = field(default_factory=set)
    """Paths whose value could not be read. They get no further problems."""

    def line(self, path: KeyPath) -> int:
        """Return the line of the value, or of the nearest section around it that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def add_problem(self, path: KeyPath, text: str, *, line: int | None = None) -> None:
        self.problems.append(Problem(path, line or self.line(path), text))


def parse(text: str, variables: Mapping[str, str]) -> Document:
    # Not the C loader: it recurses as deep as the file nests, and a hostile file would crash the process.
    document = Document()
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        content = root and _TreeBuilder(loader, variables, document).read(root, ())
        document.tree = {} if content is None else content
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.add_problem((), f"not valid YAML: {_reason(error)}", line=mark.line + 1 if mark else 1)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.add_problem((), "not valid YAML: it contains a control character", line=line)
    except (_TooLarge, RecursionError):
        document.add_problem((), f"expected at most {MAX_NODES} values, nested at most {MAX_DEPTH} deep")
    return document


class _TooLarge(Exception):
    """The document is too large. A few aliases can expand to millions of values, or to themselves."""


class _TreeBuilder:
    """Converts nodes to data and records their lines."""

    def __init__(self, loader: yaml.SafeLoader, variables: Mapping[str, str], document: Document) -> None:
        self._loader = loader
        self._variables = variables
        self._document = document
        self._nodes = 0

    def read(self, node: Node, path: KeyPath) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise _TooLarge
        self._document.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if node.tag not in _PLAIN_TAGS:
            self._document.add_problem(path, f"the tag {node.tag} is not supported")
        if isinstance(node, SequenceNode):
            return [self.read(child, (*path, index)) for index, child in enumerate(node.value)]
        assert isinstance(node, MappingNode)
        return self._mapping(node, path)

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._document.add_problem((*path, "?"), "expected a name before the colon", line=line)
                continue
            # The text as written: YAML would read the key `on` as true.
            child: KeyPath = (*path, key_node.value)
            if key_node.value in content:
                first = self._document.lines[child]
                self._document.add_problem(child, f"is set twice; the first time on line {first}", line=line)
                continue
            self._document.lines[child] = line
            content[key_node.value] = self.read(value_node, child)
        return content

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        try:
            value = self._loader.construct_object(node)
        except yaml.YAMLError:
            return self._give_up(path, f"the tag {node.tag} is not supported")
        except _CONSTRUCTOR_ERRORS:
            return node.value
        if not isinstance(value, str):
            return value
        return _VARIABLE.sub(lambda match: self._variable(match, path), value)

    def _variable(self, match: re.Match[str], path: KeyPath) -> str:
        name, default = match["name"], match["default"]
        if match[0] == "$${":
            return "${"
        if name is None:
            return self._give_up(
                path, "expected a variable as ${NAME} or ${NAME:-default}; write $${ for a literal ${"
            )
        value = self._variables.get(name)
        if value:
            self._document.variables.setdefault(path, []).append(name)
        elif value is None and default is None:
            hint = f"set it, or give a default as ${{{name}:-default}}"
            return self._give_up(path, f"the variable {name} is not set; {hint}")
        return value or default or ""

    def _give_up(self, path: KeyPath, text: str) -> str:
        if path not in self._document.unreadable:
            self._document.add_problem(path, text)
            self._document.unreadable.add(path)
        return ""


def _reason(error: yaml.MarkedYAMLError) -> str:
    """Return the parser's reason only: its full message quotes a line of the file, which may contain a secret."""
    if "'\\t'" in (error.problem or ""):
        return "a line begins with a tab; use spaces"
    return " ".join(part for part in (error.context, error.problem) if part)
