"""The time of a refusal does not reveal how much of a secret was guessed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import gateway.access
import gateway.platforms

FILES = [*Path(gateway.platforms.__file__ or "").parent.rglob("*.py"), Path(gateway.access.__file__)]
"""Code that handles what strangers send."""

_SECRET = re.compile(r"token|secret|password|cookie|signature|digest|bearer")
"""In lower case: constants such as the number of an error are none."""


def _names(part: ast.expr) -> Iterator[str]:
    for node in ast.walk(part):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def comparisons(source: str) -> list[str]:
    """Where something that is called a secret is compared letter by letter, up to the first that differs."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
        and any(_SECRET.search(name) for part in (node.left, *node.comparators) for name in _names(part))
    ]


def test_secrets_are_compared_in_constant_time() -> None:
    """By `hmac.compare_digest` and by nothing else."""
    found = {path.name: comparisons(path.read_text()) for path in FILES}
    assert len(found) > 30
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_such_a_comparison_would_be_found() -> None:
    """However it is written."""
    assert comparisons("if given == self._token: pass") == ["given == self._token"]
    assert comparisons("ok = settings.webhook.secret.get_secret_value() != x") != []
    assert comparisons("hmac.compare_digest(given, token)") == []
