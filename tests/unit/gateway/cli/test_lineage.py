"""`hermes sessions lineage` and `hermes sessions restore`: the family tree of a conversation, and the way back."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent.messages import Message
from agent.store import Address, Compaction, Conversation, Session, SessionStore, Split
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER
from tests.fakes.openai.server import FakeOpenAI
from tests.support import warm
from tests.support.hermes_process import WebClient, environment, hermes
from tests.support.terminal import Terminal
from tests.support.warm import HERMES

T = TypeVar("T")

FIRST = Compaction("command", "compressor", 4, 2, 9_500, 4_500, "the plan", 3.25, 0.0123, "stand_in")
LONG = " ".join(f"detail {number}" for number in range(60))
LIMITS = {"compression": {"protect_last_n": 2, "memory_flush": False}}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run([*HERMES, "sessions", *arguments])


def printed(*arguments: str) -> str:
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Archive:
    """The database of the state directory, opened for as long as it takes."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self._path = home / "state.db"
        self.conversation: Conversation

    def do(self, work: Callable[[SessionStore], Awaitable[T]]) -> T:
        async def opened() -> T:
            store = await SqliteStore.open(self._path)
            try:
                return await work(store.sessions)
            finally:
                await store.close()

        return asyncio.run(opened())

    def live(self) -> Session:
        async def find(store: SessionStore) -> Session:
            now = await store.conversation(self.conversation.id)
            return await store.session(now.live_session_id)

        return self.do(find)

    def say(self, *texts: str) -> None:
        live = self.live().id
        self.do(lambda store: store.append(live, [Message("user", text) for text in texts]))

    def context(self) -> list[str]:
        live = self.live().id
        return [message.content for message in self.do(lambda store: store.history(live))]


async def _fill(store: SessionStore) -> Conversation:
    """A first session of four messages, compacted by command to a summary and the last two."""
    conversation = await store.open_conversation(Address("web", "room"), person=OWNER)
    said = [Message("user", text) for text in ("one", "two", "three", "four")]
    await store.pin(conversation.live_session_id, system_prompt="Be brief.", model="m/small")
    await store.append(conversation.live_session_id, said)
    summary = Message("user", "one and two", kind="summary")
    await store.split(
        Split(
            conversation.live_session_id,
            "command",
            [summary, said[2].id, said[3].id],
            "Be brief. Note.",
            engine="compressor",
            model="m/small",
            compaction=FIRST,
        )
    )
    return conversation


@pytest.fixture
def archive(private_home: Path) -> Archive:
    made = Archive(private_home)
    made.conversation = made.do(_fill)
    return made


def _sessions(archive: Archive) -> list[str]:
    return [each.id for each in archive.do(lambda store: store.sessions(archive.conversation.id))]


def test_a_session_on_a_line(archive: Archive) -> None:
    """In a pipe: whole ids, why, when, by whom, messages, what the compaction came to; the live one is marked."""
    title, about, first, child = printed("lineage", archive.conversation.id).splitlines()
    one, two = _sessions(archive)
    assert title == "one"
    assert about == f"{archive.conversation.id} · web room · 4 messages, 2 sessions"
    assert re.fullmatch(rf"├── {one} · first · [\d-]+ [\d:]+ · 4 said, 4 in context · m/small", first)
    assert re.fullmatch(
        rf"└── {two} · command · [\d-]+ [\d:]+ · live · 0 said, 3 in context"
        r" · cause: command · ~9,500 -> ~4,500 tokens · 3\.2 s · \$0\.0123 · stand_in · focus: the plan"
        r" · m/small with compressor",
        child,
    )


async def test_for_a_person(private_home: Path) -> None:
    """At a terminal: short ids that `restore` accepts, the figures on a line below."""
    archive = await asyncio.to_thread(Archive, private_home)
    archive.conversation = await asyncio.to_thread(archive.do, _fill)
    one, two = await asyncio.to_thread(_sessions, archive)
    async with Terminal.run(
        *HERMES, "sessions", "lineage", "latest", env=os.environ, columns=100
    ) as terminal:
        assert await terminal.ended() == 0
        await terminal.until("with compressor")
    lines = terminal.screen.lines
    shown, below = lines[4].split(), lines[5].split()
    assert (shown[0], below[:2]) == ("└──", ["0", "said,"])
    assert two.startswith(shown[1]) and not one.startswith(shown[1])
    assert len(shown[1]) < len(two)


def test_branches_are_shown_as_branches(archive: Archive) -> None:
    """An undone compaction hangs on its parent, beside the line that goes on."""
    printed("restore", "latest")
    archive.say("five")
    first, undone = _sessions(archive)

    async def go_on(store: SessionStore) -> None:
        child = await store.split(Split(first, "hygiene"))
        await store.split(Split(child.id, "reset"))

    archive.do(go_on)
    *_, hygiene, reset = _sessions(archive)
    lines = [" · ".join(line.split(" · ")[:2]) for line in printed("lineage", "latest").splitlines()[2:]]
    assert lines == [
        f"├── {first} · first",
        "│   └── left behind",
        f"│       └── {undone} · command",
        f"├── {hygiene} · hygiene",
        f"└── {reset} · reset",
    ]


def test_what_hangs_on_the_live_session_is_left_behind(archive: Archive) -> None:
    """The line ends with the live session, also when it has a child."""
    printed("restore", "latest")
    _, _, live, label, undone = printed("lineage", "latest").splitlines()
    assert " · live · " in live
    assert label.strip("│└─ ") == "left behind"
    assert " · command · " in undone


def test_as_json(archive: Archive) -> None:
    """Every session with its parent, so that a program can build the tree; the long prompts are left out."""
    shown = json.loads(printed("lineage", "latest", "--json"))
    first, child = shown["sessions"]
    assert shown["conversation"]["id"] == archive.conversation.id
    assert (first["parent_id"], first["reason"], first["live"], first["compaction"]) == (
        None,
        None,
        False,
        None,
    )
    assert (child["parent_id"], child["reason"], child["live"]) == (first["id"], "command", True)
    assert child["messages"] == {"said": 0, "in_context": 3}
    assert (child["compaction"]["tokens_before"], child["compaction"]["cost_usd"]) == (9_500, 0.0123)
    assert "system_prompt" not in child


def test_a_thousand_sessions_stay_readable(archive: Archive) -> None:
    """A straight line is flat, its middle is left out unless asked for, and a branch in the middle is kept."""

    async def deepen(store: SessionStore) -> str:
        live = (await store.conversation(archive.conversation.id)).live_session_id
        for number in range(998):
            if number == 500:
                side = await store.split(Split(live, "command"))
                await store.make_live(live, instead_of=side.id)
            live = (await store.split(Split(live, "compression"))).id
        lineage = await store.lineage(live)
        assert len(lineage) == 1_000
        return lineage[501].id

    parent_of_branch = archive.do(deepen)
    brief = printed("lineage", "latest").splitlines()[2:]
    assert [line for line in brief if "more sessions" in line] == [
        "├── … 498 more sessions in line; --all shows them",
        "├── … 488 more sessions in line; --all shows them",
    ]
    assert len(brief) == 3 + 1 + 3 + 1 + 10
    assert any(parent_of_branch in line for line in brief)
    assert " · live · " in brief[-1]
    everything = printed("lineage", "latest", "--all").splitlines()[2:]
    assert len(everything) == 1_000 + 2
    assert sum(line.startswith(("├── ses_", "└── ses_")) for line in everything) == 1_000
    assert len(json.loads(printed("lineage", "latest", "--json"))["sessions"]) == 1_001


def test_branches_of_branches_nest_only_as_deep_as_they_must(archive: Archive) -> None:
    """Going back again and again from the end leaves a comb of branches: its teeth are short, its back is flat."""

    async def comb(store: SessionStore) -> None:
        live = (await store.conversation(archive.conversation.id)).live_session_id
        line = [live]
        for _ in range(60):
            live = (await store.split(Split(live, "compression"))).id
            line.append(live)
        for back in reversed(line[:-1]):
            await store.make_live(back, instead_of=live)
            live = (await store.split(Split(back, "command"))).id

    archive.do(comb)
    lines = printed("lineage", "latest", "--all").splitlines()[2:]
    assert sum(" · compression · " in line for line in lines) == 60
    assert max(re.search(r"ses_|left behind", line).start() for line in lines) <= 5 * 4  # type: ignore[union-attr]


def test_the_last_compaction_is_undone(archive: Archive) -> None:
    """Nothing was said since: the parent is live again."""
    first, _ = _sessions(archive)
    answer = printed("restore", archive.conversation.id[:-2])
    assert re.fullmatch(rf"Restored: 3 -> 4 messages, ~\d+ -> ~\d+ tokens; {first} is live\.\n", answer)
    assert archive.live().id == first
    again = run("restore", "latest")
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr.startswith("There is nothing to undo")


def test_what_was_said_since_is_kept(archive: Archive) -> None:
    """A branch holds both, and the branch is live."""
    archive.say("five", "six")
    _, child = _sessions(archive)
    printed("restore", "latest")
    branch = archive.live()
    assert (branch.parent_id, branch.reason) == (child, "branch")
    assert archive.context() == ["one", "two", "three", "four", "five", "six"]
    hits = json.loads(printed("search", "three", "--json"))
    assert [hit["message"]["content"] for hit in hits] == ["three"]


def test_an_ancestor_by_its_id(archive: Archive) -> None:
    """As much of the id as it takes, with or without its kind; here it lies behind a reset."""
    first, child = _sessions(archive)
    archive.do(lambda store: store.split(Split(child, "reset")))
    archive.say("seven")
    assert run("restore", "latest").stderr.startswith("There is nothing to undo")
    printed("restore", "latest", first.partition("_")[2])
    assert archive.context() == ["one", "two", "three", "four", "seven"]


def test_wishes_that_cannot_be_met(archive: Archive) -> None:
    """Unknown, ambiguous, not an ancestor: a sentence that says where to look, and nothing moves."""
    live = archive.live()
    unknown = run("restore", "latest", "ses_no")
    assert unknown.returncode == 1
    assert f"`hermes sessions lineage {archive.conversation.id}` shows them" in unknown.stderr
    ambiguous = run("restore", "latest", "ses_")
    assert ambiguous.returncode == 2
    assert "2 sessions begin with 'ses_'" in ambiguous.stderr
    itself = run("restore", "latest", live.id)
    assert itself.returncode == 1
    assert "is not an ancestor of the live session" in itself.stderr
    assert archive.live() == live


def test_nothing_yet(private_home: Path) -> None:
    """Before the first word both say how to begin, and create nothing."""
    for command in ("lineage", "restore"):
        refused = run(command, "latest")
        assert refused.returncode == 1
        assert "hermes chat" in refused.stderr
    assert not private_home.exists()


def _beside(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*HERMES, "--config", str(home / "hermes.yaml"), "sessions", *arguments]
    return warm.run(command, env=environment(home))


async def test_while_hermes_runs(tmp_path: Path) -> None:
    """In the chat /compress and /undo-compress; beside it the tree can be read, and `restore` points to the chat."""
    home = tmp_path / "home"
    async with FakeOpenAI() as server:
        model = {"name": "openai/test-model", "base_url": server.base_url, "api_key": server.api_key}
        config: dict[str, Any] = {"model": {**model, "context_length": 12_000}, **LIMITS}
        async with hermes(home, config) as process, WebClient.open(process.url, "kitchen") as ada:
            for number in range(6):
                server.reply(text=f"Answer {number}: {LONG}")
                await ada.say(f"Question {number}: {LONG}")
            before = server.requests[-1].body["messages"]
            server.reply(text="## Goal\nTo test.")
            compressed = _notice(await ada.say("/compress"))
            assert compressed.startswith("Compressed: 12 -> "), compressed
            server.reply(text="Fine.")
            await ada.say("Go on.")
            assert "To test." in str(server.requests[-1].body["messages"])

            refused = await asyncio.to_thread(_beside, home, "restore", "latest")
            assert refused.returncode == 1
            assert "Type /undo-compress in the chat" in refused.stderr

            assert re.match(r"Undone: \d+ -> 14 messages, ", _notice(await ada.say("/undo-compress")))
            server.reply(text="All of it.")
            await ada.say("What do you see?")
            assert server.requests[-1].body["messages"][: len(before)] == before
            assert server.refusals == []

            tree = await asyncio.to_thread(_beside, home, "lineage", ada.conversation_id)
            reasons = [line.split(" · ")[1] for line in tree.stdout.splitlines()[2:]]
            assert reasons == ["first", "command", "branch"]
            assert " · live · " in tree.stdout.splitlines()[-1]


def _notice(events: list[dict[str, Any]]) -> str:
    return next(str(event["text"]) for event in events if event["type"] == "Notice")
