"""Extracts the text of documents."""

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

_PDF_TIMEOUT = 20.0
_MAX_PDF_TEXT_BYTES = 1_000_000
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


async def extract_text(data: bytes) -> str | None:
    """Return the text of a PDF or text file, detected by its content; None for other files."""
    if data.startswith(b"%PDF-"):
        return await _extract_pdf_text(data)
    return await asyncio.to_thread(_decode, data)


def _decode(data: bytes) -> str | None:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


async def _extract_pdf_text(data: bytes) -> str | None:
    """Extract the text in a separate process, which can be killed: a small hostile file can occupy a parser for hours.

    The process reads a copy, because a running command could replace the file in the workspace by a link."""
    copy = await asyncio.to_thread(_write_copy, data)
    worker = str(Path(__file__).with_name("pdf_worker.py"))
    # -I isolates the script from the current directory; an empty environment contains no keys.
    command = (sys.executable, "-I", worker, str(copy))
    try:
        finished = await run_process(
            command, cwd=copy.parent, env={}, seconds=_PDF_TIMEOUT, keep_bytes=_MAX_PDF_TEXT_BYTES
        )
    finally:
        await asyncio.to_thread(shutil.rmtree, copy.parent, ignore_errors=True)
    if finished.exit_code != 0:
        log.info("media.pdf_unreadable", exit_code=finished.exit_code)
    # The pages before a timeout or an error are still useful.
    return finished.output.decode(errors="replace").strip() or None


def _write_copy(data: bytes) -> Path:
    copy = Path(mkdtemp(prefix="hermes-pdf-"), "document.pdf")
    copy.write_bytes(data)
    return copy
