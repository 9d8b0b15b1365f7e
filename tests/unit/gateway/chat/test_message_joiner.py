"""Parts of one message that arrive one by one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.chat.message_joiner import JoinedMessage, MessageJoiner
from gateway.types import Attachment, Author, ChatMessage, Place, Quote

HERE, GROUP = Place("1"), Place("-5", kind="group", group_id="-5")
ANNA, BOB = Author("1", "Anna"), Author("2", "Bob")


class Harness:
    """A joiner, and the messages that it made, in the order of their first parts."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.joiner = MessageJoiner(seconds)
        self.messages: list[JoinedMessage] = []

    def add(self, *parts: ChatMessage) -> None:
        for each in parts:
            if joined := self.joiner.add(each):
                self.messages.append(joined)

    async def whole(self) -> list[ChatMessage]:
        """All messages, once they are due."""
        async with asyncio.timeout(5):
            return [await each.whole() for each in self.messages]

    @property
    def due(self) -> list[list[str]]:
        """The texts of the parts of each message that waits for nothing more."""
        return [[part.text for part in each.parts] for each in self.messages if each.is_due()]


def part(number: int, text: str, author: Author = ANNA, *, full: bool = False) -> ChatMessage:
    return ChatMessage(str(number), HERE, author, text, maybe_unfinished=full)


def photo(number: int, album: str, text: str = "") -> ChatMessage:
    async def read(most: int) -> bytes:
        return b""

    file = Attachment(f"{number}.jpg", "image/jpeg", "image", 1, read)
    return ChatMessage(str(number), HERE, ANNA, text, attachments=(file,), album=album)


async def test_an_ordinary_message_does_not_wait() -> None:
    """Joining costs no time where one message is sent."""
    harness = Harness(seconds=60)
    harness.add(part(1, "hello"))
    assert harness.due == [["hello"]]


async def test_a_paste_of_fifty_parts_is_one_message() -> None:
    """Its last part is not full; the message keeps the order of its parts and the first one's id."""
    harness = Harness()
    harness.add(*(part(number, f"part {number}", full=number < 50) for number in range(1, 51)))
    (joined,) = await harness.whole()
    assert joined.text.split("\n") == [f"part {number}" for number in range(1, 51)]
    assert joined.id == "1"


async def test_a_full_message_alone_is_due_after_a_moment() -> None:
    """Nothing follows it."""
    harness = Harness()
    harness.add(part(1, "long", full=True))
    assert harness.due == []
    assert [message.text for message in await harness.whole()] == ["long"]


async def test_an_album_of_ten_is_one_message() -> None:
    """With all its captions and pictures."""
    harness = Harness()
    harness.add(*(photo(number, "a", f"caption {number}" if number < 3 else "") for number in range(10)))
    (joined,) = await harness.whole()
    assert [file.name for file in joined.attachments] == [f"{number}.jpg" for number in range(10)]
    assert joined.text == "caption 0\ncaption 1\ncaption 2"


async def test_two_albums_are_two_messages() -> None:
    """The second one makes the first due."""
    harness = Harness(seconds=60)
    harness.add(photo(1, "a", "one"), photo(2, "a", "two"), photo(3, "b", "three"))
    assert harness.due == [["one", "two"]]


async def test_a_message_of_another_person_is_not_joined() -> None:
    """It is due while the paste is incomplete."""
    harness = Harness()
    harness.add(part(1, "begin", full=True), part(2, "hi", BOB))
    assert harness.due == [["hi"]]
    harness.add(part(3, "end"))
    assert [message.text for message in await harness.whole()] == ["begin\nend", "hi"]


async def test_a_command_is_never_part_of_a_paste() -> None:
    """The paste is due before it."""
    harness = Harness(seconds=60)
    harness.add(part(1, "long", full=True), part(2, "/reset"))
    assert harness.due == [["long"], ["/reset"]]


async def test_a_reply_begins_a_message() -> None:
    """A paste does not continue with a reply."""
    harness = Harness(seconds=60)
    reply = replace(part(2, "yes"), quote=Quote("Bob", "ok?"))
    harness.add(part(1, "long", full=True), reply)
    assert harness.due == [["long"], ["yes"]]


async def test_one_mention_is_enough() -> None:
    """In a group the caption of one picture addresses the bot with all of them."""
    harness = Harness()
    first, second = (replace(photo(number, "a"), place=GROUP, addressed=number == 2) for number in (1, 2))
    harness.add(first, second)
    (joined,) = await harness.whole()
    assert joined.addressed


async def test_a_part_can_be_edited_until_the_message_is_due() -> None:
    harness = Harness()
    harness.add(part(1, "lnog", full=True))
    assert harness.joiner.replace(part(1, "long"))
    assert [message.text for message in await harness.whole()] == ["long"]
    assert not harness.joiner.replace(part(1, "longer"))


async def test_parts_written_far_apart_are_not_one_message() -> None:
    """After an outage they arrive together."""
    harness = Harness()
    early, late = (
        replace(part(1, "long", full=True), written_at=1000.0),
        replace(part(2, "late"), written_at=1900.0),
    )
    harness.add(early, late)
    assert [message.text for message in await harness.whole()] == ["long", "late"]


async def test_a_closed_joiner_cancels_what_is_not_due() -> None:
    """Each part is in the inbox; after the next start they are joined again."""
    harness = Harness(seconds=60)
    harness.add(part(1, "long", full=True), part(2, "also", BOB, full=True))
    harness.joiner.close()
    for message in harness.messages:
        with pytest.raises(asyncio.CancelledError):
            await message.whole()


async def test_a_joined_message_names_its_parts() -> None:
    """When it is answered, all of them are."""
    harness = Harness()
    harness.add(part(1, "one", full=True), part(2, "two", full=True), part(3, "three"))
    (joined,) = await harness.whole()
    assert (joined.id, joined.further_parts) == ("1", ("2", "3"))
