"""Files in both directions."""

from __future__ import annotations

import base64
import io

from PIL import Image

from agent.untrusted import without_marks
from tests.contract.platforms.sample_files import picture
from tests.contract.platforms.scripted_model import Model, images, newest, tool_results
from tests.contract.platforms.surface import CONTRACT, File, Surface, on
from tests.fakes.script import Call, Reply

pytestmark = CONTRACT


@on("files")
async def test_a_picture_is_seen(surface: Surface, model: Model) -> None:
    """A model that sees gets the picture itself, with the words below it."""
    ada = await surface.person()
    await ada.sends(picture("boat.png", 32), text="what is this?")
    asked = await model.asked("what is this?")
    (image,) = images(asked)
    data = base64.b64decode(image["image_url"]["url"].partition("base64,")[2])
    with Image.open(io.BytesIO(data)) as seen:
        assert seen.size == (32, 32)


@on("files")
async def test_a_document_is_read(surface: Surface, model: Model) -> None:
    """The message contains the text of the file, marked as a file."""
    ada = await surface.person()
    await ada.sends(File("notes.md", b"# Notes\nThe ferry leaves at six."), text="when does it leave?")
    told = newest(await model.asked("when does it leave?"))
    assert "[File notes.md" in told
    assert "The ferry leaves at six." in told


@on("files")
async def test_what_cannot_be_read_is_kept(surface: Surface, model: Model) -> None:
    """The file lies in the workspace, where the model's tools find it."""
    ada = await surface.person()
    command = "wc -c < incoming/blob.bin"
    model.answers("look at this", Reply(tool_calls=[Call("terminal", {"command": command})]), "It is large.")
    await ada.sends(File("blob.bin", bytes(range(256)) * 4), text="look at this")
    await ada.presses(await ada.is_asked(), "Once")
    await ada.is_answered("It is large.")
    assert "kept as `incoming/blob.bin`" in newest(model.requests()[0])
    (result,) = tool_results(model.requests()[1])
    assert without_marks(result).startswith("1024")


@on("files")
async def test_a_voice_message_without_ears(surface: Surface, model: Model) -> None:
    """No model for voice is set up: the model is told so, and what the owner can do about it."""
    ada = await surface.person()
    await ada.sends(File("voice.ogg", b"OggS" + bytes(200), "voice"))
    told = newest(await model.asked("voice messages are not understood here"))
    assert "auxiliary.transcription.model" in told


@on("gets files")
async def test_the_agent_sends_a_file(surface: Surface, model: Model) -> None:
    """It arrives with its name and every byte of it."""
    ada = await surface.person()
    text = "day,guests\nMonday,3\nTuesday,漢字\n"
    model.answers(
        "make a table",
        Reply(tool_calls=[Call("write_file", {"path": "guests.csv", "content": text})]),
        Reply(tool_calls=[Call("send_file", {"path": "guests.csv"})]),
        "There you are.",
    )
    await ada.says("make a table")
    await ada.is_answered("There you are.")
    await ada.until(lambda: bool(ada.files()))
    (file,) = ada.files()
    assert (file.name, file.data) == ("guests.csv", text.encode())
