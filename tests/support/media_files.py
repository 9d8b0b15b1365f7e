"""Builds attachments for tests."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

from gateway.errors import AttachmentRefused
from gateway.types import Attachment, AttachmentKind


def attachment(name: str, data: bytes, mime: str = "", kind: AttachmentKind = "document") -> Attachment:
    async def read(most: int) -> bytes:
        if len(data) > most:
            raise AttachmentRefused(f"it is larger than {most:,} bytes.")
        return data

    return Attachment(name, mime, kind, len(data), read)


def picture(width: int, height: int, kind: str = "PNG", mode: str = "RGB") -> bytes:
    packed = io.BytesIO()
    Image.new(mode, (width, height), "red").save(packed, kind)
    return packed.getvalue()


def bomb(width: int, height: int) -> bytes:
    """Build a PNG of a few bytes that claims this size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def pdf(*pages: str) -> bytes:
    """Build a PDF with one line of text per page."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>")
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, text in enumerate(pages):
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        font = "<< /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /Resources {font} /Contents {5 + 2 * number} 0 R >>")
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode()
