"""Standing rules: recognition, revocation, speakers, and priority when space is short."""

from __future__ import annotations

import time

import pytest

from agent.compression.identifiers import find_phrases
from agent.compression.ledger import Ledger
from agent.compression.ledger_entries import find_entries, vocabulary_of
from agent.compression.revocations import revocation_kind, without_revoked
from agent.compression.standing_instructions import find_instructions, telling_words
from agent.compression.truncate import truncate
from agent.context_compressor import ContextCompressor
from agent.untrusted import wrap_untrusted
from gateway.chat.group_context import render_for_model
from gateway.types import Author, ChatMessage, Place
from tests.support import changed_rules as changed
from tests.support import held_out_sentences as held_out
from tests.support import standing_sentences as known
from tests.support.histories import Chat, assistant, chat, summary_in, system, text, user


def ledger_of(*messages: Chat, before: Ledger | None = None) -> Ledger:
    said = list(messages)
    earlier = before or Ledger()
    wording = vocabulary_of(said, said)
    found = find_entries(said, wording, earlier=earlier, earlier_summary="")
    return earlier.extended(found, just_said=True)


@pytest.mark.parametrize("sentence", known.STANDING)
def test_what_is_meant_to_hold_is_found(sentence: str) -> None:
    """Word for word, between other sentences."""
    assert find_instructions(f"Hello there.\n{sentence} Thanks.")[0].startswith(sentence)


@pytest.mark.parametrize("sentence", known.NOT_STANDING)
def test_wishes_for_this_task_reports_and_questions_are_no_rules(sentence: str) -> None:
    """They are for the summary."""
    assert find_instructions(sentence) == []


@pytest.mark.parametrize(("rule", "revocation"), known.REVOKED)
def test_a_rule_revoked_in_other_words_leaves_the_ledger(rule: str, revocation: str) -> None:
    """In the same stretch, and before an earlier compaction."""
    together = ledger_of(user(rule), assistant("Yes."), user(revocation))
    later = ledger_of(user(revocation), before=ledger_of(user(rule)))
    for ledger in (together, later):
        assert rule not in ledger.instructions
        assert ledger.instructions == (revocation,), "the summary may still know the rule"


@pytest.mark.parametrize(("rule", "remark"), (*known.NOT_REVOKED, *held_out.NOT_REVOKED))
def test_a_rule_is_not_revoked_by_a_remark_about_something_else(rule: str, remark: str) -> None:
    """A word in common is not enough."""
    assert rule in ledger_of(user(rule), user(remark)).instructions


def test_precision_and_recall_over_the_second_table() -> None:
    """As a whole, not one by one. A revocation that is found stays behind its rule at least."""
    right = [s for s in held_out.STANDING if find_instructions(s)]
    wrong = [s for s in held_out.NOT_STANDING if find_instructions(s)]
    assert len(right) >= 0.9 * len(held_out.STANDING), set(held_out.STANDING) - set(right)
    assert len(right) >= 0.95 * (len(right) + len(wrong)), wrong
    found = [(rule, said) for rule, said in held_out.REVOKED if revocation_kind(said)]
    assert len(found) >= 0.9 * len(held_out.REVOKED)
    removed = [rule for rule, said in found if rule not in without_revoked([rule], said)]
    assert len(removed) >= 0.8 * len(found)
    for rule, said in found:
        assert ledger_of(user(rule), user(said)).instructions[-1] == said


def test_what_changes_a_rule_in_other_words_stands_behind_the_rule() -> None:
    """Over a table, as a whole: no list of phrases is complete. What has nothing to do with the rule rarely does."""
    rules = {rule: ledger_of(user(rule)).instructions for rule, _ in (*changed.CHANGED, *changed.UNCHANGED)}
    pairs = [(rule, said) for rule, said in changed.CHANGED if rules[rule]]
    alone = [pair for pair in pairs if ledger_of(*map(user, pair)).instructions == rules[pair[0]]]
    assert len(pairs) >= 0.9 * len(changed.CHANGED)
    assert len(alone) <= 0.15 * len(pairs), alone
    others = [(rule, said) for rule, said in changed.UNCHANGED if rules[rule]]
    for pair in others:
        assert ledger_of(*map(user, pair)).instructions[: len(rules[pair[0]])] == rules[pair[0]]
    beside = [pair for pair in others if ledger_of(*map(user, pair)).instructions != rules[pair[0]]]
    assert len(beside) <= 0.25 * len(others), beside


def test_a_remark_of_an_earlier_compaction_is_not_lost_before_its_rule() -> None:
    """In one stretch and in two; in a group only the speaker of the rule changes it."""
    rule, remark = "Never deploy on Friday.", "Let's deploy on Friday after all."
    earlier = ledger_of(user(rule))
    later = ledger_of(user(remark), before=earlier)
    assert later.instructions == (rule, remark)
    wide = ledger_of(
        *(user(f"Always use tool{number} for task{number}.") for number in range(200)), before=later
    )
    bounded = wide.bounded(300)
    assert rule in bounded.instructions and remark in bounded.instructions
    assert ledger_of(
        user(f"Ben: {remark}"), user("Ben: hello"), before=ledger_of(user(f"Ana: {rule}"))
    ).instructions == (f"Ana: {rule}",)


def test_looking_for_remarks_takes_linear_time() -> None:
    """Every message has a rule, and a remark about the same topic."""

    def cost(count: int) -> float:
        said = [user(f"Never deploy app{n} on Friday.\nDeploying app{n} is fine now.") for n in range(count)]
        wording = vocabulary_of(said, said)
        began = time.process_time()
        find_entries(said, wording, earlier=Ledger(), earlier_summary="")
        return time.process_time() - began

    once = min(cost(400) for _ in range(3))
    assert min(cost(1_600) for _ in range(3)) <= 9 * once


@pytest.mark.parametrize("revocation", [said for _, said in (*known.REVOKED, *held_out.REVOKED)])
def test_a_revocation_is_not_overlooked(revocation: str) -> None:
    """Most messages are not looked at, for want of a word that tells."""
    assert telling_words(revocation.split())


@pytest.mark.parametrize(
    "revocation",
    [
        *("Remove the Friday ban.", "The Friday policy is canceled.", "Puoi di nuovo scrivere in italiano."),
        *(
            "Olvidate de lo que dije de Madrid.",
            "Esqueca o que eu disse de Lisboa.",
            "Ignorier das Freitag Verbot",
        ),
        *(
            "Die Vorgabe zum Freitag ist hinfällig.",
            "Puoi ancora scrivere a Marco.",
            "Never mind what I said on Friday.",
        ),
    ],
)
def test_the_words_of_every_revocation_tell(revocation: str) -> None:
    """Those of all the patterns."""
    assert revocation_kind(revocation) and telling_words(revocation.split())


@pytest.mark.parametrize("remark", ["The coupon code no longer applies.", "You can start the server again."])
def test_what_takes_back_no_rule_of_the_ledger_is_not_kept(remark: str) -> None:
    """It was for the task at hand; where a rule has a topic in common, both stay."""
    assert ledger_of(user("Never deploy on Friday."), user(remark)).instructions == (
        "Never deploy on Friday.",
    )
    hotel = ("Never book hotel rooms above 120 euros.", "You can book the hotel again.")
    assert ledger_of(*map(user, hotel)).instructions == hotel


def test_where_two_rules_may_be_meant_both_stay_before_the_revocation() -> None:
    """The model that reads them decides."""
    said = (
        "Never deploy on Friday.",
        "Always send the report on Friday.",
        "The Friday rule no longer applies.",
    )
    assert ledger_of(*map(user, said)).instructions == said


def test_everything_can_be_taken_back_at_once_and_asked_for_again() -> None:
    """Later sentences count."""
    said = ("Never deploy on Friday.", "Call me Ada.", "Forget everything I said.", "Call me Ada.")
    assert ledger_of(*map(user, said)).instructions == ("Forget everything I said.", "Call me Ada.")


SAID_ON = 1_795_000_000.0
DAY = "(said on Wed 2026-11-18)"


def test_the_day_beside_a_rule_is_no_topic_of_it() -> None:
    """Rules said on one day have nothing in common by that; a day hides no topic."""

    def said(*lines: str) -> tuple[str, ...]:
        return ledger_of(*({**user(line), "created_at": SAID_ON} for line in lines)).instructions

    called = "From tomorrow on always call me Max."
    hotel = "Starting today the hotel rule no longer applies."
    assert said(called, hotel) == (f"{called} {DAY}", f"{hotel} {DAY}")
    friday = "From tomorrow the Friday rule no longer applies."
    assert said("Never deploy on Fridays.", friday) == (f"{friday} {DAY}",)
    assert said("From tomorrow on no calls.", friday)[0] == f"From tomorrow on no calls. {DAY}"
    assert said("Antworte hier immer auf Deutsch.") == ("Antworte hier immer auf Deutsch.",)


@pytest.mark.parametrize("tokens", [150, 200, 320, 1_000])
def test_a_revocation_is_not_lost_before_its_rule(tokens: int) -> None:
    """A rule that stays after it was revoked is worse than one that is lost."""
    said = [
        "Never deploy on Friday.",
        "Always send the report on Friday.",
        "The Friday rule no longer applies.",
    ]
    filler = [f"Always greet guest number {n} by name." for n in range(60)]
    bounded = Ledger(instructions=(*said, *filler)).bounded(tokens)
    assert said[2] in bounded.instructions


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        (
            ["My passport number is C01X00T47. Remember that."],
            "My passport number is C01X00T47. Remember that.",
        ),
        (
            ["The gate code is 4711.", "Please keep that in mind!"],
            "The gate code is 4711. Please keep that in mind!",
        ),
        (["My dog is called Rex.", "Can you remember that?"], "My dog is called Rex. Can you remember that?"),
        (["Meine Tante heißt Ilse. Merk dir das."], "Meine Tante heißt Ilse. Merk dir das."),
        (["我对花生过敏。记住这一点。"], "我对花生过敏。"),
    ],
)
def test_remember_that_is_kept_with_its_object(messages: list[str], kept: str) -> None:
    """The statement before it, in the same message or in the one before."""
    said = [m for line in messages for m in (user(line), assistant("Noted."))]
    assert any(kept in line for line in ledger_of(*said).instructions)


def test_remember_that_without_an_object_is_nothing() -> None:
    """A question does not count as an object."""
    assert ledger_of(user("Remember that.")).instructions == ()
    assert ledger_of(user("What is the time?"), user("Remember that!")).instructions == ()


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("Your gate code is 4711.", ("Your gate code is 4711. Remember that.",)),
        ("It is done. Shall I do anything else?", ()),
        ("Noted.", ("My dog is called Rex. Remember that.",)),
    ],
)
def test_remember_that_points_to_what_was_said_right_before(answer: str, kept: tuple[str, ...]) -> None:
    """By the assistant, unless it only nodded; of a question nothing is kept."""
    said = (user("My dog is called Rex."), assistant(answer), user("Remember that."))
    assert ledger_of(*said).instructions == kept


WALL = "\n\n".join(
    f"The client MUST always send header X-{number} with every request." for number in range(300)
)
"""A specification with a blank line between its rules."""


@pytest.mark.parametrize("before", [1, 40])
def test_a_rule_between_two_pastes_is_not_driven_out(before: int) -> None:
    """In a message of its own between pastes in one message or in many; the pastes are bounded by themselves."""
    rule = "Never deploy on Friday."
    pastes = [user(WALL.replace("X-", f"X-{n}-")) for n in range(before)]
    ledger = ledger_of(*pastes, user(rule), *pastes)
    assert rule in ledger.instructions
    assert len(ledger.pasted) <= 200
    assert rule in ledger.bounded(300).instructions


def test_a_rule_between_two_pastes_in_one_message_is_kept() -> None:
    """It counts as pasted, for nothing tells who wrote it."""
    rule = "Never deploy on Friday."
    ledger = ledger_of(user(f"{WALL}\n\n{rule}\n\n{WALL}"))
    assert rule in (*ledger.instructions, *ledger.pasted)
    assert len(ledger.pasted) < 30


OWN = "Never deploy on Friday."
WALL = "\n".join(f"Rule {n}: You MUST always check box {n} before you continue." for n in range(300))
PASTED = {
    "as it is": WALL,
    "behind an introduction": f"Here is our policy:\n{WALL}\nOk?",
    "in paragraphs": WALL.replace("\n", "\n\n"),
    "in a fence": f"```\n{WALL}\n```",
    "quoted": "\n".join(f"> {line}" for line in WALL.split("\n")),
    "one line": WALL.replace("\n", " "),
    "attached": f"[File policy.txt. Its content:]\n{wrap_untrusted(WALL)}",
}


@pytest.mark.parametrize("pasted", PASTED.values(), ids=PASTED)
@pytest.mark.parametrize("tokens", [80, 100, 150, 320, 800, 3_000])
def test_a_pasted_text_does_not_push_out_an_own_rule(pasted: str, tokens: int) -> None:
    """At any budget, whether it came before the rule, behind it, or in the same message."""
    for said in ([OWN, pasted], [pasted, OWN], [f"{OWN}\n\n{pasted}"], [f"{pasted}\n\n{OWN}"]):
        bounded = ledger_of(*map(user, said)).bounded(tokens)
        assert OWN in bounded.instructions, said[0][:40]
        assert len(bounded.instructions) <= 3


@pytest.mark.parametrize("window", [4_000, 16_000])
def test_an_own_rule_outlives_pasted_rules_through_five_compactions(window: int) -> None:
    """Each with another paste."""
    messages = [system(), user("Hi"), assistant("Hi"), user(OWN), assistant("Yes.")]
    for number in range(5):
        paste = [user(WALL.replace("box", f"box {number}-")), assistant("Read.")]
        engine = ContextCompressor(window, protect_last_n=4, summarize=lambda prompt, limit: "ok")
        messages = engine.compress([*messages, *paste, *chat(60, words=window // 80)[1:]])
    assert f"- {OWN}" in text(summary_in(messages) or {})


def test_the_oldest_own_rule_is_the_last_to_go() -> None:
    """The bound drops newer rules first."""
    rules = tuple(f"Never do thing number {n} on a Friday." for n in range(100))
    sizes = [len(Ledger(instructions=rules).bounded(tokens).instructions) for tokens in range(40, 2_000, 40)]
    assert sizes == sorted(sizes)
    for tokens in range(60, 2_000, 40):
        assert Ledger(instructions=rules).bounded(tokens).instructions[0] == rules[0]


def said_in_group(name: str, words: str) -> Chat:
    place = Place("1", kind="group")
    return user(render_for_model(ChatMessage("1", place, Author("7", name), words), ()))


def test_in_a_group_the_speaker_stays_with_the_rule() -> None:
    """Also where the rule is not at the beginning of the message."""
    ledger = ledger_of(
        said_in_group("Ada", "Hello all. Never deploy on Friday.\nAnd from now on write in German."),
        said_in_group("Bob", "Fine with me."),
        said_in_group("Bob", "I'm allergic to nuts."),
    )
    assert ledger.instructions == (
        "Ada: Never deploy on Friday.",
        "Ada: And from now on write in German.",
        "Bob: I'm allergic to nuts.",
    )


def test_in_a_group_a_rule_is_taken_back_by_who_gave_it() -> None:
    """Remarks of others are kept beside the rule, under their names."""
    rule = said_in_group("Ada", "Never deploy on Friday.")
    other = said_in_group("Bob", "The Friday rule no longer applies.")
    assert ledger_of(rule, other).instructions == (
        "Ada: Never deploy on Friday.",
        "Bob: The Friday rule no longer applies.",
    )
    own = said_in_group("Ada", "You can deploy on Fridays again.")
    assert ledger_of(rule, own).instructions == ("Ada: You can deploy on Fridays again.",)
    wish, stop = (
        said_in_group("Ada", "Always answer in French."),
        said_in_group("Ada", "Stop answering in French."),
    )
    assert ledger_of(wish, stop).instructions == ("Ada: Stop answering in French.",)


def test_a_name_field_is_a_speaker_too() -> None:
    """As OpenAI's format has it."""
    messages = [{**user("Never deploy on Friday."), "name": "ada"}, {**user("Why?"), "name": "bob"}]
    assert ledger_of(*messages).instructions == ("ada: Never deploy on Friday.",)


LOG = "\n".join(f"line {n} of a long log" for n in range(900))


@pytest.mark.parametrize(
    "odd",
    [
        user("Continue."),
        user(f"[File log.txt. Its content:]\n{wrap_untrusted(LOG)}"),
        truncate(said_in_group("Cem", f"Look at this:\n{LOG}"), 400),
        truncate(said_in_group("Cem", "word " * 9_000), 400),
        {**user("Look:\nit fails.\n\nWhy?"), "name": "Cem"},
    ],
    ids=["no speaker", "only a file", "shortened", "shortened line", "name and many lines"],
)
def test_one_odd_message_takes_no_speaker_from_the_others(odd: Chat) -> None:
    """Whose rule it is decides who may take it back."""
    ledger = ledger_of(
        said_in_group("Ada", "Hello. Never deploy on Friday."),
        odd,
        said_in_group("Bob", "Hi. Forget everything I said."),
    )
    assert ledger.instructions == ("Ada: Never deploy on Friday.", "Bob: Forget everything I said.")


def test_every_line_of_a_message_with_a_name_has_its_speaker() -> None:
    """Also of a message that was shortened."""
    named = {**user("Hello.\nNever deploy on Friday.\n\nAlways ask me."), "name": "ada"}
    assert ledger_of(named).instructions == ("ada: Never deploy on Friday.", "ada: Always ask me.")
    shortened = truncate(said_in_group("Ada", f"Hi. Never deploy on Friday.\n{LOG}"), 400)
    assert "Ada: Never deploy on Friday." in ledger_of(shortened).pasted


@pytest.mark.parametrize(
    ("sentence", "identifier"),
    [
        ("Please pay invoice 4711 today.", "invoice 4711"),
        ("Please pay the 4711 invoice today.", "4711 invoice"),
        ("I am in room 12b.", "room 12b"),
        ("Where is order no. 77-1?", "order no. 77-1"),
        ("Call +49 170 1234567 tonight.", "+49 170 1234567"),
        ("My number is (030) 123 456.", "(030) 123 456"),
        ("Send it to DE89 3704 0044 0532 0130 00, please.", "DE89 3704 0044 0532 0130 00"),
        ("It fails with Python 3.11 only.", "Python 3.11"),
        ("We are on version 2.3.1 now.", "version 2.3.1"),
        ("I take flight LH 400.", "flight LH 400"),
        ("Bitte Rechnung Nr. 5 bezahlen.", "Rechnung Nr. 5"),
        ("Meine Kundennummer 99812 stimmt nicht.", "Kundennummer 99812"),
        ("Se trata de la factura 33.", "factura 33"),
        ("请查订单号12345的状态", "订单号12345"),
        ("The ticket #88 is open.", "ticket #88"),
        ("Seat 14C is mine.", "Seat 14C"),
        ("Look at widget no. 9.", "widget no. 9"),
        ("Look at widget no #9.", "widget no #9"),
        ("See order no 77 and contract no. 77-1/2024.", "order no 77"),
        ("See order no 77 and contract no. 77-1/2024.", "contract no. 77-1/2024"),
        ("Please call 01.23.45.67.89 today.", "01.23.45.67.89"),
    ],
)
def test_identifiers_of_every_kind_are_kept(sentence: str, identifier: str) -> None:
    """With the word that says what they are, through a compaction, rendered and as data."""
    assert identifier in ledger_of(user(sentence)).named
    messages = [system(), user("Hi"), assistant("Hi"), user(sentence), *chat(40)[2:]]
    made = ContextCompressor(4_000, protect_last_n=4, summarize=lambda p, n: "ok").compress(messages)
    assert identifier in text(summary_in(made) or {})


@pytest.mark.parametrize(
    "sentence",
    [
        *(
            "Meet me at 10:30 on 2024-05-20.",
            "It costs 500 euros.",
            "A table for 2 in 3 days.",
            "I have 12 cats.",
        ),
        *(
            "There is no 5pm slot.",
            "I have no 2nd car.",
            "We have no 3 star hotels.",
            "Am 01.02.2026 um 10:30.",
        ),
        *("Vom 01.02.2026 bis 05.02.2026.", "On 01/02/2026 10 people come.", "Flight 01.02.2026, train 5pm."),
    ],
)
def test_amounts_and_dates_are_no_identifiers(sentence: str) -> None:
    """Nor is what only has a number beside it."""
    assert find_phrases([sentence]) == []


def test_an_identifier_is_one_entry_however_it_is_spelled() -> None:
    """As it was spelled last."""
    assert find_phrases(["Is invoice 4711 paid?", "INVOICE 4711 and Invoice 4711."]) == ["invoice 4711"]


@pytest.mark.parametrize(
    "hostile",
    [
        *(
            "never ",
            "remember ",
            "don't ",
            "you can now ",
            "forget the my ",
            "the rule is ",
            "order no. ",
            "1 ",
            "> ",
        ),
        *("```\n", "A: ", "again ", "。", "不要", "Remember that. ", "is ok now. "),
    ],
)
def test_looking_for_rules_takes_linear_time(hostile: str) -> None:
    """Four times the text takes far less than the sixteen times of a quadratic search."""

    def cost(count: int) -> float:
        said = [user(hostile * count)]
        began = time.process_time()
        wording = vocabulary_of(said, said)
        find_entries(said, wording, earlier=Ledger(), earlier_summary="")
        return time.process_time() - began

    once = min(cost(4_000) for _ in range(3))
    assert min(cost(16_000) for _ in range(3)) <= 9 * once
