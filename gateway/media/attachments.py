"""Stores the attachments of a message in the workspace and describes them for the model."""

from __future__ import annotations

import asyncio
import mimetypes
import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from agent.errors import HermesError, ToolError
from agent.messages import ChatDict
from agent.store import Conversation
from agent.tool_support.workspace import MAX_FILE_BYTES, Workspace
from agent.untrusted import in_a_note, wrap_untrusted
from gateway.errors import AttachmentRefused
from gateway.media.documents import extract_text
from gateway.media.images import image_part
from gateway.types import Attachment

log = structlog.get_logger(__name__)

INCOMING = "incoming"
"""The folder of the workspace for attachments."""

_MAX_FILES = 20
_MAX_TEXT = 12_000
"""Characters of a document that the message contains; the model can read the rest from the workspace."""
_MAX_FILENAME = 80
_DEFAULT_FILENAME = "file"

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
        return _describe_document(name, text, path)

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


def _describe_document(name: str, text: str, path: str) -> str:
    shown = text[:_MAX_TEXT]
    rest = f"; {len(text) - len(shown):,} characters more are in the file" if len(text) > len(shown) else ""
    return f"[File {name}, kept as `{path}`{rest}. Its content:]\n{wrap_untrusted(shown)}"


def safe_filename(name: str, mime: str = "") -> str:
    """Return the last part of a path, printable, not hidden and not too long. Add the extension of the MIME type if the
    name has none."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    printable = "".join(char for char in last if unicodedata.category(char)[0] not in "CZ" or char == " ")
    cleaned = re.sub(r"[\[\]`<>:\"|｜?*]", "_", printable).strip(" .")
    stem, dot, extension = cleaned.rpartition(".")
    if not dot:
        stem, extension = cleaned, (mimetypes.guess_extension(mime) or "").lstrip(".")
    stem = stem[: _MAX_FILENAME - 12] or _DEFAULT_FILENAME
    return f"{stem}.{extension[:10]}" if extension else stem
