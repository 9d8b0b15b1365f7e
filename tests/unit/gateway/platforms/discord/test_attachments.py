"""Files that people send."""

from __future__ import annotations

import pytest

from gateway.errors import AttachmentRefused
from tests.fakes.discord.server import FakeDiscord, Fault, Person, Upload
from tests.support.discord_harness import RecordingReceiver


@pytest.mark.parametrize(
    ("upload", "kind", "mime"),
    [
        (Upload("cat.png", b"x", "image/png"), "image", "image/png"),
        (Upload("note.txt", b"x", "text/plain; charset=utf-8"), "document", "text/plain"),
        (Upload("song.mp3", b"x", "audio/mpeg"), "audio", "audio/mpeg"),
        (Upload("film.mp4", b"x", "video/mp4"), "video", "video/mp4"),
        (Upload("voice-message.ogg", b"x", "audio/ogg", duration=2.0), "voice", "audio/ogg"),
        (Upload("strange", b"x"), "document", "application/octet-stream"),
    ],
)
async def test_kinds_of_files(
    receiver: RecordingReceiver, ada: Person, upload: Upload, kind: str, mime: str
) -> None:
    """By what Discord says of them, a voice message apart from other audio."""
    await ada.says(attachments=[upload])
    [file] = (await receiver.next_message()).attachments
    assert (file.name, file.kind, file.mime, file.size) == (upload.filename, kind, mime, 1)


async def test_reading_a_file(receiver: RecordingReceiver, ada: Person) -> None:
    """It is fetched when asked for, up to the limit and the limit included."""
    await ada.says("see", attachments=[Upload("a.txt", b"0123456789")])
    heard = await receiver.next_message()
    assert heard.text == "see"
    assert await heard.attachments[0].read(10) == b"0123456789"


async def test_a_file_that_is_too_large_is_not_fetched(
    receiver: RecordingReceiver, ada: Person, server: FakeDiscord
) -> None:
    """Discord says how large it is before a byte is read."""
    await ada.says(attachments=[Upload("a.txt", b"0123456789")])
    [file] = (await receiver.next_message()).attachments
    with pytest.raises(AttachmentRefused, match="at most 9 are accepted"):
        await file.read(9)
    assert server.calls_to("get_file") == []


async def test_a_file_larger_than_said_is_cut_off(
    receiver: RecordingReceiver, ada: Person, server: FakeDiscord
) -> None:
    """The declared size may be wrong."""
    message = await ada.says(attachments=[Upload("a.txt", b"0123456789")])
    [file] = (await receiver.next_message()).attachments
    message.attachments[0].upload = Upload("a.txt", b"x" * 100_000)
    with pytest.raises(AttachmentRefused, match="more than 20"):
        await file.read(20)


async def test_an_expired_file_is_refused(
    receiver: RecordingReceiver, ada: Person, server: FakeDiscord
) -> None:
    """Its address is good for a day."""
    await ada.says(attachments=[Upload("a.txt", b"x")])
    [file] = (await receiver.next_message()).attachments
    server.clock.advance(25 * 3600)
    with pytest.raises(AttachmentRefused, match="send it again"):
        await file.read(10)


async def test_a_file_that_does_not_come(
    receiver: RecordingReceiver, ada: Person, server: FakeDiscord
) -> None:
    """A cut connection is a sentence too."""
    await ada.says(attachments=[Upload("a.txt", b"x")])
    [file] = (await receiver.next_message()).attachments
    server.fail_next("get_file", Fault.drop(), times=9)
    with pytest.raises(AttachmentRefused, match="could not be downloaded"):
        await file.read(10)
