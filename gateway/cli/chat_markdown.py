"""Renders Markdown answers in the terminal, block by block while they arrive."""

from __future__ import annotations

from collections.abc import Iterable

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.syntax import Syntax

# HTML and link definitions are shown as text, so that nothing the model writes disappears.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")

_CONTINUABLE = {"bullet_list_open", "ordered_list_open", "code_block"}
"""Blocks that a blank line does not end."""


def split_finished(text: str) -> tuple[str, str]:
    """Split off the blocks that later text cannot change, so that they can be printed."""
    lines = text[: text.rfind("\n") + 1].splitlines(keepends=True)
    blocks = [token for token in _PARSER.parse("".join(lines)) if token.level == 0 and token.map]
    if not blocks:
        return "", text
    begin, end = blocks[-1].map or (0, 0)
    has_blank_line_after = end < len(lines)
    closed = has_blank_line_after and blocks[-1].type not in _CONTINUABLE
    finished = "".join(lines if closed else lines[:begin])
    return finished, text[len(finished) :]


class Answer:
    """Markdown without padding, so that it can be copied and survives a narrower window."""

    def __init__(self, text: str) -> None:
        self._markdown = _PlainMarkdown(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [_trimmed(line) for line in console.render_lines(self._markdown, options, pad=False)]
        while lines and not lines[0]:
            lines.pop(0)
        while lines and not lines[-1]:
            lines.pop()
        for line in lines:
            yield from line
            yield Segment.line()


class _LeftHeading(Heading):
    LEVEL_ALIGN = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _IndentedCode(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = self.text.plain.rstrip()
        yield Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 2))


class _PlainMarkdown(Markdown):
    """Markdown with the line breaks of the model, visible URLs and nothing centred."""

    elements = Markdown.elements | {
        "heading_open": _LeftHeading,
        "fence": _IndentedCode,
        "code_block": _IndentedCode,
    }

    def __init__(self, text: str) -> None:
        # The colours of the terminal fit its background.
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)
        self.parsed = _PARSER.parse(text)
        _keep_line_breaks(self.parsed)


def _keep_line_breaks(tokens: Iterable[Token]) -> None:
    for token in tokens:
        if token.type == "softbreak":
            token.type = "hardbreak"
        _keep_line_breaks(token.children or ())


def _trimmed(line: list[Segment]) -> list[Segment]:
    """Remove the spaces that pad a line to the width of the window."""
    while line and not line[-1].text.strip():
        line.pop()
    if line:
        line[-1] = Segment(line[-1].text.rstrip(), line[-1].style, line[-1].control)
    return line
