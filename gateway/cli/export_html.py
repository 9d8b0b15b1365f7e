"""The HTML format of exported conversations: one page without scripts, images or network access.

All text is escaped; answers of the model go through the Markdown renderer of the chat page, which lets no markup
through. A content security policy forbids the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from agent.store import Overview
from gateway.cli.export_format import ConversationExport, title_of
from gateway.cli.output import local_time
from gateway.cli.sessions_format import SessionBreak, Spoken, entries
from gateway.platforms.web.markdown import render_markdown
from gateway.text.display import pluralize

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
    who = "model" if entry.by_model else "person"
    body = render_markdown(entry.text) if entry.by_model else entry.text
    said = Markup("<div>{}</div>\n").format(body) if entry.text else Markup("")
    items = Markup("").join(Markup("<li>{}</li>").format(call) for call in entry.calls)
    calls = Markup('<ul class="calls">{}</ul>\n').format(items) if entry.calls else Markup("")
    return Markup(
        '<article class="{}">\n<header><strong>{}</strong> <time>{}</time></header>\n{}{}</article>\n'
    ).format(who, entry.who, entry.when, said, calls)
