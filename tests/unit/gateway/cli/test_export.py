"""`hermes export`: the whole store, or a part of it, as files."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from agent.messages import Message, ToolCall
from agent.store import Address, Split
from gateway.store.sqlite.store import SqliteStore
from gateway.types import OWNER
from tests.support import warm
from tests.support.warm import HERMES

KEY = "sk-ant-api03-" + "fA4e" * 12
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def export(*arguments: str) -> subprocess.CompletedProcess[str]:
    return warm.run([*HERMES, "export", *arguments])


async def _fill(database: Path) -> None:
    store = await SqliteStore.open(database)
    mine = await store.sessions.open_conversation(Address("web", "1"), person=OWNER)
    call = ToolCall("c1", "read_file", json.dumps({"path": EVIL}))
    await store.sessions.append(
        mine.live_session_id,
        [
            Message("user", f"{EVIL} my key is {KEY}", name=EVIL, created_at=1_700_000_000),
            Message("assistant", f"**bold** {EVIL}", tool_calls=(call,), created_at=1_700_000_001),
            Message("tool", EVIL, tool_call_id="c1", name="read_file", created_at=1_700_000_002),
        ],
    )
    await store.sessions.split(Split(mine.live_session_id, "reset"))
    left = await store.sessions.open_conversation(Address("telegram", "2"), person="telegram:4711")
    first = left.live_session_id
    await store.sessions.append(first, [Message("user", "Hello from Ada", created_at=1_750_000_000)])
    branch = await store.sessions.split(Split(first, "branch"))
    await store.sessions.append(branch.id, [Message("user", "on a branch", created_at=1_750_000_100)])
    await store.sessions.make_live(first, instead_of=branch.id)
    await store.sessions.append(first, [Message("assistant", "Hello Ada", created_at=1_750_000_200)])
    await store.close()


@pytest.fixture
def store(private_home: Path) -> Path:
    private_home.mkdir(mode=0o700)
    asyncio.run(_fill(private_home / "state.db"))
    return private_home


def test_everything_for_programs(store: Path, tmp_path: Path) -> None:
    """A line about each conversation, then its messages, those on branches, too; without the key; private."""
    file = tmp_path / "all.jsonl"
    done = export("-o", str(file))
    assert done.returncode == 0, done.stderr
    assert "Wrote 2 conversations" in done.stderr
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    heads = [line for line in lines if "conversation" in line]
    assert [head["conversation"]["person"] for head in heads] == ["owner", "telegram:4711"]
    assert [len(head["sessions"]) for head in heads] == [2, 2]
    texts = [line["content"] for line in lines if "content" in line]
    assert texts[-3:] == ["Hello from Ada", "on a branch", "Hello Ada"]
    assert KEY not in file.read_text() and len(texts) == 6
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob(".*")] == []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--person", "telegram:4711"], ["Hello from Ada", "on a branch", "Hello Ada"]),
        (["--platform", "telegram"], ["Hello from Ada", "on a branch", "Hello Ada"]),
        (["--since", "2025-06-01"], ["Hello from Ada", "on a branch", "Hello Ada"]),
        (["--conversation", "latest"], ["Hello from Ada", "on a branch", "Hello Ada"]),
        (["--person", "nobody"], []),
        (["--since", "2030-01-01 12:00"], []),
    ],
)
def test_a_part_of_it(store: Path, options: list[str], wanted: list[str]) -> None:
    """By person, platform, time and id; to standard output, with a word where nothing fits."""
    done = export(*options)
    assert done.returncode == 0
    lines = map(json.loads, done.stdout.splitlines())
    assert [line["content"] for line in lines if "content" in line] == wanted
    assert ("nothing was written" in done.stderr) == (not wanted)


def test_a_pipe(store: Path) -> None:
    """UTF-8 in every locale; a closed pipe or a full disk is not reported as a store failure."""
    command = [*HERMES, "export", "--format", "markdown"]
    latin = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert "since 20" in latin.stdout.decode() and latin.returncode == 0, latin.stderr
    reader, writer = os.pipe()
    os.close(reader)
    alone = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (alone.returncode, alone.stderr) == (1, b"")
    with Path("/dev/full").open("w") as disk:
        full = subprocess.run(command, stdout=disk, stderr=subprocess.PIPE)
    assert full.returncode == 1 and b"Cannot write to standard output: No space" in full.stderr


def test_one_page_with_everything_escaped(store: Path, tmp_path: Path) -> None:
    """Markup in names, titles, tool calls and answers is escaped; nothing is fetched."""
    file = tmp_path / "all.html"
    assert export("--format", "html", "-o", str(file)).returncode == 0
    page = file.read_text()
    assert "<script" not in page and "<img" not in page and "&lt;script&gt;" in page
    assert "<strong>bold</strong>" in page
    assert "default-src 'none'" in page and "prefers-color-scheme: dark" in page
    assert "http" not in page.replace("http-equiv", "")
    assert KEY not in page and "on a branch" not in page
    assert page.endswith("</html>\n") and page.count("<h2 ") == 2


def test_a_file_each(store: Path, tmp_path: Path) -> None:
    """In a directory, which is made where it is called one; pages get an index, and nothing is overwritten unless it is
    told to."""
    folder = tmp_path / "pages"
    assert export("--format", "html", "-o", f"{folder}/").returncode == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 3 and names[-1] == "index.html"
    index = (folder / "index.html").read_text()
    assert all(f'href="{name}"' in index for name in names[:-1])
    refused = export("--format", "html", "-o", str(folder))
    assert refused.returncode == 1 and "--force overwrites it" in refused.stderr
    assert export("--format", "html", "-o", str(folder), "--force").returncode == 0
    assert export("--format", "markdown", "-o", str(folder)).returncode == 0
    (mine, _) = sorted(folder.glob("*.md"))
    assert mine.read_text().startswith("# <script>")


def test_bad_input_and_nothing_yet(private_home: Path, tmp_path: Path) -> None:
    """Sentences; no file is made, and half a file never stays."""
    assert "There are no conversations yet" in export("-o", str(tmp_path / "x")).stderr
    assert not (tmp_path / "x").exists()
    assert export("--since", "yesterday").returncode == 2
    assert export("--format", "pdf").returncode == 2
    private_home.mkdir()
    asyncio.run(_fill(private_home / "state.db"))
    device = export("-o", "/dev/null", "--force")
    assert device.returncode == 1 and "/dev/null is not a file" in device.stderr
    missing = export("-o", str(tmp_path / "no" / "x"))
    assert missing.returncode == 1 and "No such file or directory" in missing.stderr
    assert "No conversation begins with 'zzz'" in export("--conversation", "zzz").stderr
