"""`make bench-recall`: replays long conversations through the lossless engine, then passes questions to `lcm_grep`.

A file holds conversations of two people in dated sessions, and questions with the ids of the turns that answer them
(LoCoMo's shape). Each conversation is one chat in a small window, so it is compacted many times. The summariser is
deterministic, and nothing leaves the machine. If the extra `semantic` is installed, the questions are asked twice: by
words alone, and by words and meaning.

Evidence recall of a question is the share of its evidence turns that came back with their whole text. All figures are
means over questions; questions without evidence are left out.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from agent.context_engine import ContextEngine
from agent.tokens import estimate_messages_tokens_rough, estimate_text_tokens
from plugins.context_engine.lcm.context_membership import ContextMembers
from plugins.context_engine.lcm.database import FILE_NAME, connect
from plugins.context_engine.lcm.engine import LosslessContext
from plugins.context_engine.lcm.search.page import PageInputs, pages
from plugins.context_engine.lcm.search.ranked import Weights, ranked_search
from plugins.context_engine.lcm.search.request import SearchRequest
from plugins.context_engine.lcm.search.semantic import INSTALL, SemanticSearch, is_installed
from plugins.context_engine.lcm.tools.grep import HEADER_TOKENS
from tests.support.lcm_expanded_pages import originals

if TYPE_CHECKING:
    from plugins.context_engine.lcm.search.embeddings import EmbeddingModel

USUAL_FILE = Path("../shared/data/locomo_dev.json")
BUDGET = 2_000
WINDOW = 6_144
OPTIONS = {"threshold": 0.3, "target": 0.7}
"""A budget of 2,000 tokens is a third of this window, which is the most a tool may return."""
CATEGORIES = {1: "several turns", 2: "time", 3: "inference", 4: "one turn", 5: "misleading"}
_TURN_ID = re.compile(r"D:?(\d+):(\d+)")
_SHOWN = re.compile(r"^m(\d+) (.*)$", re.MULTILINE)
_MORE = re.compile(r"page=\d+")


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    category: int
    evidence: frozenset[int]
    """Numbers of turns, from 1."""


@dataclass(slots=True)
class Talk:
    name: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    without_evidence: int = 0


@dataclass(frozen=True, slots=True)
class Way:
    """The arguments of a search."""

    name: str
    args: dict[str, Any]
    all_pages: bool = False


WAYS = (
    Way("5 hits", {"limit": 5}),
    Way("10 hits", {"limit": 10}),
    Way("20 hits", {"limit": 20}),
    Way("10 and neighbours", {"limit": 10, "context": 1}, all_pages=True),
    Way("20 and neighbours", {"limit": 20, "context": 1}, all_pages=True),
    Way(f"{BUDGET:,} tokens", {}),
)


def talks_in(path: Path) -> Iterator[Talk]:
    for given in json.loads(path.read_text(encoding="utf-8")):
        talk, numbers = Talk(str(given["sample_id"])), dict[tuple[int, int], int]()
        for session in given["sessions"]:
            began = datetime.strptime(session["date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            for turn in session["turns"]:
                talk.messages.append(_message(given, turn, began, len(talk.messages)))
                numbers.update((key, len(talk.messages)) for key in _turn_ids(turn["dia_id"]))
        for asked in given["qa"]:
            keys = (key for written in asked["evidence"] for key in _turn_ids(written))
            evidence = frozenset(numbers[key] for key in keys if key in numbers)
            if evidence:
                talk.questions.append(Question(asked["question"], asked["category"], evidence))
            else:
                talk.without_evidence += 1
        yield talk


def _message(
    given: Mapping[str, Any], turn: Mapping[str, Any], began: datetime, number: int
) -> dict[str, Any]:
    """Make one speaker the user and the other the assistant; both are called by name, as in a group."""
    message: dict[str, Any] = {"role": "assistant", "content": f"{turn['speaker']}: {turn['text']}"}
    if turn["speaker"] == given["speaker_a"]:
        message |= {"role": "user", "name": turn["speaker"]}
    return message | {"message_id": f"msg_{number:06}", "created_at": began.timestamp()}


def _turn_ids(written: str) -> list[tuple[int, int]]:
    """Parse turn ids. Some lines of the file name several turns, or contain a colon too many."""
    return [(int(session), int(turn)) for session, turn in _TURN_ID.findall(written)]


def engine_for(talk: Talk, home: Path, session: str, semantic: str) -> ContextEngine:
    options = {**OPTIONS, "semantic": semantic}
    engine = LosslessContext(WINDOW, hermes_home=str(home), options=options, summarize=_summarise)
    engine.on_session_start(session, conversation_id=talk.name, person="reader")
    return engine


def replayed(talk: Talk, home: Path) -> ContextEngine:
    """Return an engine that has read the conversation message by message, as the host would show it."""
    engine = engine_for(talk, home, "session-0", "auto")
    context: list[dict[str, Any]] = [{"role": "system", "content": "You are a helpful assistant."}]
    for message in talk.messages:
        context.append(message)
        engine.should_compress_preflight(context)
        tokens = estimate_messages_tokens_rough(context)
        if engine.should_compress(tokens):
            context = engine.compress(context, tokens)
            engine.on_session_start(
                f"session-{engine.compression_count}",
                parent_session_id=f"session-{engine.compression_count - 1}",
                boundary_reason="compression",
                conversation_id=talk.name,
                person="reader",
            )
            engine.should_compress_preflight(context)
    return engine


def _summarise(prompt: str, max_tokens: int) -> str:
    """Return the first words of the conversation: any text does, if it is always the same."""
    said = re.findall(r"\b[A-Z][\w']+: [^\n]{10,60}", prompt)
    return "\n".join(["They talked:", *said[:4], "Expand for details about: what they said"])


def returned(engine: ContextEngine, talk: Talk, query: str, way: Way) -> tuple[set[int], int]:
    """Return the turns that came back with their whole text, and the tokens of the result."""
    found: set[int] = set()
    tokens, page = 0, 1
    while True:
        text = engine.handle_tool_call("lcm_grep", {"query": query, **way.args, "page": page})
        tokens += estimate_text_tokens(text)
        for number, line in _SHOWN.findall(text):
            if " ".join(talk.messages[int(number) - 1]["content"].split()) in line:
                found.add(int(number))
        if not way.all_pages or not _MORE.search(text.partition("\n")[0]):
            return found, tokens
        page += 1


@dataclass(slots=True)
class Tally:
    recall: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    complete: dict[str, list[bool]] = field(default_factory=dict)
    most_tokens: int = 0

    def add(self, way: Way, question: Question, found: set[int], tokens: int) -> None:
        share = len(question.evidence & found) / len(question.evidence)
        self.recall.setdefault((way.name, question.category), []).append(share)
        self.complete.setdefault(way.name, []).append(share == 1.0)
        if not way.args:
            self.most_tokens = max(self.most_tokens, tokens)

    def mean(self, way: Way, category: int | None = None) -> str:
        shares = [
            share
            for (name, kind), some in self.recall.items()
            if name == way.name and category in (None, kind)
            for share in some
        ]
        return f"{mean(shares):.3f}".lstrip("0") if shares else "-"


def came_back(engine: ContextEngine, talk: Talk) -> int:
    """Count the messages that `lcm_expand` returns byte for byte."""
    pages: list[str] = []
    while True:
        args = {"id": f"m1-m{len(talk.messages)}", "page": len(pages) + 1}
        pages.append(engine.handle_tool_call("lcm_expand", args))
        if "more with lcm_expand(" not in pages[-1].partition("\n")[0]:
            break
    got = originals(pages)
    return sum(
        got[f"m{number}"].content == message["content"] if f"m{number}" in got else False
        for number, message in enumerate(talk.messages, 1)
    )


WORDS, MEANING = "by words", "by words and meaning"


def measure(paths: list[Path], console: Console) -> None:
    kinds = [WORDS, MEANING] if is_installed() else [WORDS]
    overall = {kind: Tally() for kind in kinds}
    chats = Table("conversation", "turns", "questions", "compactions", "back byte for byte", *kinds)
    left_out = 0
    for path in paths:
        for talk in talks_in(path):
            with TemporaryDirectory(prefix="hermes-bench-") as home:
                engine, here = replayed(talk, Path(home)), {kind: Tally() for kind in kinds}
                last = f"session-{engine.compression_count}"
                asked = {WORDS: engine_for(talk, Path(home), last, "off"), MEANING: engine}
                for kind in kinds:
                    _ask_all(asked[kind], talk, (overall[kind], here[kind]))
                back = came_back(engine, talk)
                counts = (len(talk.messages), len(talk.questions), engine.compression_count)
                recalls = (here[kind].mean(WAYS[-1]) for kind in kinds)
                chats.add_row(talk.name, *map(str, counts), f"{back} of {counts[0]}", *recalls)
                for each in asked.values():
                    each.on_session_end(last, [])
                left_out += talk.without_evidence
    for kind in kinds:
        console.print(_by_category(overall[kind], kind))
    console.print(chats)
    console.print(f"{left_out} questions without evidence were left out.")
    for kind, tally in overall.items():
        whole = mean(tally.complete[WAYS[-1].name])
        console.print(
            f"All evidence found within {BUDGET:,} tokens, {kind}: {whole:.3f} of the questions. "
            f"Largest result: {tally.most_tokens:,} tokens."
        )
    if not is_installed():
        console.print(f"Not measured: the search by meaning. {INSTALL}")


def _ask_all(engine: ContextEngine, talk: Talk, tallies: Sequence[Tally]) -> None:
    for question in talk.questions:
        for way in WAYS:
            found, tokens = returned(engine, talk, question.text, way)
            for tally in tallies:
                tally.add(way, question, found, tokens)


IDEAS: dict[str, Weights] = {
    "all ideas, as shipped": Weights(),
    "words alone: OR, stems, BM25, no stop words, no names": Weights(window=(), speaker=0, days=0),
    "+ one message on each side": Weights(window=(0.6,), speaker=0, days=0),
    "+ five messages on each side": Weights(speaker=0, days=0),
    "+ the speaker whom the question names": Weights(days=0),
    "without the speaker": Weights(speaker=0),
    "speaker 0.8": Weights(speaker=0.8),
    "days 1.0": Weights(days=1.0),
    "steeper windows": Weights(window=(0.5, 0.3, 0.2)),
    "wider windows": Weights(window=(0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2)),
    "the same before and after": Weights(following=1.0),
    "no regard to length": Weights(length=0.0),
}
BY_MEANING: dict[str, Weights] = {
    "and meaning, as shipped": Weights(),
    "and meaning 0.3": Weights(meaning=0.3),
    "and meaning 0.7": Weights(meaning=0.7),
    "and meaning 1.0": Weights(meaning=1.0),
}


def compare(paths: list[Path], console: Console) -> None:
    """Compare all ideas on the same stores, and the best idea of the other conversations on each one."""
    names: list[str] = []
    model = SemanticSearch("auto").model()
    ideas: dict[str, tuple[Weights, EmbeddingModel | None]] = {
        idea: (weights, None) for idea, weights in IDEAS.items()
    }
    if model:
        ideas |= {idea: (weights, model) for idea, weights in BY_MEANING.items()}
    recall: dict[str, list[list[float]]] = {idea: [] for idea in ideas}
    for path in paths:
        for talk in talks_in(path):
            names.append(talk.name)
            with TemporaryDirectory(prefix="hermes-bench-") as home:
                replayed(talk, Path(home)).on_session_end("the last", [])
                with closing(connect(Path(home) / FILE_NAME)) as connection:
                    for idea, (weights, using) in ideas.items():
                        recall[idea].append(_recall(connection, talk, weights, using))
    table = Table("idea", f"within {BUDGET:,} tokens", *names, title="What each idea brings")
    for idea, shares in recall.items():
        table.add_row(idea, _mean(list(chain(*shares))), *map(_mean, shares))
    for kind, some in (("of words", IDEAS), ("of those with meaning", BY_MEANING)):
        tried = {idea: recall[idea] for idea in some if idea in recall}
        if len(names) > 1 and tried:
            unseen = [tried[_best(tried, but=number)][number] for number in range(len(names))]
            chosen = f"the best {kind}, chosen on the other conversations"
            table.add_row(chosen, _mean(list(chain(*unseen))), *map(_mean, unseen))
    console.print(table)


def _recall(
    connection: sqlite3.Connection, talk: Talk, weights: Weights, model: EmbeddingModel | None
) -> list[float]:
    (conversation,) = connection.execute(
        "SELECT key FROM conversations WHERE id = ?", (talk.name,)
    ).fetchone()
    summaries = frozenset(row[0] for row in connection.execute("SELECT key FROM summaries"))
    shares: list[float] = []
    for question in talk.questions:
        found = ranked_search(connection, SearchRequest([conversation], question.text), weights, model)
        inputs = PageInputs(
            connection,
            ContextMembers(conversation, frozenset(), summaries),
            found.words,
            BUDGET - HEADER_TOKENS,
        )
        shown = next(pages(inputs, found.hits)).shown if found.hits else set()
        numbers = {hit.seq for hit in found.hits if hit.key in shown}
        shares.append(len(question.evidence & numbers) / len(question.evidence))
    return shares


def _best(recall: Mapping[str, list[list[float]]], but: int) -> str:
    return max(recall, key=lambda idea: sum(sum(some) for n, some in enumerate(recall[idea]) if n != but))


def _mean(shares: list[float]) -> str:
    return f"{mean(shares):.3f}".lstrip("0")


def _by_category(tally: Tally, how: str) -> Table:
    kinds = sorted({kind for _, kind in tally.recall})
    names = [f"{CATEGORIES.get(kind, '?')} ({kind})" for kind in kinds]
    table = Table("evidence recall", "all", *names, title=f"Each question verbatim to lcm_grep, {how}")
    for way in WAYS:
        table.add_row(way.name, tally.mean(way), *(tally.mean(way, kind) for kind in kinds))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-recall ARGS=...")
    parser.add_argument("files", nargs="*", type=Path, default=[USUAL_FILE])
    parser.add_argument("--ideas", action="store_true", help="compare ranking ideas instead")
    asked = parser.parse_args()
    console = Console(width=150)
    (compare if asked.ideas else measure)(asked.files, console)


if __name__ == "__main__":
    main()
