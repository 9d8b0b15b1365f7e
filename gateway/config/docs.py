"""Writes the tables of settings from the schema: `python -m gateway.config.docs`.

They go between two markers: all settings into `docs/configuration.md`, the common ones into the README.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.config.validate import Key, keys, sections

BEGIN, END = "<!-- configuration:begin -->", "<!-- configuration:end -->"

MOST_USED = (
    "model.name",
    "model.base_url",
    "tools.enabled",
    "platforms.web.port",
    "platforms.web.token",
    "platforms.telegram.token",
    "platforms.telegram.allowed_users",
    "limits.daily_usd_per_person",
    "context.engine",
    "logging.format",
)
"""The keys in the table of the README."""


def table(rows: list[Key]) -> str:
    head = ["| Key | Default | Accepts | Takes effect | What it does |", "|---|---|---|---|---|"]
    lines = [
        f"| `{key.name}` | {_format_default(key.default)} | {key.expected} | {_when(key)} | {key.description} |"
        for key in rows
    ]
    return "\n".join([*head, *lines]) + "\n"


def reference() -> str:
    """Return the tables of all settings, section by section."""
    every = list(keys())
    return "\n".join(
        f"## `{name}`\n\n{meaning}\n\n{table([key for key in every if key.name.startswith(f'{name}.')])}"
        for name, meaning in sections()
    )


def short_table() -> str:
    """Return the table of common settings, in the order of MOST_USED."""
    every = {key.name: key for key in keys()}
    lines = [f"| `{name}` | {every[name].description} |" for name in MOST_USED]
    return "\n".join(["| Key | What it does |", "|---|---|", *lines]) + "\n"


def updated(page: str, content: str) -> str:
    """Return the page with `content` between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, "the page has no markers"
    return f"{before}{begin}\n{content}{end}{after}"


def _when(key: Key) -> str:
    return "at once" if key.reload == "live" else "restart"


def _format_default(default: Any) -> str:
    if default is None:
        return "empty"
    if isinstance(default, str) and "\n" in default:
        return "a short text"
    return f"`{json.dumps(default)}`" if not isinstance(default, str) else f"`{default}`"


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    for path, content in ((root / "docs/configuration.md", reference()), (root / "README.md", short_table())):
        path.write_text(updated(path.read_text(encoding="utf-8"), content), encoding="utf-8")
