"""Private keys in armour, over many lines or on one with `\\n` in it: whole ones, and pieces of one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agent.redaction.rules import Rule, Span, shape

_KIND = r"(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?"
_BREAK = r"[ \t]{0,20}(?:\r?\n|(?:\\r)?\\n)"
_MARGIN = r"[ \t]{0,20}(?:[^\s:]{0,200}:\d+:|\d{1,6}(?=[ \t])|[>|+-])?[ \t]{0,20}"
"""Prefixes that `grep`, `cat -n` or a diff put before a line."""
_DATA = r"(?:[A-Za-z0-9+/=]{1,200}|[A-Za-z-]{1,40}: [^\n\\]{1,200})?(?=[ \t]{0,20}(?:\r?\n|\\|[\"'`]|\Z))"
_BLOCK = re.compile(
    rf"-----BEGIN {_KIND}-----(?P<body>(?:{_BREAK}{_MARGIN}{_DATA})*+)(?P<end>{_BREAK}{_MARGIN}-----END {_KIND}-----)?"
)
_END = re.compile(rf"-----END {_KIND}-----")
_LINE = re.compile(rf"{_MARGIN}[A-Za-z0-9+/=]{{1,200}}[ \t]{{0,20}}\r?")
_ENOUGH = re.compile(r"[A-Za-z0-9+/=]{30}")
"""Of a body without an end: what a sentence about keys does not have."""


def _find(text: str) -> Iterator[Span]:
    done = 0
    for match in _BLOCK.finditer(text):
        yield from _rests(text, done, match.start())
        if match["body"].strip() and (match["end"] or _ENOUGH.search(match["body"])):
            yield match.span("body")
        done = match.end()
    yield from _rests(text, done, len(text))


def _rests(text: str, begin: int, end: int) -> Iterator[Span]:
    """Between these, the lines above an end whose beginning is not here."""
    for match in _END.finditer(text, begin, end):
        last = first = text.rfind("\n", begin, match.start())
        while first > begin:
            line = text.rfind("\n", begin, first) + 1 or begin
            if not _LINE.fullmatch(text, line, first):
                break
            first = line - 1
        if first < last:
            yield max(begin, first + 1), last
        begin = match.end()


RULES = (
    Rule("private key", _find, ("-----begin", "-----end")),
    # `-----BEGIN ` in base64, as in the files of Kubernetes; a certificate would go on with a D.
    *shape("private key in base64", "LS0tLS1CRUdJTiB", tail="(?!D)[A-Za-z0-9+/=]{30,}"),
)
