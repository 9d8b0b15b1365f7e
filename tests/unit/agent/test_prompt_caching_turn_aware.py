"""The strategy `turn_aware`: an hour where people pause, and a marker where the last request wrote."""

from __future__ import annotations

import pytest

from agent.prompt_caching import Pauses, PromptCaching
from tests.support.cache_markers import HOUR, NATIVE, OPENROUTER, TOOLS, Chat, Clock, ttls
from tests.support.histories import assistant, calls, result, system, user


class Conversation:
    """One that grows request by request, marked by `turn_aware`."""

    def __init__(self, model: str = NATIVE, caching: PromptCaching | None = None) -> None:
        self.clock = Clock()
        self.model = model
        self.caching = caching or PromptCaching(strategy="turn_aware", clock=self.clock)
        self.messages: list[Chat] = [system()]

    def ask(self, *new: Chat, after: float = 0.0) -> dict[int, str]:
        self.clock.now += after
        self.messages += new
        return ttls(self.caching.mark("session", self.model, self.messages, TOOLS).messages)

    def turns(self, count: int, *, pause: float) -> dict[int, str]:
        """So many exchanges of a hundred words; the markers of the last request."""
        marked: dict[int, str] = {}
        for _ in range(count):
            said = len(self.messages)
            text = f"{said} " * 100
            marked = self.ask(*([assistant(text)] if said > 1 else []), user(text), after=pause)
        return marked


def tool_step(number: int, size: int = 400) -> list[Chat]:
    return [calls(("f", "{}"), prefix=f"call{number}"), result("r" * size, f"call{number}_0")]


def test_tools_and_system_prompt_are_kept_for_an_hour() -> None:
    """All conversations share the markers. The tool marker is beside the function of the last tool."""
    messages = [system(), user("a")]
    marked = PromptCaching(strategy="turn_aware").mark("s", NATIVE, messages, TOOLS)
    assert marked.tools == (TOOLS[0], {**TOOLS[1], "cache_control": HOUR})
    assert marked.tools[0] is TOOLS[0]
    assert ttls(marked.messages)[0] == "1h"


def test_through_the_last_user_message_for_an_hour_after_it_for_five_minutes() -> None:
    """At first people are expected to pause; the next step of a tool loop follows at once."""
    chat = Conversation()
    assert chat.ask(user("a" * 400)) == {0: "1h", 1: "1h"}
    assert chat.ask(*tool_step(1), after=5) == {0: "1h", 1: "1h", 3: "5m"}


def test_a_marker_stays_where_the_last_request_wrote() -> None:
    """However many blocks a step adds, what was written before it is found."""
    chat = Conversation()
    chat.ask(user("a"))
    many = [("f", "{}")] * 30
    step = [calls(*many), *(result(f"{n}", f"call_{n}") for n in range(30))]
    marked = chat.ask(*step, after=5)
    assert sorted(marked) == [0, 1, len(chat.messages) - 1]
    assert sorted(chat.ask(assistant("b"), user("c"), after=40)) == [
        0,
        len(chat.messages) - 3,
        len(chat.messages) - 1,
    ]


def test_after_a_pause_the_marker_stays_at_what_is_still_alive() -> None:
    """The tool loop's five minutes are over, the hour is not."""
    chat = Conversation()
    chat.ask(user("a" * 400))
    chat.ask(*tool_step(1), after=5)
    assert 1 in chat.ask(assistant("b"), user("c"), after=600)


def test_after_more_than_an_hour_nothing_is_expected_to_be_there() -> None:
    """No marker is spent on what is gone."""
    chat = Conversation()
    chat.ask(user("a"))
    assert sorted(chat.ask(assistant("b"), user("c"), after=3600)) == [0, 3]


def test_people_who_pause_get_an_hour_for_everything() -> None:
    """Each pause would otherwise cost what the tool loop before it wrote."""
    chat = Conversation()
    chat.turns(4, pause=600)
    assert set(chat.ask(*tool_step(1), after=5).values()) == {"1h"}


def test_people_who_do_not_pause_get_five_minutes_mostly() -> None:
    """An hour now and then, at the price of one short message, keeps the whole conversation from being lost."""
    chat = Conversation()
    chat.turns(50, pause=40)
    ends = [chat.turns(1, pause=40)[len(chat.messages) - 1] for _ in range(50)]
    assert 1 <= ends.count("1h") <= 5


def test_a_short_message_after_long_results_makes_them_last() -> None:
    """The hour is paid for the new message only, and holds all that came before it."""
    chat = Conversation()
    chat.turns(3, pause=40)
    assert chat.ask(*tool_step(1, size=40_000), after=5)[len(chat.messages) - 1] == "5m"
    marked = chat.ask(assistant("done"), user("thanks"), after=40)
    assert marked[len(chat.messages) - 1] == "1h"
    assert marked[len(chat.messages) - 3] == "1h", "no shorter lifetime may come before a longer one"


def test_a_message_that_was_never_stored_is_not_relied_on() -> None:
    """The last step of a turn ends with a note that the next request does not have."""
    chat = Conversation()
    chat.ask(user("a"))
    chat.ask(*tool_step(1), user("[Answer now.]"), after=5)
    chat.messages.pop()
    assert sorted(chat.ask(assistant("b"), user("c"), after=40)) == [0, 1, len(chat.messages) - 1]


@pytest.mark.parametrize(("session", "model"), [("session", "anthropic/claude-opus-4-1"), ("child", NATIVE)])
def test_another_session_and_another_model_begin_anew(session: str, model: str) -> None:
    """After a split positions mean other messages, and each model has a cache of its own."""
    chat = Conversation()
    chat.turns(3, pause=40)
    chat.messages += [assistant("b"), user("c")]
    marked = chat.caching.mark(session, model, chat.messages, TOOLS)
    assert sorted(ttls(marked.messages)) == [0, len(chat.messages) - 1]


def test_a_read_prolongs_the_life_of_what_is_read() -> None:
    """Asked again it is all there, nothing new is written, and another hour begins."""
    chat = Conversation()
    chat.ask(user("a"))
    assert chat.ask(after=3000) == {0: "1h", 1: "1h"}
    assert sorted(chat.ask(assistant("b"), user("c"), after=3000)) == [0, 1, 3]


def test_openrouter_keeps_the_marker_on_the_last_text() -> None:
    """Nothing in a tool loop can carry one there, and tools are not marked."""
    chat = Conversation(OPENROUTER)
    chat.ask(user("a"))
    assert chat.ask(*tool_step(1), after=5) == {0: "1h", 1: "1h"}
    assert chat.caching.mark("session", OPENROUTER, chat.messages, TOOLS).tools == TOOLS


def test_sessions_are_forgotten_oldest_first() -> None:
    """Memory is bounded; a conversation that was forgotten only costs a little more."""
    caching = PromptCaching(strategy="turn_aware")
    messages = [system(), user("a")]
    for number in range(1001):
        caching.mark(f"{number}", NATIVE, messages, ())
    longer = [*messages, assistant("b"), user("c")]
    assert sorted(ttls(caching.mark("0", NATIVE, longer, ()).messages)) == [0, 3]
    assert sorted(ttls(caching.mark("1000", NATIVE, longer, ()).messages)) == [0, 1, 3]


def test_a_new_conversation_is_expected_to_be_like_the_others() -> None:
    """What one person showed counts a little for the next, and their own pauses count more."""
    everybody = Pauses()
    unhurried = everybody.chance
    for _ in range(100):
        Pauses(everybody).note(40)
    quick = Pauses(everybody).chance
    assert quick < unhurried / 5
    slow = Pauses(everybody)
    for _ in range(10):
        slow.note(600)
    assert Pauses(everybody).chance < slow.chance > 0.5


@pytest.mark.parametrize(("seconds", "grows"), [(299, False), (300, True), (3599, True), (3600, False)])
def test_only_a_pause_that_an_hour_survives_speaks_for_an_hour(seconds: float, grows: bool) -> None:
    """Shorter ones five minutes survive, longer ones nothing does."""
    pauses = Pauses()
    before = pauses.chance
    pauses.note(seconds)
    assert (pauses.chance > before) is grows
