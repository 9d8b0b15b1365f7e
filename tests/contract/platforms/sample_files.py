"""Files that people send."""

from __future__ import annotations

import io

from PIL import Image

from tests.contract.platforms.surface import File


def picture(name: str, size: int) -> File:
    data = io.BytesIO()
    Image.new("RGB", (size, size), "teal").save(data, "PNG")
    return File(name, data.getvalue(), "image")
