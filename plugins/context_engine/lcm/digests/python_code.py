"""What a Python file defines, by its own grammar, where it is whole and of ordinary size; `code.py` has the rest."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_PARSED = 200_000
"""Characters. A syntax tree takes some hundred times the memory of its text."""
_ESCAPE = re.compile(r"\\N\{[^}\n]{0,100}\}|\\[^\n]")
_ODD_NUMBER = re.compile(r"(?<![\w.])\.?\d[\w.]{0,60}?(?:and|else|for|if|in|is|not|or)\b")
_CANNOT_BE_READ = (SyntaxError, ValueError, RecursionError, MemoryError)
_DEEPEST = 4

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Definition:
    line: int
    """Counted from 0."""
    depth: int


@dataclass(frozen=True, slots=True)
class Module:
    definitions: list[Definition]
    imports: list[str]
    constants: list[str]


def parsed(text: str) -> Module | None:
    """None where it cannot be read as it is."""
    if len(text) > MOST_PARSED or _ODD_NUMBER.search(text):
        return None
    try:
        # Escapes that Python does not know, and numbers with a word right behind them, would be warned about, and
        # turning warnings off turns them off for all threads. No definition depends on an escape.
        tree = ast.parse(_ESCAPE.sub(lambda escape: "_" * len(escape[0]), text))
        return Module(list(_definitions(tree.body, 0)), _imports(tree), _constants(tree))
    except _CANNOT_BE_READ:
        return None


def _definitions(body: list[ast.stmt], depth: int) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, _Definition):
            yield Definition(node.lineno - 1, depth)
            if isinstance(node, ast.ClassDef) and depth < _DEEPEST:
                yield from _definitions(node.body, depth + 1)
        elif isinstance(node, ast.If | ast.Try) and depth < _DEEPEST:
            # What is defined under a condition, or if an import fails.
            yield from _definitions(node.body, depth)
            yield from _definitions(node.orelse, depth)


def _imports(tree: ast.Module) -> list[str]:
    names: dict[str, None] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            names.update((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names["." * node.level + (node.module or "")] = None
    return list(names)


def _constants(tree: ast.Module) -> list[str]:
    names: dict[str, None] = {}
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        names.update((target.id, None) for target in targets if isinstance(target, ast.Name))
    return list(names)
