"""Searches a folder for names and contents, in a separate process that is started by path with `python -I`.

A regular expression may never end, cannot be interrupted and holds the interpreter's lock, but a process can be killed.
It starts fast because it imports only the standard library.

Arguments: a descriptor of the folder, and the query as JSON. Output: a JSON object per line, `done` the last.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import resource
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any

MAX_FILE_BYTES = 5_000_000
MAX_MEMORY_BYTES = 1_000_000_000
MAX_DEPTH = 50
SNIPPET_CHARS = 200
_NOT_SEARCHED = {".git"}
_HIDDEN = "[redacted]"
_KEY_BLOCK = re.compile(
    r"(-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)"
    r"((?:[^-]++|-(?!----(?:BEGIN|END) ))*+)(?=-----END )"
)
_KEY_DATA = re.compile(r"[A-Za-z0-9+/=]{30}")
_ENCODED = re.compile(
    r"[\s\"'>|+-]{0,20}(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])(?![0-9a-fA-F]+\b)"
    r"[A-Za-z0-9+/]{40,200}={0,2}(?:\\n|[\s\"',;+]){0,20}"
)
"""A line of nothing else: of a key whose beginning or end is in another file."""
_WORD = 300
"""Characters by which a snippet may grow at either end to hold whole words: half a key does not look like one."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def main() -> None:
    folder, query = int(sys.argv[1]), json.loads(sys.argv[2])
    with contextlib.suppress(ValueError, OSError):
        # Not every system lets a process bound itself; the time limit holds in any case.
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        search(folder, **query)
    except re.error as exc:
        say(error=f"the pattern is not a valid regular expression: {exc}")
    except (OverflowError, MemoryError, RecursionError):
        say(error="the pattern is too large")


def search(folder: int, *, pattern: str, glob: str, ignore_case: bool, limit: int) -> None:
    expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0) if pattern else None
    found = too_large = 0
    for path, parent, name in files(folder):
        if glob and not fnmatch.fnmatchcase(path if "/" in glob else name, glob):
            continue
        hits: Iterable[str] = [path]
        if expression is not None:
            data = read(parent, name)
            too_large += data is None
            hits = matching_lines(path, data or b"", expression)
        for hit in hits:
            if found == limit:
                say(done=True, more=True, too_large=too_large)
                return
            say(hit=hit)
            found += 1
    say(done=True, more=False, too_large=too_large)


def files(top: int) -> Iterator[tuple[str, int, str]]:
    """Yield the path of every regular file, a descriptor of its folder, and its name. Links are not followed."""
    for folder, folders, names, descriptor in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        inner = folder.removeprefix(".").removeprefix("/")
        deep = inner.count("/") >= MAX_DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if name not in _NOT_SEARCHED)
        for name in sorted(names):
            with contextlib.suppress(OSError):
                if stat.S_ISREG(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    yield os.path.join(inner, name), descriptor, name  # noqa: PTH118 - only a label


def read(folder: int, name: str) -> bytes | None:
    """Return the file's bytes, nothing for a binary or vanished file, None if it is too large."""
    try:
        with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return b""
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return b""
    if len(data) > MAX_FILE_BYTES:
        return None
    return b"" if b"\0" in data[:8_192] else data


def matching_lines(path: str, data: bytes, expression: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(without_keys(data.decode(errors="replace")).split("\n"), start=1):
        if match := expression.search(line):
            text = _HIDDEN if _ENCODED.fullmatch(line) else snippet(line, match.start())
            yield f"{path}:{number}: {text}"


def without_keys(text: str) -> str:
    """Redact private keys, which only the whole file shows, before the pattern could reveal them by matching."""
    if "PRIVATE KEY" not in text:
        return text
    return _KEY_BLOCK.sub(_without_data, text)


def _without_data(block: re.Match[str]) -> str:
    if not _KEY_DATA.search(block[2]):
        return block[0]
    return block[1] + "\n".join(_HIDDEN if line.strip() else line for line in block[2].split("\n"))


def snippet(line: str, position: int) -> str:
    if len(line) <= SNIPPET_CHARS:
        return line
    start = max(0, position - SNIPPET_CHARS // 4)
    end = min(len(line), start + SNIPPET_CHARS)
    start -= rest_of_word(line[max(0, start - _WORD) : start][::-1])
    end += rest_of_word(line[end : end + _WORD])
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def rest_of_word(text: str) -> int:
    """Return the length of the rest of the word; 0 if it has no end."""
    length = len(text.partition(" ")[0])
    return length if length < _WORD else 0


def say(**message: Any) -> None:
    # At once: what was found before the time ran out is still worth having.
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
