"""The real Hermes is killed while a summary is being written."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.fakes.openai.server import FakeOpenAI
from tests.support import lcm_running_store as stored
from tests.support.hermes_process import hermes
from tests.support.lcm_running_model import (
    WINDOW,
    LogKeepingModel,
    noted,
    page,
    records,
    user_texts,
    with_lcm,
)
from tests.support.lineage import sound_lineages
from tests.support.long_chat import chat

PLACES = ("between turns", "on command")


async def test_killed_while_summarising(tmp_path: Path) -> None:
    """All is as before, goes on, and is compacted later; nothing is kept twice, and the graph is whole."""
    home = tmp_path / "home"
    async with FakeOpenAI(context_length=WINDOW) as server:
        model = LogKeepingModel(server)
        model.holds_summaries = True
        async with hermes(home, with_lcm(server)) as process:
            for waiting, place in enumerate(PLACES, start=1):
                async with chat(process.url, place) as person:
                    for number in range(3 if place == "between turns" else 2):
                        await person.say(page(number))
                    if place == "on command":
                        await person.send("/compress")
                    await server.waiting(waiting)
            assert await process.stop(signal.SIGKILL) == -signal.SIGKILL
            assert [lineage.splits for lineage in sound_lineages(home / "state.db").values()] == [0, 0]

            model.holds_summaries = False
            server.release()
            await process.restart()
            for place in PLACES:
                async with chat(process.url, place) as person:
                    before = len(await person.transcript())
                    for number in range(10, 15):
                        done = (await person.say(page(number)))[-1]
                        assert done["text"].startswith(noted(number))
                    assert stored.compactions(home, person.conversation_id) > 0
                    assert records(model.conversation[-1]) and user_texts(model.conversation[-1])[-1] == page(
                        14
                    )
                    assert "All is well: 10 checks" in await person.told_at_once("/lcm doctor")
                    assert len(await person.transcript()) == before + 10
                assert await stored.agree(home, person.conversation_id)
    for conversation in stored.conversations(home):
        assert await stored.agree(home, conversation, at_the_end=True)
    assert server.refusals == []
    sound_lineages(home / "state.db")
