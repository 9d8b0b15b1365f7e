"""Finds code blocks in Markdown: their fences, and the long ones that become files beside an answer."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

# Info strings are short; a longer line that begins with backticks is prose.
_MAX_OPENING_LINE = 200

_OPENING = re.compile(
    r"(?P<prefix>[ \t]*(?:(?:>[ \t]*)|(?:(?:[-*+]|\d{1,9}[.)])[ \t]+))*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)"
)
_LIST_MARKER = re.compile(r"[^\s>]")


@dataclass(frozen=True, slots=True)
class Fence:
    """The opening fence of a code block."""

    prefix: str
    """White space, list markers and quote marks before the fence."""

    ticks: str
    """Three or more backticks or tildes."""

    info: str
    """The text after the fence on its line; its first word is the language."""

    @property
    def margin(self) -> str:
        """The prefix of the lines after the first: spaces instead of list markers."""
        return _LIST_MARKER.sub(" ", self.prefix)

    @property
    def language(self) -> str:
        words = self.info.split(maxsplit=1)
        return words[0] if words else ""

    @property
    def closing_line(self) -> str:
        return self.margin + self.ticks

    @property
    def reopening_line(self) -> str:
        return self.closing_line + self.language

    def is_closed_by(self, line: str) -> bool:
        body = line.lstrip(" \t>") if self._is_quoted else line.lstrip(" \t")
        if not body.startswith(self.ticks) or body.rstrip().strip(self.ticks[0]):
            return False
        # A more deeply indented fence is code: an example of Markdown in a docstring, for instance.
        return len(line) - len(body) <= len(self.prefix) + 3

    def is_outside_quote(self, line: str) -> bool:
        """Return whether the line ends the quotation that contains the fence, and the code block with it."""
        return self._is_quoted and not line.lstrip().startswith(">")

    @property
    def _is_quoted(self) -> bool:
        return ">" in self.prefix


def opening_fence(line: str) -> Fence | None:
    """Parse a line outside any code block; return the fence that it opens."""
    found = _OPENING.fullmatch(line) if len(line) <= _MAX_OPENING_LINE else None
    if found is None:
        return None
    fence = Fence(found["prefix"], found["ticks"], found["info"].strip())
    is_inline_code = fence.ticks[0] == "`" and "`" in fence.info
    return None if is_inline_code else fence


@dataclass(slots=True)
class MarkdownBlock:
    """Consecutive lines of prose, or one code block with its fences."""

    fence: Fence | None
    lines: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The text between the fences, without the margin of a list or quotation."""
        assert self.fence
        is_closed = len(self.lines) > 1 and self.fence.is_closed_by(self.lines[-1])
        inner = self.lines[1:-1] if is_closed else self.lines[1:]
        return "".join(_without_margin(line, self.fence.margin) + "\n" for line in inner)


def markdown_blocks(markdown: str) -> Iterator[MarkdownBlock]:
    """Split Markdown into blocks. All their lines, joined by newlines, are the text again."""
    current = MarkdownBlock(None)
    for line in markdown.split("\n"):
        if current.fence and not current.fence.is_outside_quote(line):
            current.lines.append(line)
            if current.fence.is_closed_by(line):
                yield current
                current = MarkdownBlock(None)
            continue
        fence = opening_fence(line)
        if fence or current.fence:
            if current.lines:
                yield current
            current = MarkdownBlock(fence)
        current.lines.append(line)
    if current.lines:
        yield current


def _without_margin(line: str, margin: str) -> str:
    for expected in margin:
        if not line.startswith((expected, " ", "\t")):
            break
        line = line[1:]
    return line


_EXTENSIONS = frozenset({
    "bat", "c", "cpp", "cs", "css", "csv", "dart", "diff", "go", "graphql", "html", "ini", "java", "js", "json",
    "jsx", "lua", "md", "php", "ps1", "py", "r", "rb", "rs", "scala", "scss", "sh", "sql", "svg", "swift", "tex",
    "toml", "ts", "tsx", "vue", "xml", "yaml",
})  # fmt: skip
"""Languages whose name is also their file extension."""

_OTHER_EXTENSIONS = {
    "bash": "sh",
    "c#": "cs",
    "c++": "cpp",
    "csharp": "cs",
    "golang": "go",
    "haskell": "hs",
    "javascript": "js",
    "jsonc": "json",
    "kotlin": "kt",
    "latex": "tex",
    "makefile": "mk",
    "markdown": "md",
    "mermaid": "mmd",
    "objective-c": "m",
    "patch": "diff",
    "perl": "pl",
    "powershell": "ps1",
    "python": "py",
    "python3": "py",
    "ruby": "rb",
    "rust": "rs",
    "shell": "sh",
    "typescript": "ts",
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
    name = re.split(r"[:,{]", language.lower(), maxsplit=1)[0]
    return name if name in _EXTENSIONS else _OTHER_EXTENSIONS.get(name, "txt")


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
