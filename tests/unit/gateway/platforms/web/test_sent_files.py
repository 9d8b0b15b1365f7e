"""Files the agent sends: what can be downloaded, how, and that nothing else can."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.messages import Message, ToolCall
from gateway.store.sqlite.store import SqliteStore
from tests.support.web_harness import Chat, WebHarness, web_harness

LINK = re.compile(r'href="(/api/conversations/[^"]*/files/[^"]*)"')


def sending(path: str) -> ToolCall:
    return ToolCall("c1", "send_file", f'{{"path": "{path}", "caption": "Here it is."}}')


async def sent(chat: Chat, folder: Path, path: str = "report.md", data: bytes = b"# Yes\n") -> str:
    """The address of a file that was sent."""
    file = folder / chat.id / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    chat.harness.script.will([sending(path)], ["Sent."])
    await chat.ask("Send it")
    _, page = await chat.harness.get(f"/c/{chat.id}")
    return str(LINK.findall(page)[-1])


async def downloaded(harness: WebHarness, address: str) -> bytes:
    async with harness.http.get(harness.url + address) as response:
        assert response.status == 200
        return await response.read()


async def test_a_sent_file_is_downloaded_and_never_shown(
    harness: WebHarness, chat: Chat, tmp_path: Path
) -> None:
    """Byte for byte, under its name, and as nothing a browser would render, even if it is a page."""
    data = b"<script>alert(1)</script>\0\xff"
    address = await sent(chat, tmp_path, "out/Übersicht \u2603.html", data)
    async with harness.http.get(harness.url + address) as response:
        assert (response.status, await response.read()) == (200, data)
        assert response.content_type == "application/octet-stream"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        disposition = response.headers["Content-Disposition"]
    assert disposition == "attachment; filename*=UTF-8''%C3%9Cbersicht%20%E2%98%83.html"


async def test_the_page_and_its_stream_give_the_same_link(
    harness: WebHarness, chat: Chat, tmp_path: Path
) -> None:
    """What a tab that was open saw is what a reload finds."""
    address = await sent(chat, tmp_path)
    async with chat.watch(f"/c/{chat.id}/live") as updates:
        drawn = await updates.until("end_turn")
    links = [link for update in drawn for link in LINK.findall(update.get("html", ""))]
    assert links == [address] * 2  # in what is stored, and in the last turn, which is drawn over it


async def test_the_link_works_after_a_restart(tmp_path: Path) -> None:
    """It rests on what is stored, not on what a process remembers."""
    database = tmp_path / "state.db"
    async with web_harness(tmp_path, await SqliteStore.open(database)) as harness:
        address = await sent(await harness.open(), tmp_path)
    async with web_harness(tmp_path, await SqliteStore.open(database)) as harness:
        assert await downloaded(harness, address) == b"# Yes\n"


async def test_what_was_not_sent_does_not_exist(harness: WebHarness, chat: Chat, tmp_path: Path) -> None:
    """Neither by its path, nor by another conversation's link, nor because sending it was tried."""
    address = await sent(chat, tmp_path)
    file_id = address.rpartition("/")[2]
    (tmp_path / chat.id / "secret.md").write_text("secret")
    other = await harness.open("other")
    for place, name in [
        (chat, "secret.md"),
        (chat, "report.md"),
        (chat, "..%2f..%2fstate.db"),
        (chat, file_id[:-1]),
        (other, file_id),
    ]:
        status, answer = await harness.get(f"/api/conversations/{place.id}/files/{name}")
        assert (status, answer["error"]) == (404, "This conversation has no such file.")

    harness.script.will([sending("later.md")], ["It is not there."])
    await chat.ask("Send what is not there yet")
    (tmp_path / chat.id / "later.md").write_text("now it is")
    _, page = await harness.get(f"/c/{chat.id}")
    assert len(LINK.findall(page)) == 1


@pytest.mark.parametrize("words", ["the person did not see `x` is on its way to the person", "sent"])
async def test_only_the_tool_itself_makes_a_link(harness: WebHarness, chat: Chat, words: str) -> None:
    """A result that merely reads like success, or another tool's, sends nothing."""
    conversation = await harness.store.sessions.conversation(chat.id)
    call = sending("report.md")
    other = ToolCall("c2", "look_up", call.arguments)
    await harness.store.sessions.append(
        conversation.live_session_id,
        [
            Message("user", "Send it"),
            Message("assistant", tool_calls=(call, other)),
            Message("tool", words, tool_call_id="c1", name="send_file"),
            Message("tool", "`x` (1 bytes) is on its way to the person.", tool_call_id="c2", name="look_up"),
        ],
    )
    _, page = await harness.get(f"/c/{chat.id}")
    assert LINK.findall(page) == []


async def test_a_file_that_went_or_became_a_link_is_refused(
    harness: WebHarness, chat: Chat, tmp_path: Path
) -> None:
    """The link shows what lies there now, and never what a link points at."""
    address = await sent(chat, tmp_path)
    file = tmp_path / chat.id / "report.md"
    file.unlink()
    status, answer = await harness.get(address)
    assert (status, "does not exist" in answer["error"]) == (404, True)
    file.symlink_to("/etc/hostname")
    status, answer = await harness.get(address)
    assert (status, "symbolic link" in answer["error"]) == (404, True)
