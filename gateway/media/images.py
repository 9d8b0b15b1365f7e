"""Converts images to small JPEGs, which all vision models accept."""

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

_MAX_SIDE = 1568
"""Pixels. Providers scale larger images down, but charge for them."""

_MAX_PIXELS = 20_000_000
"""A small file can unpack to an image that fills the memory."""

_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")


def image_part(data: bytes) -> ChatDict | None:
    """Return a content part with the image, or None if it is unreadable. Blocks: call this in a thread."""
    try:
        jpeg = _to_jpeg(data)
    except Exception as error:  # noqa: BLE001 - image decoders raise anything for hostile data
        log.info("media.image_unreadable", error=type(error).__name__)
        return None
    url = "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def _to_jpeg(data: bytes) -> bytes:
    from PIL import Image  # noqa: PLC0415 - most messages have no image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            # Let the JPEG decoder scale down, which saves most of the time and memory.
            image.draft("RGB", (_MAX_SIDE, _MAX_SIDE))
            if image.width * image.height > _MAX_PIXELS:
                raise ValueError("too many pixels")
            flat = _flatten(image)
    flat.thumbnail((_MAX_SIDE, _MAX_SIDE))
    jpeg = io.BytesIO()
    flat.save(jpeg, "JPEG", quality=80)
    return jpeg.getvalue()


def _flatten(image: Image.Image) -> Image.Image:
    from PIL import Image, ImageOps  # noqa: PLC0415 - see above

    upright = ImageOps.exif_transpose(image)
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        with_alpha = upright.convert("RGBA")
        white = Image.new("RGB", with_alpha.size, "white")
        white.paste(with_alpha, mask=with_alpha.getchannel("A"))
        return white
    return upright.convert("RGB")
