"""Files that people send: named and measured at once, fetched when asked for, never beyond the limit."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import AttachmentRefused
from gateway.types import Attachment
from tests.fakes.telegram.server import FakeTelegram, Fault
from tests.support.telegram_harness import TelegramHarness, running, settings_for

PLENTY = 20 * 2**20


async def _document(harness: TelegramHarness, data: bytes = b"a,b\n1,2\n", **how: Any) -> Attachment:
    await harness.ada.sends_document(data, "table.csv", **how)
    (attachment,) = (await harness.receiver.next()).attachments
    return attachment


async def test_a_photo(harness: TelegramHarness, photo: bytes) -> None:
    """The largest size, as an image, with its caption as the text."""
    await harness.ada.sends_photo(photo, "look")
    got = await harness.receiver.next()
    (attachment,) = got.attachments
    assert (got.text, attachment.kind, attachment.mime) == ("look", "image", "image/jpeg")
    assert attachment.size == len(photo)
    assert await attachment.read(PLENTY) == photo


async def test_the_best_photo_is_the_largest_that_a_model_takes(harness: TelegramHarness) -> None:
    """A size above 10 MB is passed over."""
    sizes = [
        {"file_id": name, "file_unique_id": name, "width": width, "height": 10, "file_size": size}
        for name, width, size in (("small", 90, 1_000), ("good", 900, 9 * 2**20), ("huge", 9000, 11 * 2**20))
    ]
    got = await harness.shows(photo=sizes)
    assert got.attachments[0].size == 9 * 2**20


async def test_a_document(harness: TelegramHarness) -> None:
    """With the name and type that its sender gave it; nothing is fetched before it is read."""
    attachment = await _document(harness)
    assert (attachment.name, attachment.mime, attachment.kind) == ("table.csv", "text/csv", "document")
    assert not harness.server.calls_of("getFile")
    assert await attachment.read(PLENTY) == b"a,b\n1,2\n"


async def test_a_picture_sent_as_a_file_is_an_image(harness: TelegramHarness, photo: bytes) -> None:
    """People send uncompressed pictures that way."""
    await harness.ada.sends_document(photo, "scan.png", mime="image/png")
    (attachment,) = (await harness.receiver.next()).attachments
    assert (attachment.kind, attachment.name) == ("image", "scan.png")


async def test_a_voice_message(harness: TelegramHarness) -> None:
    """As what it is, and readable."""
    await harness.ada.sends_voice(b"OggS...")
    (attachment,) = (await harness.receiver.next()).attachments
    assert (attachment.kind, attachment.mime) == ("voice", "audio/ogg")
    assert await attachment.read(PLENTY) == b"OggS..."


FILE = {"file_id": "f", "file_unique_id": "u", "file_size": 5}
CLIP = {**FILE, "width": 10, "height": 10, "duration": 3}


@pytest.mark.parametrize(
    ("fields", "kind", "name", "mime"),
    [
        (
            {"audio": {**FILE, "duration": 3, "file_name": "a.flac", "mime_type": "audio/flac"}},
            "audio",
            "a.flac",
            "audio/flac",
        ),
        ({"audio": {**FILE, "duration": 3}}, "audio", "audio.mp3", "audio/mpeg"),
        (
            {"video": {**CLIP, "file_name": "v.mov", "mime_type": "video/quicktime"}},
            "video",
            "v.mov",
            "video/quicktime",
        ),
        ({"video_note": {**FILE, "length": 10, "duration": 3}}, "video", "video.mp4", "video/mp4"),
        ({"animation": CLIP, "document": FILE}, "video", "video.mp4", "video/mp4"),
        ({"document": FILE}, "document", "document", "application/octet-stream"),
    ],
)
async def test_other_kinds(
    harness: TelegramHarness, fields: dict[str, Any], kind: str, name: str, mime: str
) -> None:
    """Each is one attachment, named as well as can be."""
    got = await harness.shows(**fields)
    (attachment,) = got.attachments
    assert (attachment.kind, attachment.name, attachment.mime, attachment.size) == (kind, name, mime, 5)


async def test_an_album_is_marked_as_one(harness: TelegramHarness, photo: bytes) -> None:
    """Each photo is a message of its own, with the same album."""
    await harness.ada.sends_album([photo] * 3, "our trip")
    messages = [await harness.receiver.next() for _ in range(3)]
    assert len({message.album for message in messages}) == 1
    assert messages[0].album
    assert [message.text for message in messages] == ["our trip", "", ""]


async def test_what_is_too_large_for_the_asker_is_not_fetched(harness: TelegramHarness) -> None:
    """Its size is known before."""
    attachment = await _document(harness, b"x" * 2_500_000)
    with pytest.raises(AttachmentRefused, match=r"table.csv has 2\.5 MB; at most 1\.0 MB"):
        await attachment.read(1_000_000)
    assert not harness.server.calls_of("getFile")


async def test_what_is_too_large_for_telegram(harness: TelegramHarness) -> None:
    """Bots get no file above 20 MB, and the person is told so."""
    attachment = await _document(harness, size=30 * 2**20)
    with pytest.raises(AttachmentRefused, match="larger than 20 MB, the most that Telegram gives to bots"):
        await attachment.read(100 * 2**20)


async def test_a_file_that_is_gone(harness: TelegramHarness) -> None:
    """The person can send it again."""
    attachment = await _document(harness)
    harness.server.fail_next("getFile", Fault.error(400, "Bad Request: wrong file_id"))
    with pytest.raises(AttachmentRefused, match=r"no longer has table\.csv; please send it again"):
        await attachment.read(PLENTY)


async def test_a_file_that_cannot_be_fetched(harness: TelegramHarness) -> None:
    """A broken connection is not the file's fault."""
    attachment = await _document(harness)
    harness.server.fail_next("getFile", Fault.drop())
    with pytest.raises(
        AttachmentRefused, match="could not be downloaded from Telegram; please send it again"
    ):
        await attachment.read(PLENTY)
    assert await attachment.read(PLENTY) == b"a,b\n1,2\n"


async def test_a_file_that_grew_on_the_way(harness: TelegramHarness) -> None:
    """What Telegram says about the size is not what counts in the end."""
    attachment = await _document(harness, b"x" * 2_000, size=10)
    with pytest.raises(AttachmentRefused, match="at most"):
        await attachment.read(1_000)


async def test_a_server_of_ones_own_serves_files_too() -> None:
    """Files are fetched from where the calls go."""
    async with (
        FakeTelegram() as own,
        running(own, settings=settings_for(own, base_url=own.url + "/")) as harness,
    ):
        attachment = await _document(harness)
        assert await attachment.read(PLENTY) == b"a,b\n1,2\n"
