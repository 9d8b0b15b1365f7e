"""The JSON API over a real socket: what each address answers, and what it says to bad input."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from agent.messages import Message, ToolCall
from agent.store import Address
from agent.untrusted import wrap_untrusted
from gateway.platforms.base import Health, Platform
from gateway.types import OWNER
from tests.support.gateways import Gate
from tests.support.web_harness import Chat, WebHarness, web_harness


class Pigeons:
    """A platform whose service cannot be reached."""

    name = "pigeons"
    where = "on the roof"
    health = Health("down", "It rains; trying again.")

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def test_health_says_ok(harness: WebHarness) -> None:
    """A supervisor, or the terminal client, can tell that Hermes is there."""
    assert await harness.get("/healthz") == (200, {"status": "ok", "service": "hermes", "platforms": {}})


async def test_health_tells_which_platform_is_down(tmp_path: Path) -> None:
    """With the reason. Hermes as a whole still answers, and says that not all is well."""
    platforms: list[Platform] = [Pigeons()]
    async with web_harness(tmp_path, platforms=platforms) as harness:
        platforms.append(harness.web)
        status, health = await harness.get("/healthz")
    assert (status, health["status"]) == (200, "degraded")
    assert health["platforms"] == {
        "pigeons": {"state": "down", "detail": "It rains; trying again."},
        "web": {"state": "up", "detail": ""},
    }


async def test_the_same_chat_id_opens_the_same_conversation(harness: WebHarness) -> None:
    """A terminal that comes back finds its conversation; without an id each call makes a new one."""
    first, again = await harness.open("desk", "terminal"), await harness.open("desk", "terminal")
    other = await harness.open("desk", "web")
    _, new = await harness.post("/api/conversations", {"platform": "web"})

    assert first.id == again.id
    assert len({first.id, other.id, new["id"]}) == 3


async def test_a_message_is_answered_and_stored(harness: WebHarness, chat: Chat) -> None:
    """The path of one message: accepted, announced under its id, streamed, stored as it was shown."""
    harness.script.will(["Six ", "letters."])
    async with chat.watch() as events:
        message_id = await chat.send("How many?")
        seen = await events.until("TurnDone")

    assert seen[0] == {"type": "TurnStarted", "message_id": message_id, "text": "How many?"}
    assert "".join(event["text"] for event in seen if event["type"] == "TextDelta") == "Six letters."
    assert events.numbers == sorted(set(events.numbers))
    assert [(each["role"], each["content"]) for each in await chat.transcript()] == [
        ("user", "How many?"),
        ("assistant", "Six letters."),
    ]


async def test_the_transcript_carries_tool_calls_and_their_results(harness: WebHarness, chat: Chat) -> None:
    """A client can draw the whole conversation from the transcript alone."""
    harness.script.will([ToolCall("c1", "look_up", '{"word": "wing"}')], ["Done."])
    await chat.ask("Look it up")

    _, call, result, answer = await chat.transcript()
    assert call["tool_calls"] == [{"id": "c1", "name": "look_up", "arguments": '{"word": "wing"}'}]
    assert (result["role"], result["tool_call_id"], result["name"]) == ("tool", "c1", "look_up")
    assert result["content"] == "wing: a word of 4 letters"
    assert answer["content"] == "Done."


async def test_limit_keeps_the_newest_messages(chat: Chat) -> None:
    """A client that shows one screen asks for one screen."""
    await chat.ask("one")
    await chat.ask("two")

    _, newest = await chat.harness.get(f"/api/conversations/{chat.id}/messages?limit=2")
    assert [each["content"] for each in newest] == ["two", "Yes."]


async def test_marks_for_the_model_are_not_sent(harness: WebHarness) -> None:
    """People see the origin of a text without the marks."""
    stored = await harness.store.sessions.open_conversation(Address("web", "forwards"), person=OWNER)
    await harness.store.sessions.append(
        stored.live_session_id, [Message("user", f"Look: {wrap_untrusted('news')}")]
    )
    _, (said,) = await harness.get(f"/api/conversations/{stored.id}/messages")
    assert said["content"] == "Look: news"


async def test_conversations_are_listed_newest_first(harness: WebHarness) -> None:
    """Both platforms of the owner in one list; a chat without a word in it is left out."""
    older, newer = await harness.open("a"), await harness.open("b", "terminal")
    await harness.open("silent")
    await older.ask("First question")
    await newer.ask("Second question")

    _, listed = await harness.get("/api/conversations")
    assert [(each["id"], each["title"], each["platform"], each["messages"]) for each in listed] == [
        (newer.id, "Second question", "terminal", 2),
        (older.id, "First question", "web", 2),
    ]
    assert listed[0]["updated_at"] >= listed[1]["updated_at"]


async def test_single_questions_are_not_listed(harness: WebHarness) -> None:
    """`hermes chat -q` makes a conversation for each; hundreds of them must not push the others out."""
    await (await harness.open("main", "terminal")).ask("A conversation")
    for number in range(60):
        asked = await harness.store.sessions.open_conversation(
            Address("terminal", f"once_{number}"), person=OWNER
        )
        await harness.store.sessions.append(asked.live_session_id, [Message("user", "A question")])

    _, listed = await harness.get("/api/conversations")
    assert [each["title"] for each in listed] == ["A conversation"]


async def test_stop_ends_the_turn_and_keeps_what_was_said(harness: WebHarness, chat: Chat) -> None:
    """Stop is true while something runs, and false otherwise."""
    gate = Gate()
    harness.script.will(["The beginning", gate, " and the end"])
    assert await chat.stop() is False

    async with chat.watch() as events:
        await chat.send("Talk")
        await gate.reached.wait()
        assert await chat.stop() is True
        last = (await events.until("TurnDone"))[-1]

    assert last["stopped"] is True
    assert (await chat.transcript())[-1]["content"] == "The beginning"


async def test_a_command_that_overtakes_says_so(harness: WebHarness, chat: Chat) -> None:
    """`/stop` starts no turn, so its sender does not wait for one."""
    path = f"/api/conversations/{chat.id}/messages"
    _, overtaking = await harness.post(path, {"text": "/stop"})
    _, ordinary = await harness.post(path, {"text": "/help"})
    assert (overtaking["overtook"], ordinary["overtook"]) == (True, False)


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"text": ""}, 400, "empty"),
        ({"text": " \n\t"}, 400, "empty"),
        ({"text": 7}, 400, "must be a string"),
        ({"text": None}, 400, "must be a string"),
        ({}, 400, "must be a string"),
        (["text"], 400, "JSON object"),
        ({"text": "\ud800"}, 400, "half a character"),
        ({"text": "x" * 100_001}, 413, "100 kB"),
        ({"text": "ü" * 50_001}, 413, "100 kB"),
    ],
)
async def test_a_bad_message_is_refused_with_a_sentence(
    harness: WebHarness, chat: Chat, body: Any, status: int, word: str
) -> None:
    """Nothing of it is stored, and nothing runs."""
    got, answer = await harness.post(f"/api/conversations/{chat.id}/messages", body)
    assert (got, word in answer["error"]) == (status, True), answer
    assert await chat.transcript() == []


async def test_a_huge_body_is_refused_before_it_is_read(harness: WebHarness, chat: Chat) -> None:
    """Ten megabytes are not collected in memory just to be measured."""
    body = io.BytesIO(b"x" * 10_000_000)  # not JSON, so it is not parsed
    url, headers = f"{harness.url}/api/conversations/{chat.id}/messages", {"Content-Type": "application/json"}
    async with harness.http.post(url, data=body, headers=headers) as response:
        assert response.status == 413
        assert "100 kB" in (await response.json())["error"]


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
async def test_a_body_that_is_not_json_is_refused(harness: WebHarness, raw: bytes) -> None:
    """Broken, undecodable or absurdly nested: the same sentence."""
    headers = {"Content-Type": "application/json"}
    async with harness.http.post(f"{harness.url}/api/conversations", data=raw, headers=headers) as response:
        assert response.status == 400
        assert (await response.json())["error"] == "The body is not valid JSON."


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"platform": "telegram"},
        {"platform": ["web"]},
        {"platform": "web", "chat_id": 7},
        {"platform": "web", "chat_id": ""},
        {"platform": "web", "chat_id": "x" * 201},
        {"platform": "web", "chat_id": "\ud800"},
    ],
)
async def test_a_conversation_is_opened_only_on_our_platforms(harness: WebHarness, body: Any) -> None:
    """Another platform's conversations cannot be reached by naming it."""
    status, answer = await harness.post("/api/conversations", body)
    assert status == 400
    assert answer["error"].endswith(".")


@pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=many", "limit=٣", "limit=" + "9" * 5_000])
async def test_a_bad_number_is_refused(harness: WebHarness, chat: Chat, query: str) -> None:
    """Also digits of other scripts and numbers without end."""
    status, answer = await harness.get(f"/api/conversations/{chat.id}/messages?{query}")
    assert status == 400
    assert "whole number" in answer["error"]


async def test_the_named_charset_does_not_matter(harness: WebHarness) -> None:
    """JSON is UTF-8, even if the header says otherwise."""
    headers = {"Content-Type": "application/json; charset=klingon"}
    body = '{"platform": "web", "chat_id": "日本"}'.encode()
    async with harness.http.post(f"{harness.url}/api/conversations", data=body, headers=headers) as response:
        assert (await response.json())["id"] == (await harness.open("日本")).id


async def _foreign_ids(harness: WebHarness) -> list[str]:
    """Conversations that exist but are not the owner's at this desk."""
    addresses = [(Address("telegram", "1"), OWNER), (Address("web", "1"), "somebody else")]
    conversations = [
        await harness.store.sessions.open_conversation(at, person=person) for at, person in addresses
    ]
    for conversation in conversations:
        await harness.store.sessions.append(conversation.live_session_id, [Message("user", "private")])
    return [conversation.id for conversation in conversations]


async def test_other_conversations_do_not_exist_here(harness: WebHarness) -> None:
    """Unknown, another platform's and another person's ids get the same 404, and are not listed."""
    for conversation_id in ["nope", "%00", "..%2f..", *await _foreign_ids(harness)]:
        path = f"/api/conversations/{conversation_id}"
        answers = [
            await harness.get(f"{path}/messages"),
            await harness.get(f"{path}/events"),
            await harness.post(f"{path}/messages", {"text": "hello"}),
            await harness.post(f"{path}/stop", {}),
            await harness.post(f"{path}/approvals/x", {"choice": "once"}),
            await harness.get(f"{path}/files/x"),
        ]
        assert [status for status, _ in answers] == [404] * 6
        assert all("Not found" in answer["error"] for _, answer in answers)
    assert await harness.get("/api/conversations") == (200, [])


async def test_unknown_addresses_and_methods_get_a_sentence(harness: WebHarness) -> None:
    """A typo in a script is answered in JSON, as everything under /api is."""
    assert await harness.get("/api/nothing") == (404, {"error": _starting("Not found")})
    async with harness.http.delete(
        f"{harness.url}/api/conversations", headers={"Content-Type": "application/json"}
    ) as response:
        assert (response.status, await response.json()) == (405, {"error": _starting("This address")})


async def test_a_message_sent_again_with_its_key_is_taken_once(harness: WebHarness, chat: Chat) -> None:
    """A client without an answer can safely send again."""
    harness.script.will(["Once."])
    where, body = f"/api/conversations/{chat.id}/messages", {"text": "hello", "key": "k-1"}
    (first, answer), (again, same) = await harness.post(where, body), await harness.post(where, body)
    assert (first, again) == (202, 202) and answer == same
    stored = [
        message.id for message in await harness.store.sessions.transcript(chat.id) if message.role == "user"
    ]
    assert stored in ([], [answer["message_id"]])
    waiting = [taken.id for taken in await harness.gateway.store.inbox.waiting("web")]
    assert waiting in ([], [answer["message_id"]])


@pytest.mark.parametrize("key", [7, None, "x" * 101, ["a"]])
async def test_a_key_that_is_none(harness: WebHarness, chat: Chat, key: object) -> None:
    status, answer = await harness.post(
        f"/api/conversations/{chat.id}/messages", {"text": "hello", "key": key}
    )
    assert status == 400 and "`key`" in answer["error"]


async def test_a_gateway_that_is_closing_keeps_what_comes(harness: WebHarness, chat: Chat) -> None:
    """A message during shutdown is accepted because it is on the disk: the next start answers it."""
    await harness.gateway.close()
    status, answer = await harness.post(f"/api/conversations/{chat.id}/messages", {"text": "hello"})
    assert status == 202
    (waiting,) = await harness.gateway.store.inbox.waiting("web")
    assert waiting.id == answer["message_id"]


class _starting(str):
    """Equal to any text that begins with it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.startswith(str(self))

    __hash__ = str.__hash__
