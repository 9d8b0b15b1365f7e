"""The text of documents that people send."""

from __future__ import annotations

import asyncio
import codecs
import shutil
import sys
from pathlib import Path
from tempfile import mkdtemp

import structlog

from agent.sandbox.process import run_process

log = structlog.get_logger(__name__)

_SECONDS = 20.0
_MOST_BYTES = 1_000_000
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


async def extract_text(data: bytes) -> str | None:
    """None where there is no text to be had. What it is is told by its content, not by its name."""
    if data.startswith(b"%PDF-"):
        return await _text_of_pdf(data)
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


async def _text_of_pdf(data: bytes) -> str | None:
    """By a process of its own: a small hostile file can keep a reader busy for hours, and a process can be killed.

    From a copy, because in the workspace a command that runs just now could put a link in the file's place."""
    copy = await asyncio.to_thread(_copied, data)
    worker = str(Path(__file__).with_name("pdf_worker.py"))
    # -I: nothing but this script and the installed packages; no variables, which hold keys.
    command = (sys.executable, "-I", worker, str(copy))
    try:
        finished = await run_process(
            command, cwd=copy.parent, env={}, seconds=_SECONDS, keep_bytes=_MOST_BYTES
        )
    finally:
        await asyncio.to_thread(shutil.rmtree, copy.parent, ignore_errors=True)
    if finished.exit_code != 0:
        log.info("media.pdf_unreadable", exit_code=finished.exit_code)
    # What was read until the time was over or the file broke off is still worth having.
    return finished.output.decode(errors="replace").strip() or None


def _copied(data: bytes) -> Path:
    copy = Path(mkdtemp(prefix="hermes-pdf-"), "document.pdf")
    copy.write_bytes(data)
    return copy
