"""Very long code, offered as files beside the answer."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from gateway.text.fences import blocks

_EXTENSIONS = {
    "bash": "sh",
    "bat": "bat",
    "c": "c",
    "c#": "cs",
    "c++": "cpp",
    "cpp": "cpp",
    "cs": "cs",
    "csharp": "cs",
    "css": "css",
    "csv": "csv",
    "dart": "dart",
    "diff": "diff",
    "go": "go",
    "golang": "go",
    "graphql": "graphql",
    "haskell": "hs",
    "html": "html",
    "ini": "ini",
    "java": "java",
    "javascript": "js",
    "js": "js",
    "json": "json",
    "jsonc": "json",
    "jsx": "jsx",
    "kotlin": "kt",
    "latex": "tex",
    "lua": "lua",
    "makefile": "mk",
    "markdown": "md",
    "md": "md",
    "mermaid": "mmd",
    "objective-c": "m",
    "patch": "diff",
    "perl": "pl",
    "php": "php",
    "powershell": "ps1",
    "ps1": "ps1",
    "py": "py",
    "python": "py",
    "python3": "py",
    "r": "r",
    "rb": "rb",
    "rs": "rs",
    "ruby": "rb",
    "rust": "rs",
    "scala": "scala",
    "scss": "scss",
    "sh": "sh",
    "shell": "sh",
    "sql": "sql",
    "svg": "svg",
    "swift": "swift",
    "tex": "tex",
    "toml": "toml",
    "ts": "ts",
    "tsx": "tsx",
    "typescript": "ts",
    "vue": "vue",
    "xml": "xml",
    "yaml": "yaml",
    "yml": "yaml",
    "zsh": "sh",
}
_NAMED = re.compile(r"""\b(?:title|file|filename|name|path)\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))""")
# Letters, digits and a few signs: no hidden file, nothing that turns the direction of writing.
_SAFE_NAME = re.compile(r"\w[\w.+@-]{0,59}\.[A-Za-z0-9]{1,10}|Dockerfile|Makefile")

_MAX_CHARACTERS = 200_000
"""Longer texts are not searched: this runs on the event loop, and 200,000 characters of fences take 0.1 seconds."""


@dataclass(frozen=True, slots=True)
class CodeFile:
    name: str
    content: str


def long_code_files(markdown: str, *, longer_than: int) -> list[CodeFile]:
    """The code blocks with more characters than that, in order, each under its own name."""
    files: dict[str, CodeFile] = {}
    if not longer_than < len(markdown) <= _MAX_CHARACTERS:
        return []
    for block in blocks(markdown):
        if block.fence and len(block.code) > longer_than:
            name = (
                _given_name(block.fence.info) or f"code-{len(files) + 1}.{_extension(block.fence.language)}"
            )
            name = _not_yet_taken(name, files)
            files[name] = CodeFile(name, block.code)
    return list(files.values())


def _extension(language: str) -> str:
    return _EXTENSIONS.get(re.split(r"[:,{]", language.lower(), maxsplit=1)[0], "txt")


def _given_name(info: str) -> str | None:
    """The first name in the info string that is a plain file name once its folders are taken off."""
    for given in _given_names(info):
        base = re.split(r"[/\\]", given)[-1]
        if _SAFE_NAME.fullmatch(base) and ".." not in base:
            return base
    return None


def _given_names(info: str) -> Iterator[str]:
    """As `title="app.py"`, as `python:app.py`, or in place of the language."""
    for found in _NAMED.finditer(info):
        yield found[1] or found[2] or found[3] or ""
    words = info.split()
    if words:
        yield words[0].rpartition(":")[2]


def _not_yet_taken(name: str, taken: Container[str]) -> str:
    stem, dot, extension = name.rpartition(".")
    number = 1
    candidate = name
    while candidate in taken:
        number += 1
        candidate = f"{stem}-{number}{dot}{extension}" if dot else f"{name}-{number}"
    return candidate
