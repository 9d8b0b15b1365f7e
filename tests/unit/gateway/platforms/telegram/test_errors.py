"""Each way in which Telegram says no, as what is to be done about it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from gateway.chat.errors import (
    ChatMoved,
    ContentRefused,
    DeliveryError,
    MessageGone,
    SlowDown,
    Undeliverable,
    Unreachable,
)
from gateway.types import Place
from tests.fakes.telegram.server import Fault
from tests.support.telegram_harness import TelegramHarness


@pytest.fixture(autouse=True)
async def acquainted(harness: TelegramHarness) -> None:
    """A bot cannot write to a person who never wrote to it."""
    await harness.says("hello")


@pytest.mark.parametrize("seconds", [0, 3, 139, 13_938])
async def test_too_fast(harness: TelegramHarness, seconds: int) -> None:
    """The pause that Telegram asks for, also one of no time at all."""
    harness.server.fail_next("sendMessage", Fault.flood(seconds))
    with pytest.raises(SlowDown) as caught:
        await harness.port.send(harness.direct, "hi")
    assert caught.value.retry_after == seconds


async def test_too_fast_at_editing_and_typing(harness: TelegramHarness) -> None:
    """Every call can be refused that way."""
    sent = await harness.port.send(harness.direct, "hi")
    for method in ("editMessageText", "sendChatAction", "deleteMessage", "sendDocument"):
        harness.server.fail_next(method, Fault.flood(7))
    for call in (
        harness.port.edit(harness.direct, sent, "ho"),
        harness.port.typing(harness.direct),
        harness.port.delete(harness.direct, sent),
        harness.port.send_file(harness.direct, "a.txt", b"a"),
    ):
        with pytest.raises(SlowDown) as caught:
            await call
        assert caught.value.retry_after == 7


@pytest.mark.parametrize("result", [True, None, {}, [], "sent", {"message_id": "x"}], ids=str)
async def test_an_answer_that_holds_no_message(harness: TelegramHarness, result: object) -> None:
    """Telegram took the call, so the message may be there; what comes next must not break down over it."""
    for method, call in (
        ("sendMessage", lambda: harness.port.send(harness.direct, "hi")),
        ("sendDocument", lambda: harness.port.send_file(harness.direct, "a.txt", b"a")),
    ):
        harness.server.fail_next(method, Fault.odd(result))
        with pytest.raises(Unreachable) as caught:
            await call()
        assert caught.value.maybe_done


@pytest.mark.parametrize("result", [True, None, {}, [], "done"], ids=str)
async def test_an_odd_answer_to_an_edit(harness: TelegramHarness, result: object) -> None:
    """An edit is either taken as done, or asked for again; nothing breaks down."""
    sent = await harness.port.send(harness.direct, "hi")
    harness.server.fail_next("editMessageText", Fault.odd(result))
    with suppress(Unreachable):
        await harness.port.edit(harness.direct, sent, "ho")


async def test_blocked(harness: TelegramHarness) -> None:
    """The recipient is gone."""
    await harness.ada.blocks()
    with pytest.raises(Undeliverable):
        await harness.port.send(harness.direct, "hi")


async def test_kicked(harness: TelegramHarness) -> None:
    """Out of a group as well."""
    team = harness.server.group("Team", harness.ada)
    place = (await harness.says("hi", chat=team)).place
    harness.server.kick(team, harness.server.bot)
    with pytest.raises(Undeliverable):
        await harness.port.send(place, "hi")


async def test_an_unknown_chat_and_a_closed_topic(harness: TelegramHarness) -> None:
    """A bad request of Telegram can mean that the recipient is unreachable."""
    with pytest.raises(Undeliverable):
        await harness.port.send(Place("-12345", kind="group", group_id="-12345"), "hi")
    with pytest.raises(Undeliverable):
        await harness.port.delete(Place("-12345", kind="group", group_id="-12345"), "1")
    team = harness.server.supergroup("Team", harness.ada, forum=True)
    topic = team.topic("Billing")
    place = (await harness.says("hi", chat=team, thread=topic)).place
    team.closed_topics.add(topic.id)
    with pytest.raises(Undeliverable):
        await harness.port.send(place, "hi")


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (400, "Bad Request: CHAT_SEND_PLAIN_FORBIDDEN"),
        (400, "Bad Request: CHAT_GUEST_SEND_FORBIDDEN"),
        (400, "Bad Request: CHAT_WRITE_FORBIDDEN"),
        (400, "Bad Request: CHAT_ADMIN_REQUIRED"),
        (400, "Bad Request: need administrator rights in the channel chat"),
        (400, "Bad Request: not enough rights to send text messages to the chat"),
        (400, "Bad Request: TOPIC_ID_INVALID"),
        (400, "Bad Request: topic closed"),
        (403, "Forbidden: bot was kicked from the supergroup chat"),
    ],
)
async def test_what_a_bot_may_not_do(harness: TelegramHarness, code: int, refusal: str) -> None:
    """No other text would be taken either."""
    harness.server.fail_next("sendMessage", Fault.error(code, refusal), times=2)
    for formatted in (False, True):
        with pytest.raises(Undeliverable):
            await harness.port.send(harness.direct, "hi", formatted=formatted)


@pytest.mark.parametrize(
    "refusal",
    ["Bad Request: not enough rights to send documents to the chat", "Bad Request: CHAT_SEND_DOCS_FORBIDDEN"],
)
async def test_files_can_be_forbidden_where_text_is_not(harness: TelegramHarness, refusal: str) -> None:
    """The file is refused with a sentence; the chat is not given up."""
    harness.server.fail_next("sendDocument", Fault.error(400, refusal))
    with pytest.raises(ContentRefused, match=r"\(the bot may not send files here\)"):
        await harness.port.send_file(harness.direct, "a.txt", b"a")


async def test_a_file_where_nobody_is(harness: TelegramHarness) -> None:
    """That is no matter of files."""
    await harness.ada.blocks()
    with pytest.raises(Undeliverable):
        await harness.port.send_file(harness.direct, "a.txt", b"a")


async def test_a_deletion_that_is_forbidden(harness: TelegramHarness) -> None:
    """It concerns that message alone."""
    harness.server.fail_next("deleteMessage", Fault.error(400, "Bad Request: MESSAGE_DELETE_FORBIDDEN"))
    with pytest.raises(MessageGone):
        await harness.port.delete(harness.direct, "1")


async def test_a_group_that_moved(harness: TelegramHarness) -> None:
    """The new number comes with the error."""
    team = harness.server.group("Team", harness.ada)
    place = (await harness.says("hi", chat=team)).place
    above = harness.server.upgraded(team)
    with pytest.raises(ChatMoved) as caught:
        await harness.port.send(place, "hi")
    assert caught.value.new_chat_id == str(above.id)


async def test_editing_what_is_gone(harness: TelegramHarness) -> None:
    """Deleted, or never ours."""
    sent = await harness.port.send(harness.direct, "hi")
    await harness.port.delete(harness.direct, sent)
    with pytest.raises(MessageGone):
        await harness.port.edit(harness.direct, sent, "ho")
    foreign = harness.ada.chat.messages[0]
    with pytest.raises(MessageGone):
        await harness.port.edit(harness.direct, str(foreign.id), "ho")


async def test_deleting_what_cannot_be_deleted(harness: TelegramHarness) -> None:
    """After two days a message stays."""
    sent = await harness.port.send(harness.direct, "hi")
    harness.ada.chat.from_bot[-1].date -= 3 * 24 * 3600
    with pytest.raises(MessageGone):
        await harness.port.delete(harness.direct, sent)


async def test_an_empty_text(harness: TelegramHarness) -> None:
    """Sending it again is useless."""
    with pytest.raises(ContentRefused):
        await harness.port.send(harness.direct, "")


async def test_a_request_that_is_too_large(harness: TelegramHarness) -> None:
    """No reason to try again."""
    harness.server.fail_next("sendDocument", Fault.error(413, "Request Entity Too Large"))
    with pytest.raises(ContentRefused):
        await harness.port.send_file(harness.direct, "a.txt", b"a")


@pytest.mark.parametrize("fault", [Fault.drop(), Fault.lost(), Fault.error(502, "Bad Gateway")])
async def test_a_connection_that_breaks(harness: TelegramHarness, fault: Fault) -> None:
    """Whether the message arrived cannot be told."""
    harness.server.fail_next("sendMessage", fault)
    with pytest.raises(Unreachable) as caught:
        await harness.port.send(harness.direct, "hi")
    assert caught.value.maybe_done


async def test_a_server_that_is_not_there(harness: TelegramHarness) -> None:
    """What could not even be begun has certainly not happened."""
    await harness.server.go_down()
    with pytest.raises(Unreachable) as caught:
        await harness.port.send(harness.direct, "hi")
    assert not caught.value.maybe_done


async def test_a_token_that_was_revoked(harness: TelegramHarness) -> None:
    """Telegram has taken nothing."""
    harness.server.fail_next("sendMessage", Fault.error(401, "Unauthorized"))
    with pytest.raises(Unreachable) as caught:
        await harness.port.send(harness.direct, "hi")
    assert not caught.value.maybe_done


async def test_no_error_drags_the_library_along(harness: TelegramHarness) -> None:
    """What is logged about an error must not go back to the library's own, with its addresses."""
    await harness.server.go_down()
    with pytest.raises(DeliveryError) as caught:
        await harness.port.send(harness.direct, "hi")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_a_send_can_be_abandoned(harness: TelegramHarness) -> None:
    """A cancelled call ends as one, not as an error of delivery."""
    with harness.server.hold("sendMessage") as held:
        sending = asyncio.create_task(harness.port.send(harness.direct, "hi"))
        await held.arrived()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
