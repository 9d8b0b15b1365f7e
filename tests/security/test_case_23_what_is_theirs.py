"""A person finds, resumes and exports only their own conversations, with any id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.messages import Message, ToolCall
from agent.store import Address
from gateway.types import Author, Place
from tests.support.receiver_harness import ANNA, BOB, GROUP, Bot, running_bot
from tests.support.watch import until
from tests.support.web_harness import Chat, WebHarness, web_harness

UNKNOWN = "There is no such session in this conversation; /sessions lists them."
SECRET = "heliotrope"


async def _told(bot: Bot, text: str, author: Author, place: Place | None = None) -> str:
    """What Hermes answers to a command."""
    before = len(bot.service.messages)
    await bot.hears(text, author, place)
    await until(lambda: len(bot.service.messages) > before)
    return bot.service.messages[-1].text


async def _ids(bot: Bot) -> tuple[str, str]:
    """The conversation and the session in which the secret was told."""
    (overview,) = await bot.store.sessions.conversations()
    return overview.conversation.id, overview.conversation.live_session_id


@pytest.mark.parametrize(
    ("who", "place"),
    [
        (BOB, None),
        (ANNA, GROUP),
        (BOB, GROUP),
        (ANNA, Place("1", "7")),
    ],
)
async def test_an_id_of_somebody_else_opens_nothing(tmp_path: Path, who: Author, place: Place | None) -> None:
    """Whole, shortened or as the id of a conversation: from another person, a group, a thread of the same person."""
    async with running_bot(tmp_path, f"Noted: {SECRET}.", admins=[2]) as bot:
        await bot.hears(f"My secret is the {SECRET}.")
        await bot.asked(1)
        await until(lambda: bool(bot.service.messages))
        conversation, session = await _ids(bot)
        for wanted in (session, session[:-4], conversation, f"{session} x"):
            assert await _told(bot, f"/resume {wanted}", who, place) == UNKNOWN
        assert SECRET not in await _told(bot, "/sessions", who, place)
        assert SECRET not in await _told(bot, "/branch x", who, place)


@pytest.mark.parametrize("groups", ["shared", "per_person"])
async def test_in_a_group_with_a_conversation_each(tmp_path: Path, groups: str) -> None:
    """Where each member has a conversation, another member's is as unknown as a stranger's; a shared one is shared."""
    async with running_bot(tmp_path, "Noted.", groups=groups) as bot:
        await bot.hears(f"My secret is the {SECRET}.", ANNA, GROUP)
        await bot.asked(1)
        await until(lambda: bool(bot.service.messages))
        _, session = await _ids(bot)
        resumed = await _told(bot, f"/resume {session}", BOB, GROUP)
        found = await _told(bot, f"/search {SECRET}", BOB, GROUP)
        if groups == "shared":
            assert resumed == "You are in that session already." and "secret is the" in found
        else:
            assert resumed == UNKNOWN and "Nothing found" in found


async def _somebody_elses(harness: WebHarness) -> list[str]:
    """Ids of conversations and sessions that exist: of a chat, and of another person on the page."""
    ids = []
    for address, person in ((Address("telegram", "1"), "telegram:1"), (Address("web", "1"), "another")):
        conversation = await harness.store.sessions.open_conversation(address, person=person)
        await harness.store.sessions.append(conversation.live_session_id, [Message("user", f"My {SECRET}")])
        ids += [conversation.id, conversation.live_session_id]
    return ids


async def test_the_page_and_its_api(tmp_path: Path) -> None:
    """Pages, data, streams and files answer the same for another person's id as for an unknown one."""
    async with web_harness(tmp_path) as harness:
        mine = await harness.open()
        missing = [await harness.get(path.format(id="conv_nope")) for path in _ADDRESSES]
        for foreign in await _somebody_elses(harness):
            assert [await harness.get(path.format(id=foreign)) for path in _ADDRESSES] == missing
            status, answer = await harness.post(f"/api/conversations/{foreign}/messages", {"text": "hi"})
            assert (status, "Not found" in answer["error"]) == (404, True)
            assert UNKNOWN in await _notice(mine, f"/resume {foreign}")
        assert {status for status, _ in missing} == {404}
        assert "Nothing found" in await _notice(mine, f"/search {SECRET}")
        everything = [await harness.get(path) for path in ("/new", "/api/conversations", f"/c/{mine.id}")]
        assert f"My {SECRET}" not in str(everything)


_ADDRESSES = (
    "/c/{id}",
    "/c/{id}/live",
    "/api/conversations/{id}/messages",
    "/api/conversations/{id}/events",
    "/api/conversations/{id}/files/x",
)


async def _notice(chat: Chat, command: str) -> str:
    turn = await chat.ask(command)
    return str(next(event["text"] for event in turn if event["type"] == "Notice"))


async def test_a_file_of_another_conversation(tmp_path: Path) -> None:
    """Its number is good only where the file was sent, though both conversations are the owner's."""
    async with web_harness(tmp_path) as harness:
        chat, other = await harness.open(), await harness.open("other")
        (tmp_path / chat.id).mkdir()
        (tmp_path / chat.id / "x.txt").write_text(SECRET)
        harness.script.will([ToolCall("c1", "send_file", json.dumps({"path": "x.txt"}))], "Sent.")
        await chat.ask("send it")
        _, page = await harness.get(f"/c/{chat.id}")
        link = page.partition(f"/api/conversations/{chat.id}/files/")[2].partition('"')[0]
        assert (await harness.get(f"/api/conversations/{chat.id}/files/{link}"))[0] == 200
        assert (await harness.get(f"/api/conversations/{other.id}/files/{link}"))[0] == 404
