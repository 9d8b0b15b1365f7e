"""Writes the text of a PDF to standard output, page by page; started by path with `python -I`."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import sys

MAX_MEMORY_BYTES = 1_000_000_000
MAX_PAGES = 200
MAX_CHARACTERS = 200_000


def main() -> None:
    logging.disable(logging.CRITICAL)
    # The parent reads only text: silence the parser's warnings.
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    from pypdf import PdfReader  # noqa: PLC0415 - after the memory limit

    remaining = MAX_CHARACTERS
    for page in PdfReader(sys.argv[1]).pages[:MAX_PAGES]:
        text = page.extract_text()[:remaining]
        sys.stdout.buffer.write(text.encode(errors="replace") + b"\n\n")
        sys.stdout.buffer.flush()
        remaining -= len(text)
        if remaining <= 0:
            break


if __name__ == "__main__":
    main()
