"""The text of documents that people send."""

from __future__ import annotations

import asyncio
import codecs
import sys
from pathlib import Path

import structlog

from agent.tool_support.process import run_process

log = structlog.get_logger(__name__)

_SECONDS = 20.0
_MOST_BYTES = 1_000_000
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


async def text_of(path: Path, data: bytes) -> str | None:
    """None where there is no text to be had. What it is is told by its content, not by its name."""
    if data.startswith(b"%PDF-"):
        return await _text_of_pdf(path)
    return await asyncio.to_thread(_decoded, data)


def _decoded(data: bytes) -> str | None:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


async def _text_of_pdf(path: Path) -> str | None:
    """By a process of its own: a small hostile file can keep a reader busy for hours, and a process can be killed."""
    worker = str(Path(__file__).with_name("pdf_worker.py"))
    # -I: nothing but this script and the installed packages; no variables, which hold keys.
    command = (sys.executable, "-I", worker, str(path))
    finished = await run_process(command, cwd=path.parent, env={}, seconds=_SECONDS, keep_bytes=_MOST_BYTES)
    if finished.exit_code != 0:
        log.info("media.pdf_unreadable", exit_code=finished.exit_code)
    # What was read until the time was over or the file broke off is still worth having.
    return finished.output.decode(errors="replace").strip() or None
