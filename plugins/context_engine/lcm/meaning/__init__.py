"""Searching by meaning, where the extra `semantic` is installed: "boat" finds what was said about sailing.

The vectors come from the package `wordllama`, which carries them; none of its code is run, and nothing is ever fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import structlog

if TYPE_CHECKING:
    from .model import Model

log = structlog.get_logger(__name__)

Wanted = Literal["auto", "on", "off"]
WANTED: tuple[Wanted, ...] = get_args(Wanted)
INSTALL = "pip install -e '.[semantic]'"
_NEEDED = ("numpy", "tokenizers")
_CARRIER = "wordllama"


@dataclass(frozen=True, slots=True)
class Meaning:
    """Whether messages are searched by meaning, too."""

    wanted: Wanted = "off"

    def model(self) -> Model | None:
        """Loaded when it is first asked for. None: words have to do."""
        return None if self.wanted == "off" else _loaded()

    @property
    def why_not(self) -> str:
        """Empty where there is a model."""
        if self.wanted == "off":
            return "`context.options.semantic` is off"
        if not is_installed():
            return f"for meaning, too: {INSTALL}"
        return "" if self.model() else "what is installed for meaning cannot be read, see the log"


@cache
def is_installed() -> bool:
    return _folder() is not None and all(find_spec(name) for name in _NEEDED)


@cache
def _loaded() -> Model | None:
    folder = _folder()
    if folder is None or not is_installed():
        return None
    from .model import Model  # noqa: PLC0415 - numpy is heavy, and may not be there

    try:
        return Model(folder)
    except Exception:  # whatever is wrong with files that others made, words can still be searched
        log.warning("lcm.no_meaning", folder=str(folder), exc_info=True)
        return None


def _folder() -> Path | None:
    """Where the package lies. It is found without being run."""
    spec = find_spec(_CARRIER)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None
