"""Attachments of Discord messages, downloaded only when they are read."""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import aiohttp
import discord

from gateway.errors import AttachmentRefused
from gateway.platforms.discord.errors import NETWORK_ERRORS
from gateway.types import Attachment, AttachmentKind

_KINDS: dict[str, AttachmentKind] = {"image": "image", "audio": "audio", "video": "video"}
_CHUNK = 64 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=120.0, sock_connect=15.0)


def attachments_of(files: Iterable[discord.Attachment]) -> tuple[Attachment, ...]:
    return tuple(_attachment(file) for file in files)


def _attachment(file: discord.Attachment) -> Attachment:
    mime = _mime(file)
    kind = "voice" if file.is_voice_message() else _KINDS.get(mime.partition("/")[0], "document")
    return Attachment(
        name=file.filename, mime=mime, kind=kind, size=file.size, read=_reader(file), ref=file.url
    )


def _mime(file: discord.Attachment) -> str:
    """Return the declared MIME type without parameters, or guess it from the file name."""
    declared = (file.content_type or "").partition(";")[0].strip()
    return declared or mimetypes.guess_type(file.filename)[0] or "application/octet-stream"


def _reader(file: discord.Attachment) -> Callable[[int], Awaitable[bytes]]:
    return partial(fetch, file.url, file.size)


async def fetch(url: str, size: int | None, limit: int) -> bytes:
    """Download a file up to a limit, which the SDK's `read` does not have."""
    if size is not None and size > limit:
        raise AttachmentRefused(f"it has {size:,} bytes; at most {limit:,} are accepted.")
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, session.get(url) as answer:
            if answer.status != 200:
                raise AttachmentRefused(f"Discord no longer has it ({answer.status}); send it again.")
            return await _read_limited(answer, limit)
    except NETWORK_ERRORS as error:
        raise AttachmentRefused("it could not be downloaded from Discord; send it again.") from error


async def _read_limited(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    data = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        data += chunk
        if len(data) > limit:
            raise AttachmentRefused(f"it has more than {limit:,} bytes.")
    return bytes(data)
