"""When things were said: in what the summariser reads, in extracts, and beside rules that are kept word for word."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.compression.message_dates import first_of_each_day, said_at
from agent.compression.prompt import build_fork_prompt, pieces_of, record_of
from agent.compression.summariser import extract
from agent.context_compressor import ContextCompressor
from agent.errors import ModelOverloaded
from agent.messages import Message, is_paired
from agent.store import Address
from agent.testing import ScriptedLLM
from tests.support.agents import make_agent
from tests.support.histories import Chat, assistant, chat, group, summary_in, system, text, user
from tests.support.recorder import Recorder, engine
from tests.support.stores import temporary_store

WEDNESDAY = datetime(2026, 11, 18, 9, 12, tzinfo=UTC)


def dated(message: Chat, moment: datetime = WEDNESDAY) -> Chat:
    return {**message, "created_at": moment.timestamp()}


def test_the_record_says_when_each_message_was_said() -> None:
    """In its first line, beside who said it; the other lines have the speaker alone."""
    said = [
        dated(user("Remind me tomorrow at nine.\nPlease.")),
        dated({**user("Me too."), "name": "Ann"}, WEDNESDAY + timedelta(minutes=3)),
        dated(group("remind", '{"at": 9}', "done", "c1")[0]),
        dated(group("remind", '{"at": 9}', "done", "c1")[1], WEDNESDAY + timedelta(days=1)),
    ]
    assert record_of(said) == [
        "[USER] (Wed 2026-11-18 09:12) Remind me tomorrow at nine.\n[USER] Please.",
        "[USER Ann] (Wed 2026-11-18 09:15) Me too.",
        '[ASSISTANT calls remind] (Wed 2026-11-18 09:12) {"at": 9}',
        "[TOOL] (Thu 2026-11-19 09:12) done",
    ]


def test_every_piece_of_a_long_message_says_when_it_was_said() -> None:
    """A summariser with a small window sees only one of them at a time."""
    pieces = pieces_of(record_of([dated(user("word " * 4_000))]), 500)
    assert len(pieces) > 3
    assert all(piece.startswith("[USER] (Wed 2026-11-18 09:12) ") for piece in pieces)


@pytest.mark.parametrize("moment", [None, "today", float("nan"), float("inf"), -5, 0, 10**18, True])
def test_messages_without_a_usable_time(moment: Any) -> None:
    """They have no date, and nothing breaks."""
    message = user("Tomorrow, never call me.")
    message |= {} if moment is None else {"created_at": moment}
    assert said_at(message) in ("", "Thu 1970-01-01 00:00")
    assert text(message) in record_of([message])[0]
    assert first_of_each_day([user("No time.")]) == []


async def test_the_model_that_summarises_is_sent_dates_and_asked_to_use_them() -> None:
    """Through the host: its messages know when they were said."""
    store = await temporary_store()
    place = await store.sessions.open_conversation(Address("web", "desk"), person="owner")
    session = await store.sessions.pin(place.live_session_id, system_prompt="Be brief.", model="m")
    for number in range(30):
        said = (WEDNESDAY + timedelta(hours=number)).timestamp()
        asked = Message("user", f"Tomorrow at nine, number {number}. " + "word " * 50, created_at=said)
        await store.sessions.append(
            session.id, [asked, Message("assistant", "detail " * 50, created_at=said + 60)]
        )
    helper = ScriptedLLM(["## Goal\nTo test."], context_length=200_000)
    agent = make_agent(
        ScriptedLLM([], context_length=4_000),
        store.sessions,
        auxiliary=helper,
        engine=lambda: ContextCompressor(4_000, protect_last_n=4, summary_context_length=200_000),
    )
    live = await agent.open(await store.sessions.conversation(place.id))
    assert (await agent.auto_compaction.compactor.compact(live, "command")).compacted
    [request] = helper.requests
    prompt = str(request.messages[0]["content"])
    assert "[USER] (Wed 2026-11-18 10:12) Tomorrow at nine, number 1." in prompt
    assert "[ASSISTANT] (Wed 2026-11-18 10:13) detail" in prompt
    assert "[USER] (Thu 2026-11-19 09:12) Tomorrow at nine, number 24." in prompt
    assert "as dates" in prompt and "UTC" in prompt


def test_a_fork_is_told_the_days() -> None:
    """It has the conversation before it as the provider cached it, without times."""
    said = [
        dated(user("Tomorrow at nine.\nYes.")),
        dated(assistant("Noted."), WEDNESDAY + timedelta(hours=1)),
        dated(user("And now?"), WEDNESDAY + timedelta(days=2)),
        user("Some time."),
    ]
    days = first_of_each_day(said)
    assert days == ["Wed 2026-11-18 09:12: Tomorrow at nine. Yes.", "Fri 2026-11-20 09:12: And now?"]
    assert "\n> Fri 2026-11-20 09:12: And now?" in build_fork_prompt("And now?", 500, days=days)
    assert "When the messages above were said" not in build_fork_prompt("And now?", 500)


def test_an_extract_has_dates() -> None:
    """No model is there to resolve anything, so the reader must be able to."""
    assert extract([dated(user("Tomorrow at nine."))], 100) == (
        "[USER] (Wed 2026-11-18 09:12) Tomorrow at nine."
    )


def test_a_stand_in_has_dates() -> None:
    """The whole way."""

    def overloaded(prompt: str, max_tokens: int) -> str:
        raise ModelOverloaded

    messages = [
        system(),
        user("Hi"),
        assistant("Hi"),
        dated(user("Call at noon tomorrow.")),
        *chat(25, 300)[1:],
    ]
    compacted = engine(16_000, overloaded, protect_last_n=4).compress(messages)
    assert "[USER] (Wed 2026-11-18 09:12) Call at noon tomorrow." in text(summary_in(compacted) or {})
    assert is_paired(compacted)


@pytest.mark.parametrize(
    ("said", "has_day"),
    [
        ("Starting tomorrow, never call me before nine.", True),
        ("From next week on, always ask.", True),
        ("明天不要打电话。", True),
        ("Never deploy on Friday.", False),
    ],
)
def test_a_rule_keeps_the_day_beside_a_relative_time(said: str, has_day: bool) -> None:
    """In the ledger, behind its words; a rule that holds on every Friday has no date."""
    kept = f"{said} (said on Wed 2026-11-18)" if has_day else said
    messages = [system(), user("Hi"), assistant("Hi"), dated(user(said)), assistant("Ok."), *chat(40)[1:]]
    compacted = engine(4_000, Recorder(), protect_last_n=4).compress(messages)
    assert f"\n- {kept}\n" in text(summary_in(compacted) or {})


def test_the_day_is_no_identifier() -> None:
    """It was not named by the user, and is not kept as if it were."""
    rule = dated(user("From tomorrow on, never call me about ORD-4711."))
    messages = [system(), user("Hi"), assistant("Hi"), rule, assistant("Ok."), *chat(40)[1:]]
    summary = text(summary_in(engine(4_000, Recorder(), protect_last_n=4).compress(messages)) or {})
    assert "ORD-4711" in summary
    assert summary.count("2026-11-18") == 1
