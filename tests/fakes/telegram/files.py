"""Files as Telegram keeps them: by an id, found under a path, bounded in size."""

from __future__ import annotations

import io
import itertools
import mimetypes
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from PIL import Image, UnidentifiedImageError

from tests.fakes.telegram.errors import Refused, bad_request
from tests.fakes.telegram.wire import Arguments, Upload

MAX_UPLOAD = 50 * 2**20
MAX_PHOTO = 10 * 2**20
MAX_DOWNLOAD = 20 * 2**20

Image.preinit()  # otherwise the first photo imports the decoders on the event loop


@dataclass(frozen=True, slots=True)
class StoredFile:
    id: str
    unique_id: str
    path: str
    name: str
    mime: str
    data: bytes
    size: int
    """Usually that of `data`; a test may declare a larger one without making it."""

    def json(self) -> dict[str, Any]:
        return {"file_id": self.id, "file_unique_id": self.unique_id, "file_size": self.size}


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment; `kind` is the name of the message's field."""

    kind: str
    file: StoredFile
    details: Any
    """The field's value."""


class FileStore:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._by_id: dict[str, Attachment] = {}
        self._by_path: dict[str, StoredFile] = {}

    def photo(self, data: bytes) -> Attachment:
        width, height = _dimensions(data) or (1280, 960)
        sizes = []
        for longest in (90, 320, max(width, height)):
            scale = min(1.0, longest / max(width, height))
            file = self._keep("photos", "photo.jpg", "image/jpeg", data)
            shape = {"width": max(1, round(width * scale)), "height": max(1, round(height * scale))}
            sizes.append(file.json() | shape)
        return self._remember(Attachment("photo", file, sizes))

    def document(self, data: bytes, name: str, mime: str = "", size: int | None = None) -> Attachment:
        mime = mime or mimetypes.guess_type(name)[0] or "application/octet-stream"
        file = self._keep("documents", name, mime, data, size)
        return self._remember(
            Attachment("document", file, file.json() | {"file_name": name, "mime_type": mime})
        )

    def voice(self, data: bytes, seconds: int, size: int | None = None) -> Attachment:
        file = self._keep("voice", "voice.oga", "audio/ogg", data, size)
        details = file.json() | {"duration": seconds, "mime_type": "audio/ogg"}
        return self._remember(Attachment("voice", file, details))

    def by_id(self, file_id: str) -> Attachment | None:
        return self._by_id.get(file_id)

    def by_path(self, path: str) -> StoredFile | None:
        return self._by_path.get(path)

    def _keep(self, folder: str, name: str, mime: str, data: bytes, size: int | None = None) -> StoredFile:
        number = next(self._numbers)
        path = f"{folder}/file_{number}{PurePath(name).suffix}"
        file = StoredFile(
            id=f"FILE-{number:06d}-{folder}",
            unique_id=f"U{number:06d}",
            path=path,
            name=name,
            mime=mime,
            data=data,
            size=len(data) if size is None else size,
        )
        self._by_path[path] = file
        return file

    def _remember(self, attachment: Attachment) -> Attachment:
        sizes = attachment.details if isinstance(attachment.details, list) else [attachment.details]
        for size in sizes:
            self._by_id[size["file_id"]] = attachment
        return attachment


def sent_file(files: FileStore, arguments: Arguments, field: str) -> Attachment:
    """The file of a sendDocument or sendPhoto: uploaded now, or known by its id."""
    upload = _upload(arguments, field)
    if upload is None:
        known = files.by_id(arguments.text(field))
        if known is None:
            named = arguments.text(field)
            raise bad_request(
                "wrong file identifier/HTTP URL specified" if named else f"there is no {field} in the request"
            )
        return known
    if len(upload.data) > MAX_UPLOAD:
        raise Refused(413, "Request Entity Too Large")
    if not upload.data:
        raise bad_request("file must be non-empty")
    if field == "photo":
        _check_photo(upload.data)
        return files.photo(upload.data)
    return files.document(upload.data, upload.name, upload.mime)


def _upload(arguments: Arguments, field: str) -> Upload | None:
    reference = arguments.text(field)
    if reference.startswith("attach://"):
        return arguments.uploads.get(reference.removeprefix("attach://"))
    return arguments.uploads.get(field)


def _check_photo(data: bytes) -> None:
    if len(data) > MAX_PHOTO:
        raise bad_request(
            f"file of size {len(data)} bytes is too big for a photo; the maximum size is {MAX_PHOTO} bytes"
        )
    shape = _dimensions(data)
    if shape is None:
        raise bad_request("IMAGE_PROCESS_FAILED")
    if sum(shape) > 10_000 or max(shape) > 20 * min(shape):
        raise bad_request("PHOTO_INVALID_DIMENSIONS")


def _dimensions(data: bytes) -> tuple[int, int] | None:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.size
    except UnidentifiedImageError:
        return None
