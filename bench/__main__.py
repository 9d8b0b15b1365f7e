"""`make bench`: print the tables of all suites, or of those named in ARGS."""

from __future__ import annotations

import importlib
import sys

from rich.console import Console
from rich.table import Table

SUITES = ("store", "turns", "chat", "engines", "caching", "dashboard")


def main(names: list[str]) -> None:
    console = Console(width=150)
    for name in names or SUITES:
        module = importlib.import_module(f"bench.{name}")
        table = Table(
            "what", "measured", "aim", "how it grows", title=(module.__doc__ or name).strip().splitlines()[0]
        )
        for row in module.rows():
            table.add_row(*row)
        console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
