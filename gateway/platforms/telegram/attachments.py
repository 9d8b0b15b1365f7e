"""Attachments of Telegram messages, downloaded only when they are read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from telegram import Bot, Message, PhotoSize
from telegram.error import BadRequest, TelegramError

from gateway.errors import AttachmentRefused
from gateway.types import Attachment, AttachmentKind

_MEGABYTE = 1_000_000
_MAX_PHOTO_BYTES = 10 * 2**20
_IMAGES = ("image/jpeg", "image/png", "image/webp", "image/gif")


class TelegramFiles:
    def __init__(self, bot: Bot) -> None:
        self._bot = bot

    def of(self, message: Message) -> tuple[Attachment, ...]:
        """Return the attachment, if any; an album arrives as several messages."""
        if message.photo:
            photo = _largest_usable(message.photo)
            return self._one(photo.file_id, "photo.jpg", "image/jpeg", "image", photo.file_size)
        if (voice := message.voice) is not None:
            # A forwarded voice message is not the sender's own speech.
            kind_of_voice: AttachmentKind = "voice" if message.forward_origin is None else "audio"
            mime = voice.mime_type or "audio/ogg"
            return self._one(voice.file_id, "voice.ogg", mime, kind_of_voice, voice.file_size)
        if (note := message.video_note) is not None:
            return self._one(note.file_id, "video.mp4", "video/mp4", "video", note.file_size)
        if (audio := message.audio) is not None:
            return self._one(
                audio.file_id,
                audio.file_name or "audio.mp3",
                audio.mime_type or "audio/mpeg",
                "audio",
                audio.file_size,
            )
        # An animation also has a document, so it comes first.
        if (video := message.video or message.animation) is not None:
            return self._one(
                video.file_id,
                video.file_name or "video.mp4",
                video.mime_type or "video/mp4",
                "video",
                video.file_size,
            )
        if (document := message.document) is not None:
            mime = document.mime_type or "application/octet-stream"
            kind: AttachmentKind = "image" if mime in _IMAGES else "document"
            return self._one(
                document.file_id, document.file_name or "document", mime, kind, document.file_size
            )
        return ()

    def _one(
        self, file_id: str, name: str, mime: str, kind: AttachmentKind, size: int | None
    ) -> tuple[Attachment, ...]:
        return (Attachment(name, mime, kind, size, partial(self.read, file_id, name, size), file_id),)

    async def read(self, file_id: str, name: str, size: int | None, limit: int) -> bytes:
        _check(name, size, limit)
        try:
            file = await self._bot.get_file(file_id)
            _check(name, file.file_size, limit)
            data = bytes(await file.download_as_bytearray())
        except BadRequest as error:
            if "too big" in error.message.lower():
                raise AttachmentRefused(
                    f"{name} is larger than 20 MB, the most that Telegram gives to bots."
                ) from None
            raise AttachmentRefused(f"Telegram no longer has {name}; please send it again.") from None
        except TelegramError:
            raise AttachmentRefused(
                f"{name} could not be downloaded from Telegram; please send it again."
            ) from None
        _check(name, len(data), limit)
        return data


def _check(name: str, size: int | None, limit: int) -> None:
    if size is not None and size > limit:
        raise AttachmentRefused(
            f"{name} has {size / _MEGABYTE:.1f} MB; at most {limit / _MEGABYTE:.1f} MB are accepted."
        )


def _largest_usable(sizes: Sequence[PhotoSize]) -> PhotoSize:
    """Return the largest size that a model accepts."""
    usable = [size for size in sizes if (size.file_size or 0) <= _MAX_PHOTO_BYTES]
    return max(usable or sizes[:1], key=lambda size: size.width * size.height)
