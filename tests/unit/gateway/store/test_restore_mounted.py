"""SQLite only: a restore where something is mounted, as in a container, and one that stops halfway."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.errors import RestoreFailed, RestoreUnfinished
from gateway.process_lock import hold_lock
from gateway.store.sqlite import file_swap as swap
from tests.support.backup_harness import StateDirectory, with_texts

Mount = Callable[..., None]


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    state = with_texts(tmp_path / "my home", "old")
    state.workspaces.mkdir()
    return state


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    elsewhere = with_texts(tmp_path / "elsewhere", "new")
    (elsewhere.workspaces / "conv_1").mkdir(parents=True)
    return elsewhere.backup(tmp_path / "b.tar.gz", workspaces=True).path


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Called with what `mount` is, the place last."""
    with ExitStack() as mounted:

        def add(*arguments: str | Path) -> None:
            command = ["mount", *map(str, arguments)]
            if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("only root in a real system can mount this")
            mounted.callback(subprocess.run, ["umount", "--lazy", str(arguments[-1])], check=True)

        yield add


def test_workspaces_on_another_disk(state: StateDirectory, backup: Path, mount: Mount) -> None:
    """They cannot be moved aside; that is found before anything is touched."""
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", state.workspaces)
    refused_and_untouched(state, backup, state.workspaces)


def test_workspaces_on_the_same_disk(
    state: StateDirectory, backup: Path, mount: Mount, tmp_path: Path
) -> None:
    """Two volumes of a container mostly lie on one disk, and then no number tells that they are two."""
    (tmp_path / "volume").mkdir()
    mount("--bind", tmp_path / "volume", state.workspaces)
    refused_and_untouched(state, backup, state.workspaces)


def test_a_database_that_is_mounted_as_a_file(
    state: StateDirectory, backup: Path, mount: Mount, tmp_path: Path
) -> None:
    volume = with_texts(tmp_path / "volume", "old").database
    mount("--bind", volume, state.database)
    refused_and_untouched(state, backup, state.database)


def refused_and_untouched(state: StateDirectory, backup: Path, place: Path) -> None:
    before = state.names()
    with pytest.raises(
        RestoreFailed, match=rf"nothing was changed: {place} is a mount point.* {place.parent} as"
    ):
        state.restore(backup)
    assert state.names() == before
    assert state.texts() == ["old"]
    with hold_lock(state.home, state.database):
        pass


def test_a_link_to_another_disk_is_only_a_name(state: StateDirectory, backup: Path) -> None:
    """The link is moved aside, and what it leads to stays."""
    another = Path("/dev/shm")
    if not another.is_dir() or another.stat().st_dev == state.home.stat().st_dev:
        pytest.skip("there is no second file system at hand")
    state.workspaces.rmdir()
    state.workspaces.symlink_to(another)
    state.restore(backup)
    assert not state.workspaces.is_symlink() and (state.workspaces / "conv_1").is_dir()


def test_halfway_is_not_called_unchanged(tmp_path: Path, backup: Path, mount: Mount) -> None:
    """A folder of a container's image cannot be renamed, and that shows only when it is tried."""
    image = with_texts(tmp_path / "image", "old")
    image.workspaces.mkdir()
    merged = StateDirectory(tmp_path / "merged")
    layers = tmp_path / "layers"
    merged.home.mkdir()
    layers.mkdir()
    mount("-t", "tmpfs", "-o", "size=20m", "tmpfs", layers)
    for name in ("upper", "work"):
        (layers / name).mkdir()
    over = f"lowerdir={image.home},upperdir={layers}/upper,workdir={layers}/work,redirect_dir=off"
    mount("-t", "overlay", "-o", over, "overlay", merged.home)
    with pytest.raises(RestoreUnfinished) as halfway:
        merged.restore(backup)
    assert "nothing was changed" not in str(halfway.value)
    assert str(swap.journal(merged.database)) in str(halfway.value)


def test_what_cannot_be_finished_yet(state: StateDirectory) -> None:
    """Hermes names the obstacle and the recorded swap, and continues once the obstacle is gone."""
    swap.staging(state.database).mkdir()
    away = state.home / "away"
    swap.commit(state.database, [swap.Move(state.workspaces, away / "workspaces")])
    with pytest.raises(RestoreUnfinished) as stuck, hold_lock(state.home, state.database):
        pass
    assert f"{state.workspaces}: No such file or directory." in str(stuck.value)
    assert str(swap.journal(state.database)) in str(stuck.value)
    away.mkdir()
    with hold_lock(state.home, state.database):
        assert (away / "workspaces").is_dir() and not swap.is_unfinished(state.database)
