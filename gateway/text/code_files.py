"""Finds long code blocks in an answer, to be sent as files beside it."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from gateway.text.fences import markdown_blocks

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
_NAME_ATTRIBUTE = re.compile(r"""\b(?:title|file|filename|name|path)\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))""")
# Letters, digits and a few signs: no hidden files, no direction marks.
_SAFE_NAME = re.compile(r"\w[\w.+@-]{0,59}\.[A-Za-z0-9]{1,10}|Dockerfile|Makefile")

_MAX_CHARACTERS = 200_000
"""Longer texts are not searched: this runs on the event loop, and 200,000 characters of fences take 0.1 seconds."""


@dataclass(frozen=True, slots=True)
class CodeFile:
    name: str
    content: str


def find_long_code(markdown: str, *, longer_than: int) -> list[CodeFile]:
    """Return the code blocks with more than `longer_than` characters, in order, each with a unique name."""
    files: dict[str, CodeFile] = {}
    if not longer_than < len(markdown) <= _MAX_CHARACTERS:
        return []
    for block in markdown_blocks(markdown):
        if block.fence and len(block.code) > longer_than:
            default = f"code-{len(files) + 1}.{_extension(block.fence.language)}"
            name = _unique_name(_name_from_info(block.fence.info) or default, files)
            files[name] = CodeFile(name, block.code)
    return list(files.values())


def _extension(language: str) -> str:
    return _EXTENSIONS.get(re.split(r"[:,{]", language.lower(), maxsplit=1)[0], "txt")


def _name_from_info(info: str) -> str | None:
    """Return the first safe file name in the info string, without its folders."""
    for candidate in _candidate_names(info):
        base = re.split(r"[/\\]", candidate)[-1]
        if _SAFE_NAME.fullmatch(base) and ".." not in base:
            return base
    return None


def _candidate_names(info: str) -> Iterator[str]:
    """Yield names written as `title="app.py"`, as `python:app.py`, or in place of the language."""
    for found in _NAME_ATTRIBUTE.finditer(info):
        yield found[1] or found[2] or found[3] or ""
    words = info.split()
    if words:
        yield words[0].rpartition(":")[2]


def _unique_name(name: str, taken: Container[str]) -> str:
    stem, dot, extension = name.rpartition(".")
    number = 1
    candidate = name
    while candidate in taken:
        number += 1
        candidate = f"{stem}-{number}{dot}{extension}" if dot else f"{name}-{number}"
    return candidate
