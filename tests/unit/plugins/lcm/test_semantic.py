"""Searching by meaning: what it finds, and that its vectors are always those of the messages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugins.context_engine.lcm.messages import EMBEDDING_BLOCK
from plugins.context_engine.lcm.search.semantic import SemanticSearch, is_installed
from plugins.context_engine.lcm.tools import answer
from tests.support.lcm_chats import Host, vectors_are_right
from tests.support.lcm_tools_harness import LcmToolsHarness, assistant, opened, user

if not is_installed():
    pytest.skip("The extra `semantic` is not installed.", allow_module_level=True)

ON = SemanticSearch("on")
TALK = (
    "The quarterly report is due on Thursday.",
    "I painted the kitchen yellow last weekend.",
    "Our neighbours complained about the noise again.",
    "We purchased a sailing yacht from a retired captain.",
    "The train was delayed by an hour.",
    "My sister passed her driving test.",
    "It rained during the whole concert.",
    "He repaired the washing machine himself.",
)
ASKED = "Did somebody buy a boat?"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LcmToolsHarness]:
    with opened(tmp_path / "home") as made:
        yield made


def grep(harness: LcmToolsHarness, query: str, *, meaning: SemanticSearch = ON, **args: object) -> str:
    return answer("lcm_grep", {"query": query, **args}, harness.call_context(meaning=meaning))


def hits(told: str) -> list[str]:
    return [line for line in told.splitlines()[1:] if line.startswith(("m", "c"))]


def test_what_shares_no_word_with_the_question_is_found(harness: LcmToolsHarness) -> None:
    """Words alone find nothing here."""
    harness.say(*map(user, TALK))
    assert "Nothing found" in grep(harness, ASKED, meaning=SemanticSearch("off"))
    assert "sailing yacht" in hits(grep(harness, ASKED, limit=1))[0]


def test_what_has_nothing_to_do_with_anything_is_not(harness: LcmToolsHarness) -> None:
    """A distant nearest match is not returned."""
    harness.say(*map(user, TALK))
    for question in ("kubernetes ingress controller", "qzxv blorf", "photosynthesis of algae"):
        assert "Nothing found" in grep(harness, question)


def test_words_count_more(harness: LcmToolsHarness) -> None:
    """An exact name is found among near matches."""
    harness.say(*map(user, TALK), user("Zygmunt called."), *map(user, TALK))
    assert "Zygmunt" in hits(grep(harness, "buying boats with Zygmunt", limit=1))[0]


def test_exact_modes_know_no_meaning(harness: LcmToolsHarness) -> None:
    """Who asks for a phrase wants that phrase."""
    harness.say(*map(user, TALK))
    for mode in ("phrase", "all", "regex"):
        assert "Nothing found" in grep(harness, "boat", mode=mode)


def test_role_and_time_hold_for_meaning_too(harness: LcmToolsHarness) -> None:
    """One message a minute was said, from 2026-02-02 02:40 on."""
    harness.say(*map(user, TALK), assistant("A yacht needs a mooring in the harbour."))
    assert hits(grep(harness, ASKED, role="assistant")) == [
        "m9 2026-02-02 a: A yacht needs a mooring in the harbour."
    ]
    assert "sailing yacht" not in grep(harness, ASKED, since="2026-02-02T02:44")
    assert "mooring" not in grep(harness, ASKED, until="2026-02-02T02:44")


def test_other_people_stay_apart(harness: LcmToolsHarness) -> None:
    """Everywhere is everywhere of this person."""
    harness.say(*map(user, TALK[4:]))
    harness.say(*map(user, TALK[:4]), conversation="hers", person="ada")
    harness.say(user("A boat of my own, bought yesterday."), conversation="his", person="bob")
    for conversation, person in (("hers", "ada"), ("his", "bob")):
        call = harness.call_context(conversation=conversation, person=person, meaning=ON)
        answer("lcm_grep", {"query": "boat"}, call)
    assert "yacht" not in grep(harness, ASKED)
    told = grep(harness, ASKED, everywhere=True)
    assert "yacht" in told and "my own" not in told


def test_the_question_itself_raises_nothing_around_it(harness: LcmToolsHarness) -> None:
    """What was said just before it has not become an answer by that."""
    said = harness.say(*map(user, TALK), *(user(f"Small talk, {n}.") for n in range(20)), user(ASKED))
    harness.show(*said)
    for meaning in (ON, SemanticSearch("off")):
        assert "Small talk" not in grep(harness, f"{ASKED} A yacht?", meaning=meaning, limit=3)


def test_vectors_follow_the_messages(harness: LcmToolsHarness) -> None:
    """Over several blocks, with a last one that grows; what a search of ours found says nothing."""
    harness.say(*(user(f"Number {n} is about {TALK[n % 8]}") for n in range(EMBEDDING_BLOCK + 40)))
    grep(harness, ASKED)
    assert vectors_are_right(harness.home) == EMBEDDING_BLOCK + 40
    harness.say(*(assistant(f"Answer {n}") for n in range(EMBEDDING_BLOCK)))
    grep(harness, ASKED)
    assert vectors_are_right(harness.home) == 2 * EMBEDDING_BLOCK + 40
    assert "Search: by words and by meaning (552 of 552 messages so far)" in answer(
        "lcm_status", {}, harness.call_context(meaning=ON)
    )


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM meanings WHERE block = 0",
        "UPDATE meanings SET model = 'an earlier one'",
        "UPDATE meanings SET vectors = x'00' WHERE block = 1",
        "UPDATE meanings SET messages = 1, vectors = substr(vectors, 1, 128)",
    ],
)
def test_what_is_missing_is_made_again(harness: LcmToolsHarness, damage: str) -> None:
    """A block that is lost, of another model, broken or half done."""
    harness.say(*(user(f"Number {n} is about {TALK[n % 8]}") for n in range(EMBEDDING_BLOCK + 40)))
    grep(harness, ASKED)
    harness.sql(damage)
    assert "yacht" in grep(harness, ASKED)
    assert vectors_are_right(harness.home) == EMBEDDING_BLOCK + 40


def test_a_compaction_works_them_out(tmp_path: Path) -> None:
    """So that a search need not. Switched off, nothing is kept; the status tells which."""
    for home, semantic, told in (("on", "on", "60 of 60 messages"), ("off", False, "semantic` is off")):
        (tmp_path / home).mkdir()
        host = Host(tmp_path / home, 2_000, options={"semantic": semantic})
        host.say(*(user(f"{n}: {TALK[n % 8]}") for n in range(60)))
        assert host.compress()
        assert vectors_are_right(tmp_path / home) == (60 if home == "on" else 0)
        assert told in host.tool("lcm_status")
        host.close()


def test_a_file_from_before_gets_them(harness: LcmToolsHarness) -> None:
    """The schema grows, and nothing that was said changes."""
    harness.say(*map(user, TALK))
    harness.sql("DROP TABLE meanings", "PRAGMA user_version = 1")
    with opened(harness.home) as again:
        assert "sailing yacht" in hits(grep(again, ASKED, limit=1))[0]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(st.characters(), max_size=60), max_size=4))
def test_any_text_has_a_vector(texts: list[str]) -> None:
    """Half characters, zeros, no words at all; and always the same one."""
    model = ON.model()
    assert model
    vectors = model.vectors(texts)
    assert vectors.shape == (len(texts), model.dimensions)
    assert (vectors == model.vectors(texts)).all()


NOT_THERE = """
import sys
sys.modules["wordllama"] = None
"""
BROKEN = """
import sys
sys.path.insert(0, {here!r})
"""


def elsewhere(home: Path, beginning: str) -> str:
    """What a process says in which the package is not as it should be."""
    script = f"""{beginning}
from plugins.context_engine.lcm.engine import LosslessContext
engine = LosslessContext(9_000, hermes_home={str(home)!r})
engine.on_session_start("s", conversation_id="c")
said = ("user", "a sailing yacht"), ("assistant", "Nice."), ("user", "What did I say?")
engine.should_compress_preflight([{{"role": role, "content": text}} for role, text in said])
print(engine.handle_tool_call("lcm_grep", {{"query": "yachts"}}))
print(engine.handle_tool_call("lcm_status", {{}}))
try:
    LosslessContext(9_000, options={{"semantic": True}})
except ValueError as error:
    print(error)
"""
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, cwd=Path(__file__).parents[4], capture_output=True, text=True, check=True)
    assert "a sailing yacht" in ran.stdout
    return ran.stdout


def test_where_it_is_not_installed(tmp_path: Path) -> None:
    """Words do, the status says how to get it, and to insist on it is a mistake of the configuration."""
    told = elsewhere(tmp_path, NOT_THERE)
    assert "Search: by words (to search by meaning, too: pip install -e '.[semantic]')" in told
    assert "is on, but its packages are not installed" in told


def test_where_it_is_broken(tmp_path: Path) -> None:
    """Words do, and the status says so."""
    weights = tmp_path / "wordllama" / "weights" / "l2_supercat_256.safetensors"
    weights.parent.mkdir(parents=True)
    (tmp_path / "wordllama" / "__init__.py").write_text("")
    weights.write_bytes(b"nothing of the kind")
    told = elsewhere(tmp_path, BROKEN.format(here=str(tmp_path)))
    assert "Search: by words (the embedding model cannot be read" in told
