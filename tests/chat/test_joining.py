"""Parts of one message that arrive one by one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.chat.message_joiner import MessageJoiner
from gateway.types import Attachment, Author, ChatMessage, Place, Quote

HERE, GROUP = Place("1"), Place("-5", kind="group", group_id="-5")
ANNA, BOB = Author("1", "Anna"), Author("2", "Bob")


class Counter:
    """Where joined messages arrive."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.arrived: asyncio.Queue[ChatMessage] = asyncio.Queue()
        self.joining = MessageJoiner(seconds, self.arrived.put_nowait)

    def add(self, *messages: ChatMessage) -> None:
        for message in messages:
            self.joining.add(message)

    async def next(self) -> ChatMessage:
        return await asyncio.wait_for(self.arrived.get(), 5)


def part(number: int, text: str, author: Author = ANNA, *, full: bool = False) -> ChatMessage:
    return ChatMessage(str(number), HERE, author, text, maybe_unfinished=full)


def photo(number: int, album: str, text: str = "") -> ChatMessage:
    async def read(most: int) -> bytes:
        return b""

    file = Attachment(f"{number}.jpg", "image/jpeg", "image", 1, read)
    return ChatMessage(str(number), HERE, ANNA, text, attachments=(file,), album=album)


async def test_an_ordinary_message_is_not_held_back() -> None:
    """Joining costs nobody time who sends one message."""
    counter = Counter(seconds=60)
    counter.add(part(1, "hello"))
    assert counter.arrived.get_nowait().text == "hello"


async def test_a_paste_of_fifty_parts_is_one_message() -> None:
    """Its last part is not full; it keeps its order and the first one's id."""
    counter = Counter()
    counter.add(*(part(number, f"part {number}", full=number < 50) for number in range(1, 51)))
    joined = await counter.next()
    assert joined.text.split("\n") == [f"part {number}" for number in range(1, 51)]
    assert joined.id == "1"
    assert counter.arrived.empty()


async def test_a_full_message_alone_arrives_after_a_moment() -> None:
    """Nothing follows it."""
    counter = Counter()
    counter.add(part(1, "long", full=True))
    assert counter.arrived.empty()
    assert (await counter.next()).text == "long"


async def test_an_album_of_ten_is_one_message() -> None:
    """With all its captions and pictures."""
    counter = Counter()
    counter.add(*(photo(number, "a", f"caption {number}" if number < 3 else "") for number in range(10)))
    joined = await counter.next()
    assert [file.name for file in joined.attachments] == [f"{number}.jpg" for number in range(10)]
    assert joined.text == "caption 0\ncaption 1\ncaption 2"


async def test_two_albums_are_two_messages() -> None:
    """The second does not wait for the first's time to run out."""
    counter = Counter(seconds=60)
    counter.add(photo(1, "a"), photo(2, "a"), photo(3, "b"))
    assert [file.name for file in counter.arrived.get_nowait().attachments] == ["1.jpg", "2.jpg"]


async def test_others_are_not_mixed_in() -> None:
    """Somebody else's message passes by while a paste is incomplete."""
    counter = Counter()
    counter.add(part(1, "begin", full=True), part(2, "hi", BOB), part(3, "end"))
    assert (await counter.next()).text == "hi"
    assert (await counter.next()).text == "begin\nend"


async def test_a_command_is_never_part_of_a_paste() -> None:
    """What was held back goes first."""
    counter = Counter(seconds=60)
    counter.add(part(1, "long", full=True), part(2, "/reset"))
    assert [counter.arrived.get_nowait().text for _ in range(2)] == ["long", "/reset"]


async def test_a_reply_begins_something_new() -> None:
    """A paste does not go on with a reply."""
    counter = Counter(seconds=60)
    reply = replace(part(2, "yes"), quote=Quote("Bob", "ok?"))
    counter.add(part(1, "long", full=True), reply)
    assert [counter.arrived.get_nowait().text for _ in range(2)] == ["long", "yes"]


async def test_one_mention_is_enough() -> None:
    """In a group the caption of one picture addresses the bot with all of them."""
    counter = Counter()
    first, second = (replace(photo(number, "a"), place=GROUP, addressed=number == 2) for number in (1, 2))
    counter.add(first, second)
    assert (await counter.next()).addressed


async def test_a_part_that_is_held_back_can_be_changed() -> None:
    """Its author was quick; what was delivered already is beyond that."""
    counter = Counter()
    counter.add(part(1, "lnog", full=True))
    assert counter.joining.replace(part(1, "long"))
    assert (await counter.next()).text == "long"
    assert not counter.joining.replace(part(1, "longer"))


async def test_what_was_written_far_apart_is_not_one_message() -> None:
    """After an absence it arrives at once."""
    counter = Counter()
    early, late = (
        replace(part(1, "long", full=True), written_at=1000.0),
        replace(part(2, "late"), written_at=1900.0),
    )
    counter.add(early, late)
    assert [(await counter.next()).text for _ in range(2)] == ["long", "late"]


async def test_after_the_end_nothing_is_delivered() -> None:
    """Each part is in the inbox; at the next start they are put together again."""
    counter = Counter(seconds=0.001)
    counter.add(part(1, "long", full=True), part(2, "also", BOB, full=True))
    counter.joining.close()
    await asyncio.sleep(0.01)
    assert counter.arrived.empty()


async def test_a_joined_message_names_its_parts() -> None:
    """When it is answered, all of them are."""
    counter = Counter()
    counter.add(part(1, "one", full=True), part(2, "two", full=True), part(3, "three"))
    joined = await counter.next()
    assert (joined.id, joined.further_parts) == ("1", ("2", "3"))
