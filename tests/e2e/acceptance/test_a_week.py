"""A week in two chats at once. Anna runs a shop and writes on Telegram; Ben plans a garden and writes on Discord.

Both talk to the same Hermes, which is stopped every night, once by pulling the plug. Each day holds more than the
model's window, so the past is summarised again and again. By Sunday nothing is lost and nothing has leaked.
"""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.store.sqlite.store import SqliteStore
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.model_server import Seen
from tests.fakes.openai.server import FakeOpenAI
from tests.fakes.script import Reply
from tests.fakes.telegram.server import FakeTelegram
from tests.support.hermes_process import HermesProcess, hermes
from tests.support.lineage import sound_lineages
from tests.support.long_chat import WINDOW, is_summary_prompt, small_window

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MESSAGES_A_DAY = 5

SHOP = "The shop on Harbour Street opens at nine and the delivery van comes before that. "
GARDEN = "The garden behind the old school needs beans, marigolds and somebody to mend the gate. "


class Assistant:
    """The model: it repeats the word it was given, so that every answer can be told from every other."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Every request as one text."""
        self.summaries: list[str] = []
        """What it was told when it had to summarise."""

    def __call__(self, seen: Seen) -> Reply:
        whole = str(seen.body["messages"])
        newest = str(seen.body["messages"][-1]["content"])
        if is_summary_prompt(seen):
            self.summaries.append(newest)
            return _said(
                "## Goal\nTo get through the week. " + " ".join(sorted(set(re.findall(r"fact-\w+", whole))))
            )
        if [tool["function"]["name"] for tool in seen.body.get("tools", [])] == ["memory"]:
            return _said("nothing")
        self.asked.append(whole)
        (word,) = re.findall(r"\b(?:anna|ben)-\w+-\d+\b", newest)
        return _said(f"Noted: **{word}**.")


@dataclass
class Diary:
    """One of the two, and what they said and were told."""

    name: str
    chatter: str
    say: Callable[[str], Awaitable[str]]
    """Sends a message and gives the answer that became visible."""
    said: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)

    async def spend(self, day: str) -> None:
        for number in range(MESSAGES_A_DAY):
            await self.write(f"{self.name}-{day}-{number}", self.chatter * 18)

    async def write(self, word: str, about: str) -> None:
        text = f"This is {word}. {about}".strip()
        answer = await self.say(text)
        assert answer == f"Noted: {word}.", answer
        self.said.append(text)
        self.answered.append(word)


@pytest.mark.timeout(300)
async def test_a_week(tmp_path: Path) -> None:
    """Seven days, six nights, one power cut, a `/compress billing` and a `/reset`."""
    model = Assistant()
    async with (
        FakeOpenAI(context_length=WINDOW) as server,
        FakeTelegram() as telegram,
        FakeDiscord() as discord,
    ):
        server.script(model)
        async with _hermes(tmp_path / "home", server, telegram, discord) as (process, anna, ben):
            # Monday. Both introduce what the week will be about.
            await anna.write(
                "anna-Monday-100", "Remember fact-invoice: the landlord's invoice number is INV-4711."
            )
            await ben.write("ben-Monday-100", "Remember fact-marigold: the marigolds go to the south wall.")
            await anna.spend("Monday")
            await ben.spend("Monday")
            await process.restart()

            # Tuesday is ordinary. At night the machine loses power.
            await anna.spend("Tuesday")
            await ben.spend("Tuesday")
            await process.restart(signal.SIGKILL)

            # Wednesday. The past has been summarised by now, but it can still be looked up, by its owner only.
            await anna.spend("Wednesday")
            assert "INV-4711" in await anna.say("/search landlord invoice")
            assert "INV-4711" not in await ben.say("/search landlord invoice")

            # Thursday. Anna wants to go on with the bills and makes room for them.
            told = await anna.say("/compress billing")
            assert told.startswith("Compressed:") and "Focus: billing" in told
            assert "billing" in model.summaries[-1]
            await anna.write("anna-Thursday-0", "Where were we with the bills?")
            await ben.spend("Thursday")
            await process.restart()

            # Friday and Saturday. Ben is done with the garden and resets his session.
            await ben.spend("Friday")
            assert "new session" in await ben.say("/reset")
            await ben.write("ben-Saturday-0", "Now about the wedding.")
            assert "garden" not in model.asked[-1].lower(), "a new session does not know the old one"
            await anna.spend("Saturday")
            await process.restart()

            # Sunday. Everything that was said in the week is still there.
            assert "marigold" in await ben.say("/search marigolds south wall")
            await anna.write("anna-Sunday-0", "A quiet day.")
            await ben.write("ben-Sunday-0", "A quiet day.")

    _nothing_leaked(model, anna, ben)
    _nothing_was_too_much(server)
    await _nothing_was_lost(tmp_path / "home" / "state.db", anna, ben)


def _nothing_leaked(model: Assistant, anna: Diary, ben: Diary) -> None:
    """No request to the model ever held words of both."""
    for request in (*model.asked, *model.summaries):
        assert not ("anna-" in request and "ben-" in request)


def _nothing_was_too_much(server: FakeOpenAI) -> None:
    """Every request fitted into the window, although each day alone would not have."""
    assert server.refusals == []


async def _nothing_was_lost(database: Path, anna: Diary, ben: Diary) -> None:
    """One row for each message, in order; one unbroken line of sessions for each of the two."""
    lineages = sound_lineages(database)
    store = await SqliteStore.open(database, read_only=True)
    try:
        by_platform = {
            overview.conversation.address.platform: overview.conversation
            for overview in await store.sessions.conversations()
        }
        for diary, platform in ((anna, "telegram"), (ben, "discord")):
            conversation = by_platform[platform]
            transcript = await store.sessions.transcript(conversation.id)
            assert [message.content for message in transcript if message.role == "user"] == diary.said
            answers = [message.content for message in transcript if message.role == "assistant"]
            assert answers == [f"Noted: **{word}**." for word in diary.answered]
            assert lineages[conversation.id].reasons.count("compression") >= 2, "several splits by themselves"
        assert "command" in lineages[by_platform["telegram"].id].reasons, "/compress billing"
        assert "reset" in lineages[by_platform["discord"].id].reasons, "/reset"
    finally:
        await store.close()


@asynccontextmanager
async def _hermes(
    home: Path, model: FakeOpenAI, telegram: FakeTelegram, discord: FakeDiscord
) -> AsyncIterator[tuple[HermesProcess, Diary, Diary]]:
    anna, ben = telegram.person(first_name="Anna"), discord.person("Ben")
    config = small_window(model, memory_flush=False)
    config["platforms"] = {
        "telegram": {"token": telegram.token, "base_url": telegram.url, "allowed_users": [anna.id]},
        "discord": {
            "token": discord.token,
            "api_base": discord.api_base,
            "gateway_url": discord.gateway_url,
            "allowed_users": [int(ben.id)],
        },
    }

    async def anna_says(text: str) -> str:
        sent = await anna.says(text)
        return (await anna.chat.answer_after(sent, _is_final, timeout=30)).text

    async def ben_says(text: str) -> str:
        before = len(ben.dm().answers)
        await ben.says(text)
        await ben.dm().until(
            lambda: len(ben.dm().answers) > before and _is_final(ben.dm().answers[-1]), within=30
        )
        return ben.dm().answers[-1].content.replace("**", "")

    async with hermes(home, config) as process:
        yield process, Diary("anna", SHOP, anna_says), Diary("ben", GARDEN, ben_says)


def _is_final(message: object) -> bool:
    """Not a line about what Hermes is doing, and not a sentence that still grows."""
    text = str(getattr(message, "text", "") or getattr(message, "content", ""))
    return not text.startswith("🗜") and not text.endswith("▌")


def _said(text: str) -> Reply:
    return Reply(text, chunks=[text])
