"""The tail of a compaction: what stays unmodified, what gives way first, and what is never cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent.compression.pinned import find_pinned, has_chosen, offers_options
from agent.context_compressor import ContextCompressor
from agent.messages import ChatDict
from agent.tokens import estimate_messages_tokens_rough
from tests.support.histories import (
    Chat,
    assistant,
    calls,
    chat,
    check_sendable,
    check_turns_alternate,
    group,
    result,
    summary_in,
    system,
    text,
    user,
    with_ids,
)
from tests.support.recorder import Recorder, engine


def offer(characters: int = 7_000) -> Chat:
    """An answer with options; the one in the middle is what a cut through the text would lose."""
    line = "it goes by the harbour, takes the ferry at noon and has two stops on the way, "
    count = characters // 500
    options = [f"{n}. Route {n} costs {n}17 euros: {line * 5}" for n in range(1, count + 1)]
    return assistant("\n".join(("These routes are possible.", *options, "Which one shall I book?")))


def reading(count: int, words: int) -> list[Chat]:
    """A loop of calls with results of so many words."""
    return [
        message
        for n in range(count)
        for message in group("read_file", f'{{"path": "{n}"}}', f"{n} word " * (words // 2), f"c{n}")
    ]


# Unmodified


@pytest.mark.parametrize(
    ("window", "overhead"), [(4_000, 0), (8_000, 0), (8_000, 2_500), (16_000, 5_000), (32_000, 9_000)]
)
def test_the_answer_that_is_replied_to_is_never_cut(window: int, overhead: int) -> None:
    """Its options were cut out between turns, far below the window."""
    answer = offer()
    messages = with_ids([*chat(window // 400, 60), user("Which routes?"), answer, user("The seventh one.")])
    compacted = engine(window, overhead_tokens=overhead).compress(messages)
    assert compacted is not messages
    assert messages[-2:] == compacted[-2:]
    check_sendable(compacted)
    check_turns_alternate(compacted)


@pytest.mark.parametrize(
    ("window", "overhead"), [(4_000, 0), (8_000, 0), (8_000, 2_500), (16_000, 5_000), (32_000, 9_000)]
)
def test_the_newest_answer_is_never_cut_before_it_is_replied_to(window: int, overhead: int) -> None:
    """Drafts are prepared, and `/compress` comes, while the person is still reading it."""
    messages = with_ids([*chat(window // 400, 60), user("Which routes?"), offer()])
    compacted = engine(window, overhead_tokens=overhead).compress(messages)
    assert compacted is not messages
    assert messages[-2:] == compacted[-2:]


def test_an_answer_with_a_newer_one_behind_it_is_summarised() -> None:
    """Only the newest answer can be replied to."""
    long = assistant("Toast and tea. " * 300)
    messages = with_ids([*chat(2, 20), user("More?"), long, user("And more?"), long])
    compacted = engine(8_000, protect_last_n=1).compress(messages)
    assert summary_in(compacted)
    assert messages[-1] == compacted[-1] and messages[-3] not in compacted


def test_a_tail_that_fits_the_threshold_stays_as_it_is() -> None:
    """Twenty messages, large results among them: what the summary might have needed is no reason to cut them."""
    tail = [user("Read them."), *reading(8, 360), assistant("Read."), user("And now?"), assistant("Yes?")]
    messages = with_ids([*chat(40, 60), *tail])
    compressor = engine(8_000)
    compacted = compressor.compress(messages)
    assert compacted[-20:] == messages[-20:]
    assert compressor.last_outcome.shortened == 0
    assert estimate_messages_tokens_rough(compacted) < compressor.threshold_tokens


def test_the_protected_messages_stay_while_they_fit_below_the_threshold() -> None:
    """The last 20 have 3,120 tokens, the threshold is 4,000: a summary fits beside them."""
    said = [(user, assistant)[n % 2](f"{n:04}: " + "word " * 120) for n in range(40)]
    messages = with_ids([system(), *said])
    compacted = engine(8_000, protect_last_n=20).compress(messages)
    assert [m for m in messages[-20:] if m in compacted] == messages[-20:]
    assert estimate_messages_tokens_rough(compacted) < 4_000


def test_below_the_threshold_nothing_is_shortened() -> None:
    """`/compress` in a conversation that is not too large summarises and cuts nothing."""
    messages = with_ids([*chat(12, 60), user("Read them."), *reading(9, 290), user("And now?")])
    compressor = engine(16_000, overhead_tokens=3_000, protect_last_n=20)
    assert estimate_messages_tokens_rough(messages) + 3_000 < compressor.threshold_tokens
    compacted = compressor.compress(messages)
    assert summary_in(compacted)
    kept = [message for message in compacted if "message_id" in message][1:]
    assert [message for message in kept if message not in messages] == []
    assert compacted[-20:] == messages[-20:]


def test_results_are_cut_before_what_people_said() -> None:
    """The largest first: small results and all that was said stay as they are."""
    said = [message for n in range(4) for message in (user(f"Then {n}? " * 20), assistant(f"So {n}. " * 20))]
    giant = group("read_file", "{}", "line of text " * 3_000, "big")
    small = group("read_file", "{}", "a short result", "small")
    messages = with_ids(
        [*chat(20, 60), user("Go."), *giant, *small, assistant("Done."), *said, user("Next?")]
    )
    compressor = engine(8_000, protect_last_n=16)
    compacted = compressor.compress(messages)
    changed = [message for message in compacted[-16:] if message not in messages]
    assert [message["tool_call_id"] for message in changed] == ["big_0"]
    assert compressor.last_outcome.shortened == 1
    assert estimate_messages_tokens_rough(compacted) < compressor.threshold_tokens


def test_the_ledger_makes_way_before_the_tail() -> None:
    """A ledger as large as it may be would leave the last twenty messages no room."""
    names = [user(f"Never touch /srv/data/{n:03}/archive-{n:03}.tar.gz.") for n in range(60)]
    tail = [message for n in range(10) for message in (user(f"Then {n}? " * 68), assistant(f"So {n}. " * 88))]
    messages = with_ids([system(), user("Hi"), assistant("Hi"), *names, assistant("Ok."), *tail])
    compressor = engine(8_000)
    compacted = compressor.compress(messages)
    assert compacted[-20:] == messages[-20:]
    assert estimate_messages_tokens_rough(compacted) < compressor.threshold_tokens
    assert "/srv/data/059/archive-059.tar.gz" in text(summary_in(compacted) or {})


def test_a_giant_answer_does_not_wedge_the_conversation() -> None:
    """One that would not fit the window, after a change to a smaller model, is cut like any other message."""
    giant = offer(90_000)
    messages = with_ids([*chat(10), user("Which?"), giant, user("The seventh.")])
    compressor = engine(8_000)
    compacted = compressor.compress(messages)
    assert estimate_messages_tokens_rough(compacted) < compressor.threshold_tokens
    assert compacted[-1] == messages[-1]


def test_an_answer_in_the_first_exchange_is_not_cut_while_it_is_replied_to() -> None:
    """The head is shortened only afterwards."""
    messages = with_ids([system(), user("Which routes?"), offer(), user("The seventh."), *reading(6, 900)])
    compacted = engine(4_000, protect_last_n=4).compress(messages)
    assert messages[2] in compacted
    later = with_ids([*messages, assistant("Booked."), *chat(20, 60)[1:]])
    assert messages[2] not in engine(4_000, protect_last_n=4).compress(later)


# Boundaries


@pytest.mark.parametrize("results", [4, 8, 12, 20])
def test_results_that_leave_the_tail_are_pruned_before_they_are_summarised(results: int) -> None:
    """A tail that gave way sent them whole: several calls in a small window, where one is enough."""
    recorder = Recorder()
    messages = [*chat(3), user("Read them all."), *reading(results, 200)]
    ContextCompressor(2_000, summarize=recorder).compress(messages)
    assert len(recorder.prompts) == 1
    assert "word 0 word" not in recorder.prompts[0]


class Aligning(ContextCompressor):
    """Notes what its boundaries are aligned by."""

    def __init__(self, context_length: int) -> None:
        super().__init__(context_length, protect_last_n=3, summarize=Recorder())
        self.aligned: list[int] = []

    def _align_boundary_backward(self, messages: Sequence[ChatDict], index: int) -> int:
        boundary = super()._align_boundary_backward(messages, index)
        self.aligned += [boundary] if boundary != index else []
        return boundary


def test_boundaries_are_aligned_by_the_documented_method() -> None:
    """An engine that overrides it is heeded."""
    parallel = [calls(("a", "{}"), ("b", "{}"), ("c", "{}"), ("d", "{}"))]
    parallel += [result("ok " * 100, f"call_{n}") for n in range(4)]
    messages = [*chat(30), user("Go"), *parallel]
    compressor = Aligning(4_000)
    compacted = compressor.compress(messages)
    assert messages.index(parallel[0]) in compressor.aligned
    assert compacted[-5:] == parallel


# Options


def test_open_options_stay_while_tools_are_at_work() -> None:
    """Much has been done since the person chose; what they chose from is still there."""
    messages = with_ids(
        [*chat(10), user("Which routes?"), offer(3_000), user("Number 3."), *reading(40, 120)]
    )
    compressor = engine(8_000, protect_last_n=4)
    compacted = compressor.compress(messages)
    assert messages[22] in compacted and messages[23] in compacted
    assert estimate_messages_tokens_rough(compacted) < compressor.threshold_tokens
    check_sendable(compacted)
    check_turns_alternate(compacted)


def test_open_options_stay_until_the_person_has_chosen() -> None:
    """A question about the options does not choose one; after a choice they may be compacted."""
    asked = [
        *chat(20),
        user("Which routes?"),
        offer(2_000),
        user("Are there stops?"),
        assistant("Two on each."),
    ]
    open_still = with_ids([*asked, user("Hm, let me think."), *reading(30, 120)])
    settled = with_ids(
        [*asked, user("Route 2."), assistant("Booked."), user("And a hotel?"), *reading(30, 120)]
    )
    for messages, is_kept in ((open_still, True), (settled, False)):
        compacted = engine(8_000, protect_last_n=4).compress(messages)
        assert (messages[42] in compacted) is is_kept
        check_sendable(compacted)
        check_turns_alternate(compacted)


def test_options_do_not_stay_for_ever() -> None:
    """Four messages later the options are out of date."""
    messages = [user("Which?"), offer(1_000)]
    for number in range(5):
        pinned = find_pinned([*messages, user("Now?")], ())
        assert pinned.offer == (1 if number < 4 else None)
        messages += [user("Why?"), assistant("Because.")]


@pytest.mark.parametrize(
    ("said", "offers"),
    [
        ("1. Red\n2. Blue\nWhich one?", True),
        ("- Red\n- Blue\nTell me which you like.", True),
        ("**A)** Red\n**B)** Blue\n\nWas soll es sein?", True),
        ("Option 1: red\nOption 2: blue\nYour choice?", True),
        ("1️⃣ 赤\n2️⃣ 青\nどちらにしますか？", True),
        ("1. Open the file\n2. Run it", False),
        ("Do you want red or blue?", False),
        ("", False),
    ],
)
def test_what_counts_as_an_offer(said: str, offers: bool) -> None:
    """Several things in a list, and a question."""
    assert offers_options(said) is offers


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("2", True),
        ("b", True),
        ("The second one, please.", True),
        ("Die zweite.", True),
        ("Take the harbour.", True),
        ("Both", True),
        ("The harbour. Is it far?", True),
        ("a " * 400, True),
        ("Is the harbour far?", False),
        ("Give me a moment.", False),
        ("Which is the cheapest route?", False),
    ],
)
def test_what_counts_as_a_choice(reply: str, chosen: bool) -> None:
    """The place in the list, or a word that only one option has."""
    said = "1. The route by the harbour\n2. The route by the forest\nWhich?"
    assert has_chosen(reply, said) is chosen


OPTIONS = (
    "1. Rebuild the service with Docker, about two days, near the station\n"
    "2. Keep what we have and patch it\n3. Move everything to Lambda\nWhich one?"
)


@pytest.mark.parametrize(
    ("reply", "chosen"),
    [
        ("Hm, I have to ask my wife, she is near the phone in 2 hours.", False),
        ("Let me think, I have to ask Tom first.", False),
        ("I'll decide tomorrow at 5.", False),
        ("I'll tell you at 2.", False),
        ("My boss is back in 2 days, let's wait.", False),
        ("We are 3 people and paid 2.50 so far.", False),
        ("Good question, I will talk with my boss about that.", False),
        ("Everything clear, I'll come back to it.", False),
        ("That is all for now, thanks.", False),
        ("Ich melde mich um 3 Uhr.", False),
        ("The last time we asked Tom.", False),
        ("The 4 of us talk about it.", False),
        ("All good.", False),
        ("A table for 2, please.", False),
        ("I go for 2.", True),
        ("Number 2.", True),
        ("I would say 3, thanks", True),
        ("The first one.", True),
        ("Second one please", True),
        ("None of them.", True),
        ("Ok, back to the plan: go with Lambda.", True),
        ("Wir nehmen Docker.", True),
        ("Lambda!", True),
        ("A rebuild of the service sounds right to me.", True),
    ],
)
def test_a_common_word_or_a_time_is_no_choice(reply: str, chosen: bool) -> None:
    """Only a label of the offer, a verb of choosing with a word of one option, or two such words settle it."""
    assert has_chosen(reply, OPTIONS) is chosen


# Convergence


def test_a_tail_that_gave_way_leaves_room_for_the_next_turns() -> None:
    """Twenty messages do not fit; a tail that just fits would be compacted again at every turn."""
    recorder = Recorder()
    compressor = engine(8_000, recorder)
    messages = [system()]
    for number in range(60):
        messages = [*messages, user(f"Question {number} " * 30), assistant(f"Answer {number} " * 160)]
        if compressor.should_compress(estimate_messages_tokens_rough(messages)):
            messages = compressor.compress(messages)
            size = estimate_messages_tokens_rough(messages)
            compressor.update_from_response({"prompt_tokens": size})
            assert size < compressor.threshold_tokens
    assert 10 < len(recorder.prompts) < 30


def test_an_answer_that_fills_the_threshold_does_not_stop_compactions() -> None:
    """Pinned, it leaves no room for the tail's budget; a compaction that did not help makes the next one cut closer."""
    clock = [0.0]
    compressor = engine(8_000, overhead_tokens=2_500, clock=lambda: clock[0])
    messages, over = [system()], 0
    for number in range(60):
        clock[0] += 90
        messages = [*messages, assistant(f"Answer {number} " * 200), user(f"Question {number}")]
        if compressor.should_compress(estimate_messages_tokens_rough(messages) + 2_500):
            messages = compressor.compress(messages)
        size = estimate_messages_tokens_rough(messages) + 2_500
        compressor.update_from_response({"prompt_tokens": size})
        over += size >= 6_500
    assert over == 0
