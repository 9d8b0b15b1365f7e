"""The text of documents that people send."""

from __future__ import annotations

import codecs
import io

import structlog

log = structlog.get_logger(__name__)

_MOST_PAGES = 200
_MOST_CHARACTERS = 200_000
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def text_of(name: str, data: bytes) -> str | None:
    """None where there is no text to be had. What it is is told by its content, not by its name. Blocks."""
    if data.startswith(b"%PDF-"):
        return _text_of_pdf(name, data)
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _text_of_pdf(name: str, data: bytes) -> str | None:
    from pypdf import PdfReader  # noqa: PLC0415 - most messages have no PDF
    from pypdf.errors import PyPdfError  # noqa: PLC0415

    pages: list[str] = []
    room = _MOST_CHARACTERS
    try:
        for page in PdfReader(io.BytesIO(data)).pages[:_MOST_PAGES]:
            pages.append(page.extract_text()[:room])
            room -= len(pages[-1])
            if room <= 0:
                break
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        # Broken files make the reader stumble in many ways; what was read until then is still worth having.
        log.info("media.pdf_unreadable", error=type(error).__name__)
    return "\n\n".join(pages).strip() or None
