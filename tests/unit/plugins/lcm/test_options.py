"""Options: defaults, and the sentence about a mistake."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from plugins.context_engine.lcm.engine import LosslessContext
from plugins.context_engine.lcm.options import Options


def test_the_defaults_are_the_documented_ones() -> None:
    """The page shows all of them."""
    assert Options.read({}) == Options.read(None) == Options()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"fan_inn": 4}, "`context.options` has no `fan_inn`. Did you mean `fan_in`?"),
        ({"fan_in": 1}, "`context.options.fan_in` must be a whole number, 2 or more, not 1."),
        ({"fan_in": True}, "a whole number"),
        ({"threshold": 1.0}, "`context.options.threshold` must be a number between 0.05 and 0.95, not 1.0."),
        ({"threshold": "half"}, "not 'half'"),
        ({"recall_hints": "no"}, "`context.options.recall_hints` must be true or false, not 'no'."),
        ({"leaf_chunk_tokens": 0}, "a whole number, 1 or more"),
        ({"semantic": "maybe"}, "`context.options.semantic` must be auto, on or off, not 'maybe'."),
        ({"semantic": 1}, "must be auto, on or off, not 1."),
    ],
)
def test_a_mistake_is_told(given: dict[str, Any], sentence: str) -> None:
    """In a sentence that names the setting."""
    with pytest.raises(ValueError) as refused:
        LosslessContext(100_000, options=given)
    assert sentence in str(refused.value)


def test_the_threshold_follows_the_window() -> None:
    """Also when the model is another one."""
    engine = LosslessContext(100_000, options={"threshold": 0.75})
    assert engine.threshold_tokens == 75_000
    engine.update_model("other", 8_000)
    assert engine.threshold_tokens == 6_000


def test_the_page_shows_them_all() -> None:
    """With their defaults."""
    page = (Path(__file__).parents[4] / "docs" / "lcm.md").read_text(encoding="utf-8")
    (block,) = (each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "options:" in each)
    assert yaml.safe_load(block)["context"]["options"] == asdict(Options())
