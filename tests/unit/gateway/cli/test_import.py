"""`hermes import`: what others have kept, taken in once and as it was."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from agent.messages import Message
from agent.store import Conversation, Overview
from gateway.config.loader import load
from gateway.process_lock import hold_lock
from gateway.store.sqlite.store import SqliteStore
from tests.support import warm
from tests.support.backup_harness import with_texts
from tests.support.foreign_files import BEGAN, AgentFile, agent_file, discord_file, telegram_file
from tests.support.warm import HERMES

T = TypeVar("T")


def hermes(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run([*HERMES, *arguments])


def run_import(file: Path, *options: str) -> str:
    done = hermes("import", str(file), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(question: Callable[[SqliteStore], Awaitable[T]]) -> T:
    """The store of this test, without a process of its own for each question."""

    database = load().database

    async def ask() -> T:
        store = await SqliteStore.open(database, read_only=True)
        try:
            return await question(store)
        finally:
            await store.close()

    return asyncio.run(ask())


def imported() -> list[Overview]:
    return asked(lambda store: store.sessions.conversations(platform="import"))


def the_only_one() -> Conversation:
    (overview,) = imported()
    return overview.conversation


def transcript(conversation: Conversation) -> list[Message]:
    return asked(lambda store: store.sessions.transcript(conversation.id))


def said(conversation: Conversation) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in transcript(conversation)]


def found(words: str) -> list[str]:
    return [hit.message.content for hit in asked(lambda store: store.sessions.search(words))]


def test_a_tree_of_sessions_of_hermes_agent(tmp_path: Path) -> None:
    """One conversation with its lineage; each message once, with its time, found by search."""
    file = agent_file(tmp_path / "agent.db")
    assert run_import(file.path).startswith(
        "Imported 1 new conversation and 7 new messages from hermes-agent."
    )
    (overview,) = imported()
    conversation = overview.conversation
    assert (conversation.address.chat_id, conversation.person) == ("hermes-agent:root", "owner")
    assert (overview.messages, overview.sessions) == (7, 3)
    root, child, aside = asked(lambda store: store.sessions.sessions(conversation.id))
    assert [session.reason for session in (root, child, aside)] == [None, "compression", "branch"]
    assert [session.parent_id for session in (root, child, aside)] == [None, root.id, root.id]
    assert conversation.live_session_id == child.id
    context = asked(lambda store: store.sessions.history(child.id))
    assert [message.kind for message in context] == ["summary", "said", "said"]
    assert said(conversation) == [
        ("user", "Where do walruses live?"),
        ("assistant", ""),
        ("tool", "In the Arctic."),
        ("assistant", "In the Arctic."),
        ("user", "And penguins?"),
        ("assistant", "In the Antarctic."),
    ]
    first, call, result, *_ = transcript(conversation)
    assert first.created_at == BEGAN + 1, "the system prompt came before it"
    assert call.tool_calls[0].name == result.name == "look_up"
    assert found("antarctic") == ["In the Antarctic."]
    assert found("zoos") == ["Mostly in zoos."], "what was left is there, too"
    assert found("compaction") == [], "nobody said the summary"


def test_twice_is_once_and_what_is_new_is_added(tmp_path: Path) -> None:
    """An import can be repeated after an interruption, and later."""
    file = agent_file(tmp_path / "agent.db")
    run_import(file.path)
    again = run_import(file.path)
    assert "Imported 0 new conversations and 0 new messages" in again
    assert "Already imported: 7 messages." in again
    file.say("child", ("user", "Thank you."))
    assert "0 new conversations and 1 new message" in run_import(file.path)
    assert said(the_only_one())[-1] == ("user", "Thank you.")


def test_what_was_compacted_in_place_is_there_once(tmp_path: Path) -> None:
    """Newer versions keep the originals in the session, marked, and write copies of what stays around a summary."""
    file = AgentFile(tmp_path / "agent.db")
    file.session("only")
    file.say("only", ("user", "first"), ("assistant", "second"), ("user", "yes"), ("assistant", "third"))
    file.mark(["first", "second", "yes", "third"])
    summary = ("user", "[CONTEXT COMPACTION — REFERENCE ONLY] One and two.")
    file.say("only", ("user", "first"), summary, ("assistant", "third"))
    file.say("only", ("user", "yes"), ("assistant", "fourth"))
    file.say("only", ("user", "taken back"), active=0)
    assert "Left out: 1 " in run_import(file.path)
    texts = [text for _, text in said(the_only_one())]
    assert texts == ["first", "second", "yes", "third", "yes", "fourth"], "yes was said twice, third once"


def test_what_is_said_again_after_a_compression_is_heard_again(tmp_path: Path) -> None:
    """Also if it is word for word what was said before; and a result that was shortened in the copy is none."""
    file = AgentFile(tmp_path / "agent.db")
    file.session("a", ended="compression")
    calls = json.dumps([{"id": "c1", "function": {"name": "look_up", "arguments": {"word": "tea"}}}])
    file.say("a", ("user", "go on"), ("assistant", "one"))
    file.say("a", ("assistant", "Looking."), tool_calls=calls)
    file.say("a", ("tool", "a long result"), tool_call_id="c1")
    file.session("b", parent="a")
    file.say("b", ("user", "[CONTEXT SUMMARY]: one"))
    file.say("b", ("assistant", ""), tool_calls=calls)
    file.say("b", ("tool", "(cleared)"), tool_call_id="c1")
    file.say("b", ("user", "go on"), ("assistant", "two"))
    run_import(file.path)
    texts = [text for _, text in said(the_only_one())]
    assert texts == ["go on", "one", "Looking.", "a long result", "go on", "two"]


def test_after_a_reset_nothing_is_a_copy(tmp_path: Path) -> None:
    """The same words in a new session are two messages."""
    file = AgentFile(tmp_path / "agent.db")
    file.session("a", ended="session_reset")
    file.say("a", ("user", "hi"), ("assistant", "Hello!"))
    file.session("b", parent="a")
    file.say("b", ("user", "hi"), ("assistant", "Hello!"), ("user", "again"))
    run_import(file.path)
    conversation = the_only_one()
    assert [text for _, text in said(conversation)] == ["hi", "Hello!", "hi", "Hello!", "again"]
    assert len(asked(lambda store: store.sessions.history(conversation.live_session_id))) == 3


def test_content_with_pictures_and_sessions_in_a_circle(tmp_path: Path) -> None:
    """Of what is more than text, the text; and no file makes it run for ever."""
    file = AgentFile(tmp_path / "agent.db")
    file.session("a")
    file.session("b", parent="a")
    file._run("UPDATE sessions SET parent_session_id = 'b' WHERE id = 'a'", ())
    parts = json.dumps([{"type": "text", "text": "Look at this"}, {"type": "image_url", "image_url": {}}])
    file.say("a", ("user", f"\x00json:{parts}"))
    file.say("b", ("user", "[CONTEXT"), ("assistant", "broken calls"), tool_calls="[{")
    run_import(file.path)
    texts = {text for each in imported() for _, text in said(each.conversation)}
    assert texts == {"Look at this\n[image_url]", "[CONTEXT", "broken calls"}


def test_a_chat_of_telegram(tmp_path: Path) -> None:
    """The bot's words become the agent's; links and bold become text; service notes are left out."""
    rich = ["Look: ", {"type": "link", "text": "https://example.org"}, " please"]
    file = telegram_file(tmp_path / "result.json", "Hello", "How can I help?", rich)
    assert "Left out: 1 " in run_import(file)
    conversation = the_only_one()
    assert conversation.address.chat_id == "telegram:99"
    assert said(conversation) == [
        ("user", "Hello"),
        ("assistant", "How can I help?"),
        ("user", "Look: https://example.org please"),
    ]
    assert [message.created_at for message in transcript(conversation)] == [1.7e9, 1.7e9 + 1, 1.7e9 + 2]
    telegram_file(file, "Hello", "How can I help?", rich, "With pleasure.")
    assert "0 new conversations and 1 new message" in run_import(tmp_path), "its folder will do, too"


def test_in_a_group_everybody_has_a_name(tmp_path: Path) -> None:
    """Unless the owner says who of them was the agent."""
    group = {"type": "private_group", "id": 5}
    run_import(telegram_file(tmp_path / "a.json", "Hi", "Hi Ada", chat=group), "--person", "telegram:4711")
    conversation = the_only_one()
    assert conversation.person == "telegram:4711"
    assert [message.name for message in transcript(conversation)] == ["Ada", "Helper"]
    run_import(
        telegram_file(tmp_path / "b.json", "Hi", "Hi Ada", chat={**group, "id": 6}), "--assistant", "Helper"
    )
    other = next(each.conversation for each in imported() if each.conversation != conversation)
    assert said(other) == [("user", "Hi"), ("assistant", "Hi Ada")]


def test_a_channel_of_discord(tmp_path: Path) -> None:
    """Files are named; in a direct chat the bot is the agent, in a server it is unknown."""
    run_import(discord_file(tmp_path / "dm.json", "Hello", "Hi"))
    assert said(the_only_one()) == [("user", "[file: notes.txt]\nHello"), ("assistant", "Hi")]
    assert transcript(the_only_one())[0].created_at == 1_700_000_000.5
    newest_first = json.loads(
        discord_file(tmp_path / "more.json", "Hello", "Hi", "Bye", "See you").read_text()
    )
    newest_first["messages"].reverse()
    (tmp_path / "more.json").write_text(json.dumps(newest_first))
    run_import(tmp_path / "more.json")
    assert [text for _, text in said(the_only_one())][1:] == ["Hi", "Bye", "See you"]
    run_import(
        discord_file(tmp_path / "dm.json", "Hello", "Hi", kind="GuildTextChat").rename(tmp_path / "x.json")
    )
    assert len(imported()) == 1, "it is the same channel"


def test_a_dry_run_changes_nothing(tmp_path: Path, private_home: Path) -> None:
    """It counts, also before there is a store and while Hermes runs."""
    file = agent_file(tmp_path / "agent.db").path
    assert run_import(file, "--dry-run").startswith("Would import 1 new conversation and 7 new messages")
    assert not (private_home / "state.db").exists()
    state = with_texts(private_home, "first")
    with hold_lock(state.home, state.database):
        assert "1 new conversation and 7 new messages" in run_import(file, "--dry-run")
        refused = hermes("import", str(file))
    assert refused.returncode == 1
    assert "Hermes is running; stop it first, then import." in refused.stderr
    assert imported() == []


def test_the_latest_conversation_is_one_that_took_place_here(tmp_path: Path, private_home: Path) -> None:
    """An import of what was said years ago is not what `latest` means."""
    with_texts(private_home, "said here")
    run_import(agent_file(tmp_path / "agent.db").path)
    assert "said here" in hermes("sessions", "show", "latest").stdout


def test_older_messages_cannot_be_put_in_between(tmp_path: Path) -> None:
    """That chat is refused with the reason, and the rest of the file is taken in."""
    late = json.loads(telegram_file(tmp_path / "x.json", "one", "two", "three").read_text())
    early = {**late, "messages": late["messages"][1:]}
    (tmp_path / "late.json").write_text(json.dumps(early))
    run_import(tmp_path / "late.json")
    left = {"left_chats": {"list": [{**late, "id": 1234}]}}
    (tmp_path / "full.json").write_text(json.dumps({"chats": {"list": [late]}, **left}))
    refused = hermes("import", str(tmp_path / "full.json"))
    assert refused.returncode == 1
    assert "Not imported: telegram:99: it contains messages that are older than" in refused.stderr
    assert sorted(each.messages for each in imported()) == [2, 3]
    (tmp_path / "first.json").write_text(json.dumps({**late, "messages": late["messages"][:1]}))
    refused = hermes("import", str(tmp_path / "first.json"))
    assert refused.returncode == 1, "nor what was said before all that is there"
    assert "it contains messages that are older than" in refused.stderr


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "the file is empty."),
        (b"[1,2", "it is JSON that breaks off or has a mistake (line 1); export the chat once more."),
        (b"\x00\xff\x00", "it is neither JSON nor a database."),
        (b"[" * 200_000, "it is neither JSON nor a database."),
        (b"[1, 2]", "not an export of Telegram Desktop or DiscordChatExporter."),
        (b'{"hello": 1}', "not an export of Telegram Desktop or DiscordChatExporter."),
        (b'{"id": 1, "type": "x", "messages": [{"type": "message", "text": "x", "id": 1}]}', "has no time"),
        (
            b'{"id": 1, "type": "x", "messages": [{"type": "message", "text": "x", "id": 1, "date_unixtime": NaN}]}',
            "has no time",
        ),
        (
            b'{"id": 1, "type": "x", "messages": [{"type": "message", "text": "x", "id": 1, "date_unixtime": 1%s}]}'
            % (b"0" * 400),
            "has no time",
        ),
        (b"SQLite format 3\0 and then something else", "it is not a database of hermes-agent"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, private_home: Path, content: bytes, sentence: str) -> None:
    """A sentence, exit code 1, and nothing is stored."""
    (tmp_path / "file").write_bytes(content)
    refused = hermes("import", str(tmp_path / "file"))
    assert refused.returncode == 1
    assert refused.stderr.startswith("hermes: This cannot be imported:")
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not private_home.exists()


def test_our_own_database_and_a_file_that_is_not_there(tmp_path: Path, private_home: Path) -> None:
    """What to do instead."""
    state = with_texts(private_home / "other", "first")
    assert "`hermes restore` puts it in place" in hermes("import", str(state.database)).stderr
    assert "No such file or directory" in hermes("import", str(tmp_path / "missing")).stderr


def test_one_conversation_that_makes_no_sense(tmp_path: Path) -> None:
    """It is named, without what steers a terminal; the others are taken in."""
    file = AgentFile(tmp_path / "agent.db")
    for name in ("a", "b\x1b[31m", "c"):
        file.session(name)
        file.say(name, ("user", f"hello from {name}"))
    file._run("UPDATE messages SET timestamp = 'never' WHERE session_id LIKE 'b%'", ())
    file._run("UPDATE sessions SET started_at = -1 WHERE id LIKE 'b%'", ())
    for options in (["--dry-run"], []):
        refused = hermes("import", str(file.path), *options)
        assert refused.returncode == 1
        assert "2 new conversations and 2 new messages" in refused.stdout
        assert "Not imported: hermes-agent:b\\x1b[31m: a message in it has no time" in refused.stderr


def test_a_database_that_is_damaged_half_way(tmp_path: Path) -> None:
    """What came before is whole, and it says that the import can be repeated."""
    file = AgentFile(tmp_path / "agent.db")
    for name, length in (("a", 1), ("b", 100_000)):
        file.session(name)
        file.say(name, ("user", f"hello from {name}" * length))
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-200_000] + b"\xff" * 200_000)
    refused = hermes("import", str(file.path))
    assert refused.returncode == 1
    assert "or it is damaged" in refused.stderr
    assert "Complete so far: 1 conversation (1 message); import the file again to continue." in refused.stderr
    assert said(the_only_one()) == [("user", "hello from a")]
