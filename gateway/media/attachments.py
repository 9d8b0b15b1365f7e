"""Stores the attachments of a message in the workspace and describes them for the model."""

from __future__ import annotations

import asyncio
import base64
import codecs
import io
import mimetypes
import re
import shutil
import sys
import unicodedata
import warnings
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import structlog

from agent.errors import HermesError, ToolError
from agent.messages import ChatDict
from agent.sandbox.process import run_process
from agent.store import Conversation
from agent.tool_support.workspace import MAX_FILE_BYTES, Workspace
from agent.untrusted import in_a_note, wrap_untrusted
from gateway.errors import AttachmentRefused
from gateway.types import Attachment

if TYPE_CHECKING:
    from PIL import Image
log = structlog.get_logger(__name__)

INCOMING = "incoming"
"""The folder of the workspace for attachments."""

_MAX_FILES = 20
_MAX_TEXT = 12_000
"""Characters of a document that the message contains; the model can read the rest from the workspace."""
_MAX_FILENAME = 80

_NO_VOICE = (
    "voice messages are not understood here: no model for them is set up. Tell the person so, and that the owner can "
    "set `auxiliary.transcription.model`"
)

SeesImages = Callable[[Conversation], Awaitable[bool]]
Transcribe = Callable[[str, bytes, Conversation], Awaitable[str]]
"""Transcribes a file, given its name, its content and the conversation."""


@dataclass(slots=True)
class AttachmentText:
    """The description of the attachments for the model, and the images among them."""

    paragraphs: list[str] = field(default_factory=list)
    images: list[ChatDict] = field(default_factory=list)


class AttachmentReader:
    """Downloads attachments and converts them to text and images for the model."""

    def __init__(self, sees_images: SeesImages, transcribe: Transcribe | None = None) -> None:
        self._sees_images = sees_images
        self._transcribe = transcribe

    async def read(
        self, attachments: Sequence[Attachment], conversation: Conversation, workspace: Path
    ) -> AttachmentText:
        """Read all attachments. A broken file raises nothing: the description tells the model about it."""
        result = AttachmentText()
        for attachment in attachments[:_MAX_FILES]:
            name = safe_filename(attachment.name, attachment.mime)
            try:
                about = await self._read_one(attachment, name, conversation, Workspace(workspace), result)
            except (AttachmentRefused, ToolError) as error:
                about = f"it could not be taken: {error.detail}"
            result.paragraphs.append(f"[File {name}: {about}]" if "\n" not in about else about)
        if len(attachments) > _MAX_FILES:
            result.paragraphs.append(f"[{len(attachments) - _MAX_FILES} more files were not taken.]")
        return result

    async def _read_one(
        self,
        attachment: Attachment,
        name: str,
        conversation: Conversation,
        workspace: Workspace,
        result: AttachmentText,
    ) -> str:
        data = await attachment.read(MAX_FILE_BYTES)
        path = await asyncio.to_thread(workspace.write_new, f"{INCOMING}/{name}", data)
        kept = f"kept as `{path}`, {len(data):,} bytes"
        if attachment.kind == "image":
            return await self._read_image(data, kept, conversation, result)
        if attachment.kind in ("voice", "audio"):
            return await self._read_audio(attachment, name, data, kept, conversation)
        text = await extract_text(data)
        if text is None:
            return kept
        left = len(text) - _MAX_TEXT
        rest = f"; {left:,} characters more are in the file" if left > 0 else ""
        return f"[File {name}, kept as `{path}`{rest}. Its content:]\n{wrap_untrusted(text[:_MAX_TEXT])}"

    async def _read_image(
        self, data: bytes, kept: str, conversation: Conversation, result: AttachmentText
    ) -> str:
        if not await self._sees_images(conversation):
            return f"an image, {kept}; this model cannot see images"
        part = await asyncio.to_thread(image_part, data)
        if part is None:
            return f"{kept}; it is not an image that can be shown"
        result.images.append(part)
        return f"an image, {kept}"

    async def _read_audio(
        self, attachment: Attachment, name: str, data: bytes, kept: str, conversation: Conversation
    ) -> str:
        if self._transcribe is None:
            return f"{kept}; {_NO_VOICE}"
        try:
            transcript = await self._transcribe(name, data, conversation)
        except HermesError as error:
            log.warning("media.transcription_failed", error=type(error).__name__)
            return f"{kept}; the recording could not be transcribed: {error}"
        if attachment.kind == "voice":
            # A voice message is the person's own words; a note keeps them on one line.
            return f"[Voice message, transcribed automatically:]\n{in_a_note(transcript)}"
        return f"[File {name}, {kept}. Its speech, transcribed automatically:]\n{wrap_untrusted(transcript)}"


def safe_filename(name: str, mime: str = "") -> str:
    """Return the last part of a path, printable, not hidden and not too long. Add the extension of the MIME type if the
    name has none."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    printable = "".join(char for char in last if unicodedata.category(char)[0] not in "CZ" or char == " ")
    cleaned = re.sub(r"[\[\]`<>:\"|｜?*]", "_", printable).strip(" .")
    stem, dot, extension = cleaned.rpartition(".")
    if not dot:
        stem, extension = cleaned, (mimetypes.guess_extension(mime) or "").lstrip(".")
    stem = stem[: _MAX_FILENAME - 12] or "file"
    return f"{stem}.{extension[:10]}" if extension else stem


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
