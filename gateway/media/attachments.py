"""What becomes of the files that came with a message. Each is kept in the workspace and told to the model."""

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

_LONGEST = 80
_FALLBACK = "file"


def safe_filename(name: str, mime: str = "") -> str:
    """Only the last part of a path, printable, not hidden, not too long; with an ending if the type tells one."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    printable = "".join(char for char in last if unicodedata.category(char)[0] not in "CZ" or char == " ")
    plain = re.sub(r"[\[\]`<>:\"|｜?*]", "_", printable).strip(" .")
    stem, dot, ending = plain.rpartition(".")
    if not dot:
        stem, ending = plain, (mimetypes.guess_extension(mime) or "").lstrip(".")
    stem = stem[: _LONGEST - 12] or _FALLBACK
    return f"{stem}.{ending[:10]}" if ending else stem


log = structlog.get_logger(__name__)

INCOMING = "incoming"
"""The folder of the workspace for what people send."""

_MOST_FILES = 20
_LONGEST_TEXT = 12_000
"""Characters of a document that go into the message; the rest is read from the workspace."""

_NO_VOICE = (
    "voice messages are not understood here: no model for them is set up. Tell the person so, and that the owner can "
    "set `auxiliary.transcription.model`"
)

SeesImages = Callable[[Conversation], Awaitable[bool]]
Transcribe = Callable[[str, bytes, Conversation], Awaitable[str]]
"""Gets a file's name and content and where it was sent, gives what was said in it."""


@dataclass(slots=True)
class AttachmentText:
    """What the model reads about the files, and the pictures themselves."""

    paragraphs: list[str] = field(default_factory=list)
    images: list[ChatDict] = field(default_factory=list)


class AttachmentReader:
    """Fetches attachments and makes of them what the model can use."""

    def __init__(self, sees_images: SeesImages, transcribe: Transcribe | None = None) -> None:
        self._sees_images = sees_images
        self._transcribe = transcribe

    async def take_in(
        self, attachments: Sequence[Attachment], conversation: Conversation, workspace: Path
    ) -> AttachmentText:
        """Raises nothing for what is wrong with a file: the model is told, and tells the person."""
        taken = AttachmentText()
        for attachment in attachments[:_MOST_FILES]:
            name = safe_filename(attachment.name, attachment.mime)
            try:
                about = await self._take(attachment, name, conversation, Workspace(workspace), taken)
            except (AttachmentRefused, ToolError) as error:
                about = f"it could not be taken: {error.detail}"
            taken.paragraphs.append(f"[File {name}: {about}]" if "\n" not in about else about)
        if len(attachments) > _MOST_FILES:
            taken.paragraphs.append(f"[{len(attachments) - _MOST_FILES} more files were not taken.]")
        return taken

    async def _take(
        self,
        attachment: Attachment,
        name: str,
        conversation: Conversation,
        workspace: Workspace,
        taken: AttachmentText,
    ) -> str:
        data = await attachment.read(MAX_FILE_BYTES)
        path = await asyncio.to_thread(workspace.write_new, f"{INCOMING}/{name}", data)
        kept = f"kept as `{path}`, {len(data):,} bytes"
        if attachment.kind == "image":
            return await self._image(data, kept, conversation, taken)
        if attachment.kind in ("voice", "audio"):
            return await self._voice(attachment, name, data, kept, conversation)
        text = await extract_text(data)
        if text is None:
            return kept
        return _as_paragraphs(name, text, path)

    async def _image(self, data: bytes, kept: str, conversation: Conversation, taken: AttachmentText) -> str:
        if not await self._sees_images(conversation):
            return f"an image, {kept}; this model cannot see images"
        part = await asyncio.to_thread(image_part, data)
        if part is None:
            return f"{kept}; it is no image that can be shown"
        taken.images.append(part)
        return f"an image, {kept}"

    async def _voice(
        self, attachment: Attachment, name: str, data: bytes, kept: str, conversation: Conversation
    ) -> str:
        if self._transcribe is None:
            return f"{kept}; {_NO_VOICE}"
        try:
            said = await self._transcribe(name, data, conversation)
        except HermesError as error:
            log.warning("media.transcription_failed", error=type(error).__name__)
            return f"{kept}; what was said could not be written down: {error}"
        if attachment.kind == "voice":
            # The person's own words, spoken instead of written: on one line, which they cannot end.
            return f"[Voice message, written down by a machine:]\n{in_a_note(said)}"
        return (
            f"[File {name}, {kept}. What is said in it, written down by a machine:]\n{wrap_untrusted(said)}"
        )


def _as_paragraphs(name: str, text: str, path: str) -> str:
    shown = text[:_LONGEST_TEXT]
    rest = f"; {len(text) - len(shown):,} characters more are in the file" if len(text) > len(shown) else ""
    return f"[File {name}, kept as `{path}`{rest}. Its content:]\n{wrap_untrusted(shown)}"
