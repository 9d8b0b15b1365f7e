"""Pictures as models take them: small enough, in a format all of them read."""

from __future__ import annotations

import base64
import io
import warnings
from typing import TYPE_CHECKING

import structlog

from agent.messages import ChatDict

if TYPE_CHECKING:
    from PIL import Image

log = structlog.get_logger(__name__)

_LONGEST_SIDE = 1568
"""Larger ones are scaled down by the providers anyway, after they have been paid for."""

_MOST_PIXELS = 20_000_000
"""A small file can unpack to a picture that fills the memory."""

_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")


def image_part(data: bytes) -> ChatDict | None:
    """A content part with the picture in it; None if it is none that can be opened. Blocks: call it in a thread."""
    try:
        packed = _packed(data)
    except Exception as error:  # noqa: BLE001 - a decoder of strangers' bytes may raise anything
        log.info("media.image_unreadable", error=type(error).__name__)
        return None
    url = "data:image/jpeg;base64," + base64.b64encode(packed).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def _packed(data: bytes) -> bytes:
    from PIL import Image  # noqa: PLC0415 - most messages have no picture

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(io.BytesIO(data), formats=_FORMATS) as picture:
            # Asks the JPEG decoder for a smaller picture at once, which saves most of the work and the memory.
            picture.draft("RGB", (_LONGEST_SIDE, _LONGEST_SIDE))
            if picture.width * picture.height > _MOST_PIXELS:
                raise ValueError("too many pixels")
            flat = _on_white(picture)
    flat.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    packed = io.BytesIO()
    flat.save(packed, "JPEG", quality=80)
    return packed.getvalue()


def _on_white(picture: Image.Image) -> Image.Image:
    from PIL import Image, ImageOps  # noqa: PLC0415 - see above

    upright = ImageOps.exif_transpose(picture)
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        with_alpha = upright.convert("RGBA")
        white = Image.new("RGB", with_alpha.size, "white")
        white.paste(with_alpha, mask=with_alpha.getchannel("A"))
        return white
    return upright.convert("RGB")
