"""The template environment and its filters for times, durations and numbers."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

from gateway.limits import format_usd

_FOLDER = Path(__file__).parent / "templates"

SPLIT_REASONS = {
    None: "First session",
    "compression": "Compacted: the window was filling up",
    "hygiene": "Compacted by session hygiene: the window was nearly full",
    "command": "Compacted on request",
    "reset": "Reset: started without the earlier messages",
    "branch": "Branched or rewound (/branch, /retry, /undo, a restore)",
}


def templates(*, model_line: str = "", has_token: bool = False) -> Environment:
    """Read all templates, so do not call it on the event loop. `has_token` shows the sign-out button."""
    files = (file for file in _FOLDER.rglob("*") if file.is_file())
    environment = Environment(
        loader=DictLoader({file.relative_to(_FOLDER).as_posix(): file.read_text() for file in files}),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ago=_ago,
        clock=_clock,
        iso=_iso,
        took=_took,
        with_code=_with_code,
        count=_count,
        short=short_count,
        dollars=format_usd,
        local_time=local_time,
        reason=SPLIT_REASONS.__getitem__,
    )
    environment.globals.update(model_line=model_line, has_token=has_token)
    return environment


def _ago(stamp: float) -> str:
    """Format a rough age: `5 min`, `3 h`, `2 d`, then the date."""
    minutes = int(max(0.0, time.time() - stamp) // 60)
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h"
    if minutes < 7 * 24 * 60:
        return f"{minutes // (24 * 60)} d"
    return datetime.fromtimestamp(stamp).astimezone().strftime("%d %b %Y").lstrip("0")


def local_time(stamp: float) -> str:
    """Format the date and time, as in `3 Nov 2026, 14:05`."""
    return datetime.fromtimestamp(stamp).astimezone().strftime("%d %b %Y, %H:%M").lstrip("0")


def _clock(stamp: float) -> str:
    """Format the local time, with the date if it is not today."""
    then = datetime.fromtimestamp(stamp).astimezone()
    is_today = then.date() == datetime.now().astimezone().date()
    return f"{then:%H:%M}" if is_today else f"{then:%Y-%m-%d %H:%M}"


def _iso(stamp: float) -> str:
    return datetime.fromtimestamp(stamp, UTC).isoformat(timespec="seconds")


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.05 else "<0.1 s"


def _with_code(sentence: str) -> Markup:
    """Render backticks as code and double asterisks as bold in a sentence of Hermes."""
    return Markup("").join(_mark_up(piece) for piece in re.split(r"(`[^`]+`|\*\*.+?\*\*)", sentence))


def _mark_up(piece: str) -> Markup:
    if len(piece) > 2 and piece[0] == piece[-1] == "`":
        return Markup("<code>{}</code>").format(piece[1:-1])
    if len(piece) > 4 and piece.startswith("**") and piece.endswith("**"):
        return Markup("<strong>{}</strong>").format(piece[2:-2])
    return escape(piece.replace("\\*", "*"))


def short_count(number: float) -> str:
    """Format a large number as `4.79 M`, a smaller one as `47,900`."""
    for limit, unit in ((1e9, "G"), (1e6, "M")):
        if number >= limit:
            return f"{number / limit:.3g} {unit}"
    return _count(number)


def _count(number: float) -> str:
    return f"{number:,.0f}"
