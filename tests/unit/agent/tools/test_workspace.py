"""The workspace: nothing outside is read or written, for any path and any concurrent change."""

from __future__ import annotations

import itertools
import os
import socket
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.errors import ToolError
from agent.tool_support.workspace import MAX_FILE_BYTES, Workspace


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def root(workspace: Path) -> Path:
    Workspace(workspace).prepare()
    return workspace


REFUSED = [
    ("", "empty"),
    ("   ", "empty"),
    ("/etc/passwd", "outside the workspace"),
    ("~/notes.txt", "outside the workspace"),
    ("../outside/secret.txt", "holds `..`"),
    ("a/../../outside/secret.txt", "holds `..`"),
    ("a\0b", "control character"),
    ("a\nb", "control character"),
    ("a\udcffb", "control character"),
    (".", "is a folder"),
    ("./", "is a folder"),
    ("x" * 300, "too long a name"),
]


@pytest.mark.parametrize(("path", "reason"), REFUSED)
def test_paths_that_are_no_paths(root: Path, outside: Path, path: str, reason: str) -> None:
    """Reading and writing refuse them alike, with a sentence, and nothing appears anywhere."""
    with pytest.raises(ToolError, match=reason):
        Workspace(root).read(path)
    for append in (False, True):
        with pytest.raises(ToolError, match=reason):
            Workspace(root).write(path, b"x", append=append)
    assert list(root.iterdir()) == []
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_link_is_not_followed(root: Path, outside: Path) -> None:
    """Neither at the end of a path nor in its middle, neither to the outside nor inside nor to nowhere."""
    (root / "inside.txt").write_text("x")
    (root / "link").symlink_to(outside / "secret.txt")
    (root / "folder").symlink_to(outside)
    (root / "deep").mkdir()
    (root / "deep" / "link").symlink_to("../inside.txt")
    (root / "nowhere").symlink_to(outside / "new.txt")
    for path in ("link", "folder/secret.txt", "deep/link", "nowhere"):
        with pytest.raises(ToolError, match="symbolic link"):
            Workspace(root).read(path)
        with pytest.raises(ToolError, match="symbolic link"):
            Workspace(root).write(path, b"overwritten")
    with pytest.raises(ToolError, match="symbolic link"):
        Workspace(root).open_folder("folder")
    assert [file.name for file in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_linked_workspace_is_not_entered(outside: Path, tmp_path: Path) -> None:
    """The workspace itself was replaced by a link."""
    link = tmp_path / "link"
    link.symlink_to(outside)
    with pytest.raises(ToolError):
        Workspace(link).read("secret.txt")


def test_a_link_put_in_place_meanwhile_leads_nowhere(root: Path, outside: Path) -> None:
    """A folder that keeps turning into a link and back lets nothing through to the outside or from it."""
    folder = root / "folder"
    stop = threading.Event()

    def exchange() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            with suppress(OSError):
                folder.rename(root / f"aside {number}")
            with suppress(OSError):
                folder.symlink_to(outside)
                folder.unlink()

    written = met_a_link = 0
    with ThreadPoolExecutor(1) as pool:
        pool.submit(exchange)
        try:
            while min(written, met_a_link) < 100:
                try:
                    Workspace(root).write("folder/file.txt", b"x")
                    written += 1
                    Workspace(root).read("folder/secret.txt")
                    pytest.fail("the secret was read")
                except ToolError as error:
                    met_a_link += "symbolic link" in error.detail
        finally:
            stop.set()
    assert [file.name for file in outside.iterdir()] == ["secret.txt"]


def test_special_files_are_refused(root: Path) -> None:
    """A pipe would hang; a socket or device has no text."""
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener, chdir(root), ThreadPoolExecutor(1) as pool:
        # Relative, because there is little room for a socket's path.
        listener.bind("socket")
        for name in ("pipe", "socket"):
            with pytest.raises(ToolError, match="a pipe, socket or device"):
                pool.submit(Workspace(root).read, name).result(timeout=5)
            with pytest.raises(ToolError, match="a pipe, socket or device"):
                pool.submit(Workspace(root).write, name, b"x").result(timeout=5)


def test_folders_are_not_files(root: Path) -> None:
    """And files are not folders."""
    (root / "folder").mkdir()
    (root / "file").write_text("x")
    workspace = Workspace(root)
    with pytest.raises(ToolError, match="`folder` is a folder, not a file"):
        workspace.read("folder")
    with pytest.raises(ToolError, match="`folder` is a folder, not a file"):
        workspace.write("folder", b"x")
    with pytest.raises(ToolError, match="leads through something that is not a folder"):
        workspace.write("file/inner", b"x")
    with pytest.raises(ToolError, match="not a folder"):
        workspace.open_folder("file")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.text(st.sampled_from("a./\\~\0\n …é") | st.characters(), max_size=20))
def test_any_path_stays_inside(tmp_path: Path, path: str) -> None:
    """Every path that the model writes is a file inside, or refused with a sentence."""
    root = tmp_path / "a" / "b" / "root"
    with suppress(ToolError):
        Workspace(root).write(path, b"x")
        assert Workspace(root).read(path) == b"x"
    for folder, only in ((tmp_path, "a"), (tmp_path / "a", "b"), (tmp_path / "a" / "b", "root")):
        assert {entry.name for entry in folder.glob("*")} <= {only}


def test_the_folder_is_made_when_needed_and_private(workspace: Path) -> None:
    """For the owner only, with the parents it lacks; so are files and folders in it."""
    assert not workspace.parent.exists()
    Workspace(workspace).write("notes/today.md", b"x")
    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in (workspace.parent, workspace, workspace / "notes", workspace / "notes" / "today.md")
    }
    assert list(modes.values()) == [0o700, 0o700, 0o700, 0o600]


def test_a_missing_file_names_its_neighbours(root: Path) -> None:
    """A misspelt name is met with the right one."""
    with pytest.raises(ToolError, match=r"does not exist\. Its folder is empty\."):
        Workspace(root).read("notes.txt")
    (root / "notes.txt").write_text("x")
    with pytest.raises(ToolError, match=r"`note.txt` does not exist. Did you mean `notes.txt`\?"):
        Workspace(root).read("note.txt")
    with pytest.raises(ToolError, match=r"`a/b.txt` does not exist\."):
        Workspace(root).read("a/b.txt")


def test_a_write_replaces_the_file_at_once(root: Path) -> None:
    """Who has the old file open keeps it whole, its mode stays, and no draft is left."""
    script = root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    with script.open() as old:
        Workspace(root).write("run.sh", b"new")
        assert old.read() == "old"
    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert [file.name for file in root.iterdir()] == ["run.sh"]


def test_appends_at_the_same_time_all_arrive(root: Path) -> None:
    """Tool calls run concurrently; none of their lines may be lost."""
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(Workspace(root).write, "log", b"line\n", append=True) for _ in range(100)]:
            done.result()
    assert (root / "log").read_bytes() == b"line\n" * 100


def test_large_files_are_refused(root: Path) -> None:
    """To read and to write, also when an append would make one; what was there stays."""
    workspace = Workspace(root)
    with pytest.raises(ToolError, match="10,000,000 bytes"):
        workspace.write("big", b"x" * (MAX_FILE_BYTES + 1))
    workspace.write("big", b"x" * MAX_FILE_BYTES)
    with pytest.raises(ToolError, match="10,000,000 bytes"):
        workspace.write("big", b"x", append=True)
    assert (root / "big").stat().st_size == MAX_FILE_BYTES
    with (root / "big").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ToolError, match="10,000,000 bytes"):
        workspace.read("big")
