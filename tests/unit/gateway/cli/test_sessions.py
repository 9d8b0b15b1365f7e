"""`hermes sessions`: conversations as lists, transcripts, search results and files."""

from __future__ import annotations

import asyncio
import io
import json
import os
import stat
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from agent.messages import Message, ToolCall
from agent.store import Address, Conversation, SearchHit, Split
from gateway.cli.sessions_format import print_hits
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER
from tests.support import warm
from tests.support.terminal import Terminal
from tests.support.warm import HERMES

CALL = ToolCall("call_1", "read_file", '{"path": "notes.txt"}')
TALK = [
    Message("user", "What is in my notes about Paris?", created_at=1_700_000_000),
    Message("assistant", "", tool_calls=(CALL,), created_at=1_700_000_001),
    Message("tool", "The Louvre\nis closed on Tuesdays", tool_call_id="call_1", name="read_file"),
    Message("assistant", "**The Louvre** is closed\non Tuesdays.", created_at=1_700_000_003),
]
AFTER_RESET = [
    Message("user", "巴黎的天气怎么样？", created_at=1_700_100_000),
    Message("assistant", "晴天 \x1b[31m", created_at=1_700_100_001),
]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run([*HERMES, "sessions", *arguments])


@pytest.fixture
def paris(private_home: Path) -> Conversation:
    """A conversation of two sessions in the terminal, and an older one on the web."""
    private_home.mkdir(mode=0o700)
    return asyncio.run(_fill(private_home / "state.db"))


async def _fill(database: Path) -> Conversation:
    store = await SqliteStore.open(database)
    web = await store.sessions.open_conversation(Address("web", "chat_1"), person=OWNER)
    await store.sessions.append(
        web.live_session_id, [Message("user", "Hello from the browser", created_at=1_600_000_000)]
    )
    paris = await store.sessions.open_conversation(Address("terminal", "main"), person=OWNER)
    await store.sessions.append(paris.live_session_id, TALK)
    child = await store.sessions.split(Split(paris.live_session_id, "reset"))
    await store.sessions.append(child.id, AFTER_RESET)
    await store.close()
    return paris


def test_list(paris: Conversation) -> None:
    """The latest first, a line each, tabs between values: made for `cut` and `awk`."""
    first, second = (line.split("\t") for line in run("list").stdout.splitlines())
    assert first[:4] == [paris.id, "terminal", "6", "2"]
    assert first[5] == "What is in my notes about Paris?"
    assert second[1:4] == ["web", "1", "1"]


async def test_list_for_a_person(paris: Conversation) -> None:
    """At a terminal: headings, ids as short as they may be, and titles cut to the window."""
    async with Terminal.run(*HERMES, "sessions", "list", env=os.environ, columns=80) as terminal:
        assert await terminal.ended() == 0
        await terminal.until("web")
    heading, first, _ = terminal.screen.lines
    assert heading.split() == ["ID", "PLATFORM", "MESSAGES", "SESSIONS", "LAST", "ACTIVITY", "TITLE"]
    assert paris.id.startswith(first.split()[0])
    assert first.endswith("What is in my …")


def test_list_can_be_narrowed(paris: Conversation) -> None:
    """By platform and by number."""
    (only,) = run("list", "--platform", "web").stdout.splitlines()
    assert only.endswith("\tHello from the browser")
    assert run("list", "--limit", "1").stdout.count("\n") == 1
    assert run("list", "--limit", "0").returncode == 2


def test_list_as_json(paris: Conversation) -> None:
    """Everything the store knows of each conversation."""
    first = json.loads(run("list", "--json").stdout)[0]
    assert first["id"] == paris.id
    assert first["address"] == {"platform": "terminal", "chat_id": "main", "thread_id": "", "user_id": ""}
    assert (first["messages"], first["sessions"]) == (6, 2)


@pytest.mark.parametrize(
    "command", [["list"], ["list", "--json"], ["show"], ["lineage"], ["export", "--format", "html"]]
)
def test_a_title_does_not_show_the_beginning_of_a_secret(private_home: Path, command: list[str]) -> None:
    """A secret of the configuration is redacted before the title is truncated in the middle of it."""
    private_home.mkdir(mode=0o700)
    (private_home / ".env").write_text("DOOR_PASSWORD=correct-horse-battery-staple\n", encoding="utf-8")
    conversation = asyncio.run(_say(private_home / "state.db", "x" * 60 + " correct-horse-battery-staple"))
    name, *options = command
    printed = run(name, *([] if name == "list" else [conversation.id]), *options).stdout
    assert "[redacted]" in printed and "correct-horse" not in printed


async def _say(database: Path, text: str) -> Conversation:
    store = await SqliteStore.open(database)
    conversation = await store.sessions.open_conversation(Address("terminal", "main"), person=OWNER)
    await store.sessions.append(conversation.live_session_id, [Message("user", text)])
    await store.close()
    return conversation


def test_show_reads_like_a_conversation(paris: Conversation) -> None:
    """Tool calls are folded to a line, the reset is marked, and control characters are harmless."""
    shown = run("show", paris.id).stdout
    lines = shown.splitlines()
    assert lines[0] == "What is in my notes about Paris?"
    assert "6 messages, 2 sessions" in lines[1]
    assert "read_file notes.txt → The Louvre is closed on Tuesdays" in lines
    assert "**The Louvre** is closed" in lines, "in a pipe, the text is as it was written"
    assert "A new session began here (reset)." in lines
    assert "晴天 \\x1b[31m" in lines
    assert shown.count("closed on Tuesdays") == 1


@pytest.mark.parametrize("how", ["beginning", "without its kind", "latest"])
def test_ways_to_name_a_conversation(paris: Conversation, how: str) -> None:
    """A unique beginning of the id is enough."""
    wanted = {
        "beginning": paris.id[:-2],
        "without its kind": paris.id.partition("_")[2][:-2],
        "latest": "latest",
    }[how]
    assert json.loads(run("show", "--json", wanted).stdout)["conversation"]["id"] == paris.id


def test_an_ambiguous_beginning_is_refused(paris: Conversation) -> None:
    """Rather than guessing, it asks for more."""
    refused = run("show", paris.id.partition("_")[0])
    assert refused.returncode == 2
    assert "2 conversations begin with" in refused.stderr


def test_an_unknown_id(paris: Conversation) -> None:
    """Says where ids can be found."""
    refused = run("show", "conv_nothing")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("hermes: There is nothing under that id.")
    assert "`hermes sessions list` shows them" in refused.stderr


def test_show_as_json(paris: Conversation) -> None:
    """The conversation, its sessions and every message."""
    shown = json.loads(run("show", paris.id, "--json").stdout)
    assert [session["reason"] for session in shown["sessions"]] == [None, "reset"]
    assert [message["id"] for message in shown["messages"]] == [message.id for message in TALK + AFTER_RESET]


def test_search(paris: Conversation) -> None:
    """English word forms and two characters of Chinese; one line for each hit."""
    hits = run("search", "closing", "Louvre").stdout.splitlines()
    assert len(hits) == 2
    assert all(f"  {paris.id}  " in hit for hit in hits)
    assert {hit.partition(f"{paris.id}  ")[2] for hit in hits} == {
        "Hermes  **The Louvre** is closed on Tuesdays.",
        "Tool  The Louvre is closed on Tuesdays",
    }
    assert "巴黎的天气" in run("search", "天气").stdout


def test_search_highlights_for_a_person() -> None:
    """A terminal highlights the matches."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system="standard")
    with console.capture() as captured:
        print_hits([SearchHit(TALK[0], "conv_1", "notes about \x02Paris\x03?")], console)
    assert "notes about \x1b[1;33mParis\x1b[0m?" in captured.get()


def test_search_within_one_conversation(paris: Conversation) -> None:
    """`--conversation` leaves the others out; no match is not an error."""
    assert "browser" in run("search", "browser", "--limit", "1").stdout
    nothing = run("search", "browser", "--conversation", paris.id)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "No message contains these words." in nothing.stderr


def test_search_as_json(paris: Conversation) -> None:
    """A hit carries its whole message."""
    (hit,) = json.loads(run("search", "Paris", "--json").stdout)
    assert hit["conversation_id"] == paris.id
    assert hit["message"]["content"] == TALK[0].content
    assert "\x02" not in hit["snippet"]


def test_export_as_jsonl_is_lossless(paris: Conversation, tmp_path: Path) -> None:
    """Each line is a message with all its fields, and only the user can read the file."""
    file = tmp_path / "paris.jsonl"
    assert run("export", paris.id, "-o", str(file)).returncode == 0
    exported = [json.loads(line) for line in file.read_text().splitlines()]
    for line, message in zip(exported, TALK + AFTER_RESET, strict=True):
        assert line == json.loads(json.dumps({**asdict(message), "session_id": line["session_id"]}))
    assert len({line["session_id"] for line in exported}) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_export_does_not_overwrite(paris: Conversation, tmp_path: Path) -> None:
    """Unless it is told to; then the file becomes private too."""
    file = tmp_path / "kept.jsonl"
    file.write_text("something else")
    refused = run("export", paris.id, "-o", str(file))
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert file.read_text() == "something else"
    assert run("export", paris.id, "-o", str(file), "--force").returncode == 0
    assert file.read_text().count("\n") == 6
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_export_where_nothing_can_be_written(paris: Conversation, tmp_path: Path) -> None:
    """A sentence with the reason, no traceback."""
    refused = run("export", paris.id, "-o", str(tmp_path / "missing" / "file"))
    assert refused.returncode == 1
    assert "No such file or directory" in refused.stderr


def test_export_as_markdown(paris: Conversation) -> None:
    """For reading: who, when, what, and tool calls as a list."""
    text = run("export", "latest", "--format", "markdown").stdout
    assert text.startswith("# What is in my notes about Paris?\n")
    assert "**You** · 2023-11-" in text
    assert "- `read_file notes.txt → The Louvre is closed on Tuesdays`" in text
    assert "**The Louvre** is closed\non Tuesdays." in text


def test_nothing_yet(private_home: Path) -> None:
    """Before the first word: a sentence for a person, an empty list for a program, and nothing is created."""
    first = run("list")
    assert (first.returncode, first.stdout) == (0, "")
    assert "hermes chat" in first.stderr
    assert json.loads(run("list", "--json").stdout) == []
    assert run("search", "anything").returncode == 0
    refused = run("show", "latest")
    assert refused.returncode == 1
    assert "hermes chat" in refused.stderr
    assert not private_home.exists()
