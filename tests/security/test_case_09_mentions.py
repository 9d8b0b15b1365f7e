"""No text of a model notifies a person, at any position of an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.events import FileSent, Notice, TextDelta, TurnDone, TurnStarted
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.text import Entity
from tests.support.chat_harness import FAST, ChatHarness
from tests.support.discord_harness import Bot, place, running
from tests.support.telegram_harness import running as running_on_telegram


async def test_in_every_part_of_an_answer_on_discord(tmp_path: Path) -> None:
    """While it grows by edits, in its second message, in a notice, in a file's name and in its caption."""
    async with FakeDiscord() as server, running(Bot(server)) as bot:
        ben, role = server.person("Ben"), server.guild.add_role("crew", mentionable=True)
        ringing = f"@everyone @here {role.mention} {ben.mention}"
        rest = "\n\n".join(["", "word " * 380, f"{ringing} in the second", "word " * 30, ringing])
        name = f"@everyone {role.mention}.txt"
        (tmp_path / name).write_bytes(b"x")
        room = ChatHarness(bot.port, place=place(server.general), timing=FAST, streaming=True)  # type: ignore[arg-type]
        room.play(TurnStarted("m1", "hi"), TextDelta(f"{ringing} begins"))
        await server.general.until(lambda: any("begins" in text for text in server.general.texts), within=10)
        room.play(
            TextDelta(rest),
            Notice(f"{ringing} noticed"),
            FileSent(str(tmp_path), name, name, ringing),
            TurnDone(f"{ringing} begins{rest}"),
        )
        await room.delivery.close()
        answers = server.general.answers
        first, second = (
            next(shown for shown in answers if words in shown.content) for words in ("begins", "second")
        )
        assert first is not second and len(first.versions) > 1
        assert [len(shown.attachments) for shown in answers].count(1) == 1
        assert not server.pings()
        bodies = [call.json for call in server.calls if call.verb in ("send_message", "edit_message")]
        assert all(body["allowed_mentions"]["parse"] == [] for body in bodies)


@pytest.mark.parametrize("count", [1, 100, 101, 550])
async def test_names_on_telegram_however_many(count: int) -> None:
    """Telegram finds names by itself where nothing else stands, and takes a hundred marks in a message."""
    text = " ".join(f"@n{number:04}" for number in range(count))
    async with FakeTelegram() as server, running_on_telegram(server) as harness:
        await harness.says("hello")
        sent = await harness.port.send(harness.direct, text)
        await harness.port.edit(harness.direct, sent, f"{text} again")
        await harness.port.send(harness.direct, f"**bold** {text}", formatted=True)
        await harness.port.send_file(harness.direct, "@everyone.txt", b"x", caption=text[:1000])
        for message in harness.ada.chat.from_bot:
            assert "@n0000" in message.text
            assert _found_by_telegram(message.text, message.entities) == []


def _found_by_telegram(text: str, entities: list[Entity]) -> list[str]:
    """Names outside of links and code. All characters here count once."""
    covered: set[int] = set()
    for entity in entities:
        if entity["type"] in ("text_link", "code", "pre"):
            covered |= set(range(entity["offset"], entity["offset"] + entity["length"]))
    return [text[at : at + 6] for at, char in enumerate(text) if char == "@" and at not in covered]
