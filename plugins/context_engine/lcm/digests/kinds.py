"""Which reader a text gets: the first that knows it. Plain text is what nobody else knows."""

from __future__ import annotations

from collections.abc import Callable

from .blobs import read_blob
from .code import read_code
from .diffs import read_diff
from .json_shape import read_json
from .languages import LANGUAGES
from .listings import read_listing
from .logs import read_log
from .markup import read_markup
from .prose import plain_sections, read_prose
from .room import Findings
from .source import Source
from .tables import read_table

Reader = Callable[[Source], Findings | None]

_READERS: tuple[Reader, ...] = (
    read_blob,
    read_diff,
    read_json,
    read_markup,
    # Before tables: many logs have a comma in each of their times.
    read_log,
    read_listing,
    read_table,
    read_code,
)
_CODE = frozenset(extension for language in LANGUAGES for extension in language.extensions)
_HINTS: tuple[tuple[frozenset[str], Reader], ...] = (
    (frozenset({"md", "markdown", "mdx", "rst", "txt"}), read_prose),
    (frozenset({"csv", "tsv", "tab", "psv"}), read_table),
    (_CODE, read_code),
)
"""A hint is a name that may only be near: its reader is asked earlier, and may still decline."""


def read(source: Source) -> Findings:
    """Raises what a reader raises: see `digest`, which does not."""
    for reader in _in_order(source):
        if (findings := reader(source)) is not None:
            return findings
    return read_prose(source)


def plainly(source: Source) -> Findings:
    return Findings("text", "", plain_sections(source))


def _in_order(source: Source) -> tuple[Reader, ...]:
    hinted = next((reader for names, reader in _HINTS if names & set(source.extensions[:1])), None)
    if hinted is None:
        return _READERS
    if hinted is read_prose:
        return (read_blob, read_diff, read_json, read_markup, read_log, read_prose)
    return (read_blob, read_diff, read_json, hinted, *_READERS)
