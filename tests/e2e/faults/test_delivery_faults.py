"""Every kind of fault in every call of an answer, on every service: people see the answer in the end.

`unit/gateway/chat/test_delivery_faults.py` tests the same faults without a real adapter, and more consequences.
`test_errors.py` (Telegram) and `test_port.py` (Discord) test what each response of a service means.

discord.py repeats a 500 itself, after 1, 3, 5, 7 and 9 seconds; one test covers that. The other tests use a 503, which
the library passes on. It also keeps the pauses of a 429 up to half a minute; Hermes keeps longer ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from gateway.chat.delivery.item import POSSIBLY_TWICE
from gateway.chat.delivery.text_message import _REFUSED, CURSOR
from gateway.store.sqlite.store import SqliteStore
from tests.support.chat_harness import reads_as
from tests.support.chat_service import VisibleMessage
from tests.support.fault_services import PAUSE, PlainService, Service, Trouble, discord, telegram
from tests.support.faulty_delivery import MOMENTS, Outcome, deliver_with_fault

# Together: the services are set up once, and the four moments of a trouble are lived through at the same time.
pytestmark = pytest.mark.asyncio(loop_scope="module")

MOMENTS_ON = {
    "telegram": list(MOMENTS),
    "discord": list(MOMENTS),
    "without edits": ["first send", "split"],
}
cells = pytest.mark.parametrize(
    ("service", "moment"),
    [(service, moment) for service, moments in MOMENTS_ON.items() for moment in moments],
)


class FaultyDeliveries:
    def __init__(self, services: dict[str, Service], store: SqliteStore) -> None:
        self._services = services
        self._store = store
        self._outcomes: dict[tuple[str, Trouble], dict[str, asyncio.Task[Outcome]]] = {}

    async def outcome(self, service: str, trouble: Trouble, moment: str) -> Outcome:
        if (service, trouble) not in self._outcomes:
            self._outcomes[service, trouble] = {
                each: asyncio.create_task(self.alone(service, trouble, each)) for each in MOMENTS_ON[service]
            }
        return await self._outcomes[service, trouble][moment]

    async def alone(self, service: str, trouble: Trouble, moment: str) -> Outcome:
        """Test one fault at a time."""
        chat = self._services[service].chat(trouble)
        return await deliver_with_fault(chat, self._store, trouble, MOMENTS[moment])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deliveries(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FaultyDeliveries]:
    async with AsyncExitStack() as stack:
        store = await SqliteStore.open(tmp_path_factory.mktemp("store") / "state.db")
        stack.push_async_callback(store.close)
        services = {
            "telegram": await stack.enter_async_context(telegram()),
            "discord": await stack.enter_async_context(discord()),
            "without edits": PlainService(),
        }
        yield FaultyDeliveries(services, store)


def _plain(text: str) -> str:
    """Remove the asterisks, which are visible where formatting is refused or missing."""
    return text.replace("**", "")


def is_whole(outcome: Outcome) -> bool:
    """Return whether everything is visible once, in order, and nothing looks unfinished."""
    for message in outcome.seen:
        message.text = _plain(message.text)
    has_cursor = any(
        message.text.endswith(CURSOR.strip()) for message in outcome.seen if not message.is_ghost
    )
    return reads_as(outcome.seen, _plain(outcome.text)) and not has_cursor


def marked(outcome: Outcome) -> list[VisibleMessage]:
    return [message for message in outcome.seen if POSSIBLY_TWICE in message.text]


def ghosts(outcome: Outcome) -> list[VisibleMessage]:
    return [message for message in outcome.seen if message.is_ghost]


def leaves_doubt(service: str, moment: str) -> bool:
    """Return whether the call is doubtful: an edit can be repeated, and Discord deduplicates sends by nonce."""
    return service != "discord" and MOMENTS[moment].verb == "send"


@cells
async def test_429(deliveries: FaultyDeliveries, service: str, moment: str) -> None:
    """No call comes before the time that the service named."""
    outcome = await deliveries.outcome(service, "429", moment)
    assert is_whole(outcome)
    assert marked(outcome) == ghosts(outcome) == []
    assert outcome.state == "sent"
    assert outcome.later and outcome.later[0].at - outcome.met.at >= PAUSE


@pytest.mark.parametrize("trouble", ["reset", "timeout", "500"])
@cells
async def test_a_lost_call_may_have_arrived(
    deliveries: FaultyDeliveries, service: str, moment: str, trouble: Trouble
) -> None:
    """The call was not executed. The repeated message is marked, unless the service can tell."""
    if service == "discord" and trouble == "500":
        trouble = "503"
    outcome = await deliveries.outcome(service, trouble, moment)
    assert is_whole(outcome)
    assert len(marked(outcome)) == leaves_doubt(service, moment)
    assert ghosts(outcome) == []
    assert outcome.state == "sent"


@cells
async def test_the_acknowledgement_is_lost(deliveries: FaultyDeliveries, service: str, moment: str) -> None:
    """The call was executed, so without deduplication there are two messages, and the second is marked."""
    outcome = await deliveries.outcome(service, "lost", moment)
    assert is_whole(outcome)
    assert len(marked(outcome)) == len(ghosts(outcome)) == leaves_doubt(service, moment)
    assert outcome.state == "sent"


@cells
async def test_400(deliveries: FaultyDeliveries, service: str, moment: str) -> None:
    """Unfinished text that is refused waits for the end, and a refused edit becomes a new message. Finished text is
    sent with its asterisks if only the formatting was refused; otherwise a notice replaces it."""
    outcome = await deliveries.outcome(service, "400", moment)
    is_formatted = moment in ("final edit", "split")
    if service == "telegram" and is_formatted:
        at = list(MOMENTS).index(moment) - 2
        assert ["**" in message.text for message in outcome.seen] == [at == 0, at == 1]
    if service == "without edits" or (service, moment) == ("discord", "split"):
        apologies = [message for message in outcome.seen if message.text == _REFUSED]
        assert len(apologies) == 1 and apologies == ghosts(outcome)
        assert (outcome.state, bool(outcome.reason)) == ("parked", True)
        assert all(message.text in outcome.text for message in outcome.seen if message not in apologies)
        assert len(outcome.seen) > 1
    else:
        assert is_whole(outcome)
        assert ghosts(outcome) == []
        assert outcome.state == "sent"
    assert marked(outcome) == []


@cells
async def test_403(deliveries: FaultyDeliveries, service: str, moment: str) -> None:
    """The answer is parked with the reason, and no further call is made."""
    outcome = await deliveries.outcome(service, "403", moment)
    assert outcome.later == []
    assert (outcome.state, bool(outcome.reason)) == ("parked", True)
    assert marked(outcome) == ghosts(outcome) == []
    assert len(outcome.seen) == (moment != "first send")


async def test_on_discord_the_acknowledgement_is_lost_again_and_again(deliveries: FaultyDeliveries) -> None:
    """Once Discord may have forgotten the nonce, the message is marked as on Telegram."""
    outcome = await deliveries.alone("discord", "lost for good", "split")
    assert is_whole(outcome)
    assert len(marked(outcome)) == len(ghosts(outcome)) == 1
    assert outcome.state == "sent"


async def test_on_discord_a_500_is_repeated_by_the_library(deliveries: FaultyDeliveries) -> None:
    """The library repeats it after a second, and a repeated send gives no second message."""
    outcome = await deliveries.alone("discord", "500", "first send")
    assert is_whole(outcome)
    assert marked(outcome) == ghosts(outcome) == []
