"""Files that come with a Discord message."""

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
_PATIENCE = aiohttp.ClientTimeout(total=120.0, sock_connect=15.0)


def attachments_of(files: Iterable[discord.Attachment]) -> tuple[Attachment, ...]:
    return tuple(_attachment(file) for file in files)


def _attachment(file: discord.Attachment) -> Attachment:
    mime = _mime(file)
    kind = "voice" if file.is_voice_message() else _KINDS.get(mime.partition("/")[0], "document")
    return Attachment(
        name=file.filename, mime=mime, kind=kind, size=file.size, read=_reader(file), ref=file.url
    )


def _mime(file: discord.Attachment) -> str:
    """Discord's word for it, such as `text/plain; charset=utf-8`, without what stands behind; else by the name."""
    told = (file.content_type or "").partition(";")[0].strip()
    return told or mimetypes.guess_type(file.filename)[0] or "application/octet-stream"


def _reader(file: discord.Attachment) -> Callable[[int], Awaitable[bytes]]:
    return partial(fetch, file.url, file.size)


async def fetch(url: str, size: int | None, most: int) -> bytes:
    """The SDK's own `read` takes whatever comes; this one stops at the bytes that are wanted."""
    if size is not None and size > most:
        raise AttachmentRefused(f"it has {size:,} bytes, and at most {most:,} are taken.")
    try:
        async with aiohttp.ClientSession(timeout=_PATIENCE) as session, session.get(url) as answer:
            if answer.status != 200:
                raise AttachmentRefused(
                    f"Discord does not hand it out any more ({answer.status}); send it again."
                )
            return await _at_most(answer, most)
    except NETWORK_ERRORS as error:
        raise AttachmentRefused("it could not be fetched from Discord; send it again.") from error


async def _at_most(answer: aiohttp.ClientResponse, most: int) -> bytes:
    data = bytearray()
    async for chunk in answer.content.iter_chunked(_CHUNK):
        data += chunk
        if len(data) > most:
            raise AttachmentRefused(f"it has more than {most:,} bytes.")
    return bytes(data)
