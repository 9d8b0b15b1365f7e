"""Formats of exported conversations: JSONL, Markdown and HTML, produced piece by piece."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from markupsafe import Markup

from agent.messages import Message
from agent.redaction import redact
from agent.store import Overview, Session
from gateway.cli.output import local_time, one_line
from gateway.cli.sessions_format import SessionBreak, Spoken, about, entries
from gateway.text.display import pluralize


@dataclass(frozen=True, slots=True)
class ConversationExport:
    """A conversation to export, with its secrets redacted."""

    overview: Overview
    sessions: Sequence[Session]
    messages: Iterable[Message]

    @property
    def title(self) -> str:
        return title_of(self.overview)

    @property
    def about(self) -> str:
        return about(self.overview.conversation, self.overview.messages, self.overview.sessions)


class Format(Protocol):
    suffix: str
    every_session: bool
    """Whether the format includes abandoned branches."""

    def begin(self, listed: Sequence[Overview], *, apart: bool) -> str:
        """Return the text before the conversations. `apart`: each conversation has its own file."""
        ...

    def conversation(self, export: ConversationExport) -> Iterator[str]: ...

    def end(self) -> str: ...


class Jsonl:
    """One JSON line per message with all its fields, after an optional line for the conversation."""

    suffix = ".jsonl"

    def __init__(self, *, with_conversations: bool = True) -> None:
        self._with_conversations = with_conversations
        self.every_session = with_conversations

    def begin(self, listed: Sequence[Overview], *, apart: bool) -> str:
        return ""

    def conversation(self, export: ConversationExport) -> Iterator[str]:
        if self._with_conversations:
            sessions = [asdict(session) for session in export.sessions]
            yield _line({"conversation": asdict(export.overview.conversation), "sessions": sessions})
        for message in export.messages:
            yield _line(asdict(message))

    def end(self) -> str:
        return ""


class Markdown:
    suffix = ".md"
    every_session = False

    def __init__(self) -> None:
        self._between = ""

    def begin(self, listed: Sequence[Overview], *, apart: bool) -> str:
        return ""

    def conversation(self, export: ConversationExport) -> Iterator[str]:
        yield f"{self._between}# {export.title}\n\n{export.about}\n"
        self._between = "\n"
        for entry in entries(export.messages, export.sessions):
            if isinstance(entry, SessionBreak):
                yield f"\n---\n\n*{entry.sentence}*\n"
                continue
            yield f"\n**{entry.who}** · {entry.when}\n"
            if entry.text:
                yield f"\n{entry.text}\n"
            if entry.calls:
                yield "\n" + "".join(f"- `{call}`\n" for call in entry.calls)

    def end(self) -> str:
        return ""


def title_of(overview: Overview) -> str:
    return one_line(redact(overview.title), 80) or "An empty conversation"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


_STYLE = """\
:root { color-scheme: light dark; --ink: #1c2128; --paper: #fff; --soft: #57606a; --line: #d0d7de; --mine: #eef4fb;
  --code: #f3f4f6; --link: #0b57d0 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --paper: #14171c; --soft: #9aa4b0; --line: #333a44;
  --mine: #1d2733; --code: #1b2027; --link: #8ab4f8 } }
body { margin: 0 auto; max-width: 46rem; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, sans-serif }
a { color: var(--link) } h1 { font-size: 1.5rem } h2 { font-size: 1.25rem; margin: 3rem 0 .25rem }
nav ol { padding-left: 1.5rem } .about, time, .break { color: var(--soft); font-size: .875rem; overflow-wrap: anywhere }
h1, h2, li { overflow-wrap: anywhere }
article { margin: 1.25rem 0; overflow-wrap: anywhere } article header { margin-bottom: .25rem }
article.person > div { background: var(--mine); border-radius: .5rem; padding: .6rem .8rem; white-space: pre-wrap }
ul.calls { list-style: none; padding: 0; color: var(--soft); font: .8125rem/1.5 ui-monospace, monospace }
.break { border-top: 1px solid var(--line); margin-top: 2rem; padding-top: .5rem }
pre, code { background: var(--code); border-radius: .25rem; font: .875em/1.5 ui-monospace, monospace }
code { padding: .1em .3em } pre { overflow-x: auto; padding: .75rem } pre code { padding: 0 }
.copy { display: none } .code-bar { color: var(--soft); font-size: .75rem } .table { overflow-x: auto }
table { border-collapse: collapse } td, th { border: 1px solid var(--line); padding: .25rem .5rem; text-align: left }
blockquote { border-left: 3px solid var(--line); color: var(--soft); margin-left: 0; padding-left: 1rem }
@media print { body { max-width: none } nav { display: none } }"""

_HEAD = Markup(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
"""
)


class Html:
    """One page without scripts, images or network access.

    All text is escaped. Answers of the model go through the Markdown renderer of the chat page, which lets no markup
    through; a content security policy forbids the rest.
    """

    suffix = ".html"
    every_session = False

    def __init__(self) -> None:
        self._is_alone = False

    def begin(self, listed: Sequence[Overview], *, apart: bool) -> str:
        self._is_alone = len(listed) == 1
        title = title_of(listed[0]) if self._is_alone else f"{len(listed)} conversations"
        head = _HEAD.format(title=title, style=Markup(_STYLE))  # noqa: S704  our own text
        return str(head) if self._is_alone else str(head + _contents(listed, apart=apart))

    def conversation(self, export: ConversationExport) -> Iterator[str]:
        if not self._is_alone:
            heading = Markup('<h2 id="{}">{}</h2>\n')
            yield str(heading.format(export.overview.conversation.id, export.title))
        yield str(Markup('<p class="about">{}</p>\n').format(export.about))
        for entry in entries(export.messages, export.sessions):
            if isinstance(entry, SessionBreak):
                yield str(Markup('<p class="break">{}</p>\n').format(entry.sentence))
            else:
                yield str(_spoken(entry))

    def end(self) -> str:
        return "</main>\n</body>\n</html>\n"


def _contents(listed: Sequence[Overview], *, apart: bool) -> Markup:
    lines = Markup("").join(
        Markup('<li><a href="{}">{}</a> <span class="about">{}, {}</span></li>\n').format(
            f"{each.conversation.id}.html" if apart else f"#{each.conversation.id}",
            title_of(each),
            local_time(each.updated_at),
            pluralize(each.messages, "message"),
        )
        for each in listed
    )
    return Markup('<nav aria-label="Conversations">\n<ol>\n{}</ol>\n</nav>\n').format(lines)


def _spoken(entry: Spoken) -> Markup:
    from gateway.platforms.web.markdown import render_markdown  # noqa: PLC0415 - only for HTML

    who = "model" if entry.by_model else "person"
    body = render_markdown(entry.text) if entry.by_model else entry.text
    said = Markup("<div>{}</div>\n").format(body) if entry.text else Markup("")
    items = Markup("").join(Markup("<li>{}</li>").format(call) for call in entry.calls)
    calls = Markup('<ul class="calls">{}</ul>\n').format(items) if entry.calls else Markup("")
    return Markup(
        '<article class="{}">\n<header><strong>{}</strong> <time>{}</time></header>\n{}{}</article>\n'
    ).format(who, entry.who, entry.when, said, calls)
