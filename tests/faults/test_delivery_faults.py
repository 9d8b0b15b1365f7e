"""Whatever goes wrong with whichever call of an answer, on whichever service: what is seen in the end is the answer.

The same faults as an adapter tells them, and more of what can come of them: `tests/chat/test_showing_faults.py`. What
each answer of a service means: `tests/telegram/test_failures.py`, `tests/discord/test_outgoing.py`.

discord.py repeats a 500 by itself, after 1, 3, 5, 7 and 9 seconds; one test sees that, and a 503, which it hands on,
stands for the rest. It also keeps the pauses that a 429 asks for, up to half a minute; longer ones are kept by Hermes.
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
from tests.chat.chat_room import reads_as
from tests.chat.service import Shown
from tests.faults.performance import MOMENTS, Outcome, perform
from tests.faults.services import PAUSE, PlainService, Service, Trouble, discord, telegram

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


class Evening:
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
        """While nothing else goes wrong."""
        chat = self._services[service].chat(trouble)
        return await perform(chat, self._store, trouble, MOMENTS[moment])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def evening(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Evening]:
    async with AsyncExitStack() as stack:
        store = await SqliteStore.open(tmp_path_factory.mktemp("store") / "state.db")
        stack.push_async_callback(store.close)
        services = {
            "telegram": await stack.enter_async_context(telegram()),
            "discord": await stack.enter_async_context(discord()),
            "without edits": PlainService(),
        }
        yield Evening(services, store)


def _plain(text: str) -> str:
    """Telegram shows what is bold as bold; where formatting is refused or not to be had, the asterisks are seen."""
    return text.replace("**", "")


def is_whole(outcome: Outcome) -> bool:
    """Everything is there, once and in order, and nothing looks unfinished."""
    for message in outcome.seen:
        message.text = _plain(message.text)
    has_cursor = any(
        message.text.endswith(CURSOR.strip()) for message in outcome.seen if not message.is_ghost
    )
    return reads_as(outcome.seen, _plain(outcome.text)) and not has_cursor


def marked(outcome: Outcome) -> list[Shown]:
    return [message for message in outcome.seen if POSSIBLY_TWICE in message.text]


def ghosts(outcome: Outcome) -> list[Shown]:
    return [message for message in outcome.seen if message.is_ghost]


def leaves_doubt(service: str, moment: str) -> bool:
    """An edit can be repeated; and Discord knows a message that is sent again by its nonce."""
    return service != "discord" and MOMENTS[moment].verb == "send"


@cells
async def test_429(evening: Evening, service: str, moment: str) -> None:
    """Nothing is asked of the service before the time it has named."""
    outcome = await evening.outcome(service, "429", moment)
    assert is_whole(outcome)
    assert marked(outcome) == ghosts(outcome) == []
    assert outcome.state == "sent"
    assert outcome.later and outcome.later[0].at - outcome.met.at >= PAUSE


@pytest.mark.parametrize("trouble", ["reset", "timeout", "500"])
@cells
async def test_nobody_knows_whether_it_arrived(
    evening: Evening, service: str, moment: str, trouble: Trouble
) -> None:
    """It did not. What is sent again says that it may be there twice, unless the service can tell."""
    if service == "discord" and trouble == "500":
        trouble = "503"
    outcome = await evening.outcome(service, trouble, moment)
    assert is_whole(outcome)
    assert len(marked(outcome)) == leaves_doubt(service, moment)
    assert ghosts(outcome) == []
    assert outcome.state == "sent"


@cells
async def test_the_acknowledgement_is_lost(evening: Evening, service: str, moment: str) -> None:
    """It did arrive, so where the service cannot tell there are two of them, and the second says so."""
    outcome = await evening.outcome(service, "lost", moment)
    assert is_whole(outcome)
    assert len(marked(outcome)) == len(ghosts(outcome)) == leaves_doubt(service, moment)
    assert outcome.state == "sent"


@cells
async def test_400(evening: Evening, service: str, moment: str) -> None:
    """Unfinished text that is refused waits for the end, and a change that is refused becomes a new message. Finished
    text is seen with its asterisks where only formatting was the matter; else a sentence stands in its place."""
    outcome = await evening.outcome(service, "400", moment)
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
async def test_403(evening: Evening, service: str, moment: str) -> None:
    """It is parked with the reason, and nobody is asked again."""
    outcome = await evening.outcome(service, "403", moment)
    assert outcome.later == []
    assert (outcome.state, bool(outcome.reason)) == ("parked", True)
    assert marked(outcome) == ghosts(outcome) == []
    assert len(outcome.seen) == (moment != "first send")


async def test_on_discord_the_acknowledgement_is_lost_again_and_again(evening: Evening) -> None:
    """Until its memory of nonces can no longer be relied on: then it is as on Telegram."""
    outcome = await evening.alone("discord", "lost for good", "split")
    assert is_whole(outcome)
    assert len(marked(outcome)) == len(ghosts(outcome)) == 1
    assert outcome.state == "sent"


async def test_on_discord_a_500_is_repeated_by_the_library(evening: Evening) -> None:
    """After a second, and for a send that is no second message."""
    outcome = await evening.alone("discord", "500", "first send")
    assert is_whole(outcome)
    assert marked(outcome) == ghosts(outcome) == []
