"""Any `hermes.yaml` is either read or explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.config.loader import SHIPPED, load
from gateway.errors import ConfigError
from tests.support.fuzz_values import anything, spoilt, texts, tries

SETTINGS = yaml.safe_load(SHIPPED.read_text())

_tags = st.sampled_from(
    ["!!int", "!!float", "!!bool", "!!timestamp", "!!binary", "!!null", "!!set", "!!map", "!mine"]
)
_scalars = st.one_of(
    texts,
    st.sampled_from(
        ["''", "0001-01-01T00:00:00+23:00", "2024-99-99", "1_000", "0o9", "1:60:60", ".inf", "~"]
    ),
)
_tagged = st.tuples(_tags, _scalars).map(" ".join)
_lines = st.one_of(
    _tagged.map("model: {}".format),
    _tagged.map("gateway:\n  drain_seconds: {}".format),
    texts.map("model:\n  name: ${{{}}}".format),
    texts.map("{}: 1".format),
    texts,
    st.sampled_from(
        ["a: &a [*a]", "<<: {a: 1}", "? [x]: y", "--- a\n--- b", "%YAML 9.9\n---", "a: *b", "\ta: 1"]
    ),
)


def _is_understood(path: Path, text: str) -> bool:
    path.write_text(text, "utf-8", "surrogatepass", "")
    try:
        load(path)
    except ConfigError as error:
        assert str(error).strip()
        return False
    return True


@given(text=st.lists(_lines, max_size=4).map("\n".join))
@example("model: !!int ''")
@example("model: !!bool perhaps")
@example("model: !!timestamp never")
@example("model: 0001-01-01T00:00:00+23:00")
@tries(150)
def test_any_text(tmp_path: Path, text: str) -> None:
    """No traceback, however odd the YAML."""
    _is_understood(tmp_path / "hermes.yaml", text)


@given(tree=st.one_of(anything, spoilt(SETTINGS, most=4)))
@example(SETTINGS)
@tries(40)
def test_any_tree(tmp_path: Path, tree: Any) -> None:
    """The shipped file with some of it replaced, left out, repeated or elsewhere."""
    text = yaml.safe_dump(tree, allow_unicode=True)
    is_understood = _is_understood(tmp_path / "hermes.yaml", text)
    assert is_understood or tree != SETTINGS
