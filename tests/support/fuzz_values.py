"""Invalid input: any JSON, and valid documents with a few errors."""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_EFFORT = float(os.environ.get("HERMES_FUZZ", "1"))
"""`make fuzz` tries much more than the suite has time for."""


def tries(count: int) -> settings:
    return settings(
        max_examples=round(count * _EFFORT), deadline=None, suppress_health_check=list(HealthCheck)
    )


texts = st.one_of(
    st.text(max_size=12),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Lu", "So"]), max_size=8),
    st.sampled_from(["", " ", "\0", "0", "-1", "1e9", "null", "\ud83d", "9" * 400, "../x", "🇩🇪", "a" * 5000]),
)
_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**31, 2**53 + 1, 2**64, -(2**63), 10**400]),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
anything: st.SearchStrategy[Any] = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def spoilt(draw: st.DrawFn, document: Any, *, most: int = 3) -> Any:
    """The document with some of its values replaced, left out, repeated or put elsewhere."""
    document = deepcopy(document)
    for _ in range(draw(st.integers(0, most))):
        holder, key = draw(st.sampled_from(list(_places(document))))
        match draw(st.sampled_from(["replace", "replace", "remove", "swap", "repeat"])):
            case "replace":
                holder[key] = draw(anything)
            case "remove":
                del holder[key]
            case "swap":
                other, other_key = draw(st.sampled_from(list(_places(document))))
                holder[key] = deepcopy(other[other_key])
            case "repeat":
                holder[key] = [holder[key]] * draw(st.integers(0, 3))
        if not any(True for _ in _places(document)):
            break
    return document


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Everything in it that could be something else."""
    keys: Any = node.keys() if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    found = []
    for key in keys:
        found.append((node, key))
        found += _places(node[key])
    return found
