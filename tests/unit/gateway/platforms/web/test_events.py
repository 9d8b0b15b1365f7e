"""The event stream of the API: replay, reconnect, several watchers, heartbeats, shutdown."""

from __future__ import annotations

from pathlib import Path

from tests.support.gateways import Gate
from tests.support.web_harness import Chat, WebHarness, web_harness


async def test_a_late_watcher_gets_the_running_turn_whole(harness: WebHarness, chat: Chat) -> None:
    """A client that connects in the middle of an answer gets it from its beginning, once."""
    gate = Gate()
    harness.script.will(["one ", "two ", gate, "three"])
    message_id = await chat.send("Count")
    await gate.reached.wait()

    late = await harness.open()
    async with late.watch() as events:
        gate.set()
        seen = await events.until("TurnDone")
    assert seen[0]["message_id"] == message_id
    assert "".join(event["text"] for event in seen if event["type"] == "TextDelta") == "one two three"


async def test_who_has_read_the_store_is_not_told_again(chat: Chat) -> None:
    """`after` of a quiet conversation means: only what is new."""
    await chat.ask("old")
    fresh = await chat.harness.open()
    assert (await fresh.ask("new"))[0]["text"] == "new"


async def test_last_event_id_is_honoured_like_after(chat: Chat) -> None:
    """A browser that reconnects by itself repeats its first address; the header is the newer word."""
    async with chat.watch() as events:
        await chat.send("first")
        await events.until("TurnDone")
    last, headers = events.numbers[-1], {"Last-Event-ID": str(events.numbers[-1])}

    async with chat.watch(headers=headers) as again:
        await chat.send("second")
        assert (await again.until("TurnDone"))[0]["text"] == "second"
        assert again.numbers[0] > last

    async with chat.watch(headers={"Last-Event-ID": "nonsense"}) as confused:
        assert (await confused.until("TurnDone"))[0]["text"] == "second"


async def test_a_lost_end_is_made_up_for_by_the_whole_turn(harness: WebHarness, chat: Chat) -> None:
    """After a connection lost near the end, the turn is sent again from TurnStarted."""
    gate = Gate()
    harness.script.will(["almost ", gate, "done"])
    async with chat.watch() as events:
        await chat.send("Go")
        await events.until("TextDelta")
    gate.set()
    async with chat.watch(headers={"Last-Event-ID": str(events.numbers[-1])}) as again:
        seen = await again.until("TurnDone")
    assert seen[0]["type"] == "TurnStarted"
    assert seen[-1]["text"] == "almost done"


async def test_two_watchers_see_the_same(chat: Chat) -> None:
    """Two tabs on one conversation."""
    async with chat.watch() as one, chat.watch() as two:
        await chat.send("hello")
        assert await one.until("TurnDone") == await two.until("TurnDone")
        assert one.numbers == two.numbers


async def test_a_watcher_sees_only_its_own_conversation(harness: WebHarness, chat: Chat) -> None:
    """Two conversations at the same time do not mix."""
    other = await harness.open("other")
    async with chat.watch() as mine, other.watch() as theirs:
        await other.ask("not for you")
        await theirs.until("TurnDone")
        await chat.send("mine")
        assert (await mine.until("TurnDone"))[0]["text"] == "mine"


async def test_a_quiet_stream_has_a_heartbeat(tmp_path: Path) -> None:
    """Proxies and clients can tell a quiet conversation from a dead connection; no event is lost to it."""
    async with web_harness(tmp_path, heartbeat_seconds=0.01) as harness:
        chat = await harness.open()
        gate = Gate()
        harness.script.will([gate, "late"])
        async with chat.watch() as events:
            await chat.send("Wait")
            await events.until("TurnStarted")
            while not (await events.response.content.readline()).startswith(b":"):
                pass
            gate.set()
            assert (await events.until("TurnDone"))[-1]["text"] == "late"


async def test_stopping_the_platform_ends_its_streams(harness: WebHarness, chat: Chat) -> None:
    """A page left open does not hold up the shutdown."""
    async with chat.watch() as events, chat.watch(f"/c/{chat.id}/live") as page:
        await page.next()
        await harness.web.stop()
        await events.response.content.read()
        await page.response.content.read()
