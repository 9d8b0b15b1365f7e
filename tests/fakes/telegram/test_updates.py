"""How the loopback Telegram delivers updates, keeps the pace and has the accidents a test plans."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from aiohttp import web
from telegram import (
    Bot,
    Update,
)
from telegram.error import (
    Conflict,
    NetworkError,
    RetryAfter,
    TelegramError,
)
from telegram.ext import Updater

from tests.fakes.telegram.sdk import connected, newcomer
from tests.fakes.telegram.server import FakeTelegram, Fault, Limits, Pace, Person
from tests.fakes.telegram.updates import SECRET_HEADER


@pytest.fixture(autouse=True)
def durations_are_timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK warns about its own older habit, even inside RetryAfter."""
    monkeypatch.setenv("PTB_TIMEDELTA", "true")


@pytest.fixture
async def server() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def bot(server: FakeTelegram) -> AsyncIterator[Bot]:
    async with connected(server) as bot:
        yield bot


@pytest.fixture
def ada(server: FakeTelegram) -> Person:
    return newcomer(server)


async def test_an_update_comes_until_it_is_confirmed(bot: Bot, ada: Person) -> None:
    """A higher offset confirms, a negative one keeps the newest, the limit cuts."""
    for text in ("one", "two", "three"):
        await ada.says(text)

    first = await bot.get_updates(limit=2)
    again = await bot.get_updates()
    rest = await bot.get_updates(offset=first[0].update_id + 1)
    last = await bot.get_updates(offset=-1)

    assert [u.message.text for u in first if u.message] == ["one", "two"]
    assert [u.update_id for u in again] == [first[0].update_id + n for n in range(3)]
    assert rest == again[1:]
    assert last == again[2:]
    assert await bot.get_updates(offset=last[0].update_id + 1) == ()


async def test_a_long_poll_wakes_for_an_update(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """It waits with nothing to tell and ends with the first news."""
    poll = asyncio.create_task(bot.get_updates(timeout=30))
    await server.called("getUpdates")
    await ada.says("/start@hermes_bot now")

    (update,) = await poll
    assert update.message and update.message.entities[0].type == "bot_command"
    assert update.message.entities[0].length == 17


async def test_optional_updates_come_when_asked_for(bot: Bot, ada: Person) -> None:
    """Reactions are told only to a bot that named them, from then on."""
    message = await ada.says("Hi")
    await ada.reacts(message, "👍")
    updates = await bot.get_updates(allowed_updates=["message_reaction"])
    await ada.says("not wanted now")
    await ada.reacts(message, "🔥")
    later = await bot.get_updates(offset=updates[-1].update_id + 1)

    assert [u.message_reaction is None for u in updates] == [True]
    assert later[0].message_reaction and later[0].message_reaction.new_reaction[0].emoji == "🔥"  # type: ignore[attr-defined]
    assert len(later) == 1


async def test_a_second_poller_ends_the_first(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """The first one gets the conflict, the second one the update."""
    first = asyncio.create_task(bot.get_updates(timeout=30))
    await server.called("getUpdates")
    async with connected(server) as other:
        second = asyncio.create_task(other.get_updates(timeout=30))
        with pytest.raises(Conflict, match="terminated by other getUpdates request; make sure that only one"):
            await first
        await ada.says("Hi")
        assert len(await second) == 1


class Hook:
    """A bot's own web server: remembers what is pushed to it, and fails as often as told."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.pushed: asyncio.Queue[tuple[str | None, Update]] = asyncio.Queue()

    async def receive(self, request: web.Request) -> web.Response:
        if self.failures:
            self.failures -= 1
            return web.Response(status=502)
        update = Update.de_json(await request.json(), None)
        await self.pushed.put((request.headers.get(SECRET_HEADER), update))
        return web.Response()

    async def listen(self) -> tuple[web.AppRunner, str]:
        app = web.Application()
        app.router.add_post("/hook", self.receive)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/hook"


async def test_a_webhook_gets_the_updates_with_its_secret(
    server: FakeTelegram, bot: Bot, ada: Person
) -> None:
    """Pushed in order, again after a failure; polling is refused meanwhile."""
    hook = Hook(failures=1)
    runner, url = await hook.listen()
    await ada.says("dropped")
    await bot.set_webhook(url, secret_token="s3cret", drop_pending_updates=True)
    await ada.says("one")
    await ada.says("two")

    pushed = [await hook.pushed.get(), await hook.pushed.get()]
    with pytest.raises(Conflict, match="can't use getUpdates method while webhook is active"):
        await bot.get_updates()
    info = await bot.get_webhook_info()
    await bot.delete_webhook()

    assert [(secret, u.message.text) for secret, u in pushed if u.message] == [
        ("s3cret", "one"),
        ("s3cret", "two"),
    ]
    assert info.url == url and info.last_error_message == "Wrong response from the webhook: 502 Bad Gateway"
    assert [update["message"]["text"] for update in server.bot.updates.dropped] == ["dropped"]
    assert not (await bot.get_webhook_info()).url
    await runner.cleanup()


async def test_the_updater_polls_survives_and_resumes(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """The SDK's own loop: out of order, twice, after a dropped poll, and over a restart of Telegram."""
    queue: asyncio.Queue[object] = asyncio.Queue()
    errors: list[TelegramError] = []
    async with Updater(bot, queue) as updater:
        server.hold_updates()
        first, _ = await ada.says("one"), await ada.says("two")
        await updater.start_polling(timeout=10, error_callback=errors.append)
        server.release_updates(order=reversed)
        texts = [await _text(queue), await _text(queue)]
        server.redeliver(first)
        texts.append(await _text(queue))
        server.fail_next("getUpdates", Fault.drop())
        await ada.says("three")
        texts.append(await _text(queue))
        await server.go_down()
        await ada.says("four")
        await server.come_back()
        texts.append(await _text(queue))
        await updater.stop()

    assert texts == ["two", "one", "one", "three", "four"]
    assert errors and all(isinstance(error, NetworkError) for error in errors)
    assert server.bot.updates.pending == []


async def _text(queue: asyncio.Queue[object]) -> str | None:
    update = await asyncio.wait_for(queue.get(), 10)
    assert isinstance(update, Update) and update.message
    return update.message.text


async def test_too_fast_is_refused_with_the_seconds_to_wait(
    server: FakeTelegram, bot: Bot, ada: Person
) -> None:
    """A chat's pace is its own; in a group edits count; what was refused costs nothing."""
    now = 0.0
    server.limits = Limits(chat=Pace(2, 10.0), group=Pace(3, 60.0), clock=lambda: now)
    group = server.group("Team", ada)
    sent = [await bot.send_message(group.id, text) for text in ("one", "two")]

    with pytest.raises(RetryAfter) as refused:
        await bot.edit_message_text("three", group.id, sent[0].message_id)
    assert refused.value.retry_after == timedelta(seconds=10)
    assert server.calls[-1].error == "Too Many Requests: retry after 10"
    await bot.send_message(ada.id, "elsewhere")
    now = 10.5
    await bot.edit_message_text("three", group.id, sent[0].message_id)
    with pytest.raises(RetryAfter) as refused:
        await bot.send_message(group.id, "four")
    assert refused.value.retry_after == timedelta(seconds=50)
    assert server.limits.refusals == 2


async def test_planned_faults(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """An error and a drop leave the chat as it was; a lost acknowledgement does not."""
    server.fail_next("sendMessage", Fault.flood(3), when=lambda call: call.text == "two")
    server.fail_next("sendMessage", Fault.drop(), after=1)
    server.fail_next("sendMessage", Fault.error(500, "Internal Server Error"), after=2)

    await bot.send_message(ada.id, "one")
    with pytest.raises(RetryAfter):
        await bot.send_message(ada.id, "two")
    with pytest.raises(NetworkError):
        await bot.send_message(ada.id, "three")
    server.fail_next("sendMessage", Fault.lost())
    with pytest.raises(NetworkError):
        await bot.send_message(ada.id, "four")
    with pytest.raises(NetworkError, match="Internal Server Error"):
        await bot.send_message(ada.id, "five")

    assert ada.chat.texts == ["one", "four"]


async def test_held_calls_show_edits_that_cross(server: FakeTelegram, bot: Bot, ada: Person) -> None:
    """Two edits of one message under way at once are noticed; of two messages they are fine."""
    first, second = [(await bot.send_message(ada.id, text)).message_id for text in ("a", "b")]
    with server.hold("editMessageText") as held:
        edits = [asyncio.create_task(bot.edit_message_text("x", ada.id, one)) for one in (first, second)]
        await held.arrived(2)
        assert (server.most_edits_in_flight, ada.chat.texts) == (1, ["a", "b"])
        edits.append(asyncio.create_task(bot.edit_message_text("y", ada.id, second)))
        assert (await held.arrived(3)).text == "y"
        assert server.most_edits_in_flight == 2
    await asyncio.gather(*edits)

    assert ada.chat.texts == ["x", "y"]
