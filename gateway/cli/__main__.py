"""`python -m gateway.cli` is `hermes`."""

from __future__ import annotations

from gateway.cli import main

main()
