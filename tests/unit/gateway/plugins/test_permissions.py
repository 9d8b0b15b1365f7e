"""Plugins that another user of the machine could change are not run."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path

import pytest

from gateway.config.loader import LoadedConfig
from gateway.config.schema import Config
from gateway.errors import EngineBroken, PluginBroken
from gateway.plugins.engines import available_engines, check_engine
from gateway.plugins.loader import Plugins, load_plugins
from tests.support.foreign_plugins import ENGINE, make_engines, write, write_engine, write_plugin

CODE = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\ndef register(ctx):\n    pass\n"
ELSE = 4711
"""A user that is not the one who runs the tests."""


@pytest.fixture
def plugin(private_home: Path) -> Path:
    return write_plugin(private_home, CODE, helper="")


def give_to_a_group(path: Path) -> None:
    """Give the path to a group that has other members."""
    if os.geteuid() != 0:
        pytest.skip("needs to give a file to a group")
    os.chown(path, -1, next(user.pw_gid for user in pwd.getpwall() if user.pw_uid and user.pw_gid))


def ran(plugin: Path) -> bool:
    return (plugin / "ran").exists()


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
@pytest.mark.parametrize("where", ["", "__init__.py", "helper.py", "..", "../.."])
def test_what_others_may_write_is_not_run(plugin: Path, where: str, mode: int) -> None:
    """The message names the path and the command that fixes it."""
    target = (plugin / where).resolve()
    target.chmod(mode)
    if mode == 0o775:
        give_to_a_group(target)
    with pytest.raises(PluginBroken) as refused:
        load_plugins(plugin.parents[1], ["acme"])
    assert not ran(plugin)
    assert f"other users can change {target}" in str(refused.value)
    remedy = f"chmod -R go-w {plugin}" if target.is_relative_to(plugin) else f"chmod go-w {target}"
    assert f"`{remedy}`" in str(refused.value)
    target.chmod(mode & 0o755)
    assert load_plugins(plugin.parents[1], ["acme"]).names == ["acme"]
    assert ran(plugin)


def test_what_only_the_own_group_may_write_is_run(plugin: Path) -> None:
    """Many systems give each user a group and make new files writable for it."""
    if os.geteuid() != 0:
        pytest.skip("needs to give a file to a group")
    alone = next(
        (
            group.gr_gid
            for group in grp.getgrall()
            if {*group.gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group.gr_gid)}
            == {"root"}
        ),
        None,
    )
    if alone is None:
        pytest.skip("no group has root as its only member here")
    os.chown(plugin, -1, alone)
    plugin.chmod(0o775)
    assert load_plugins(plugin.parents[1], ["acme"]).names == ["acme"]


@pytest.mark.parametrize("where", ["", "helper.py", "..", "../.."])
def test_what_an_unknown_group_may_write_is_run_with_a_warning(plugin: Path, where: str) -> None:
    """A volume in a container often belongs to such a group."""
    if os.geteuid() != 0:
        pytest.skip("needs to give a file to a group")
    home, target = plugin.parents[1], (plugin / where).resolve()
    os.chown(target, -1, ELSE)
    target.chmod(0o775)
    (notice,) = load_plugins(home, ["acme"]).notices
    remedy = f"chmod -R g-w {plugin}" if target.is_relative_to(plugin) else f"chmod g-w {target}"
    assert f"a group with unknown members can change {target};" in notice and f"`{remedy}`" in notice
    target.chmod(0o777)
    with pytest.raises(PluginBroken, match=f"other users can change {target}"):
        load_plugins(home, ["acme"])


def test_an_engine_that_an_unknown_group_may_write(private_home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs to give a file to a group")
    folder = write_engine(private_home, ENGINE)
    os.chown(folder, -1, ELSE)
    folder.chmod(0o775)
    started, checked = Plugins(), Plugins()
    make_engines(private_home, plugins=started)
    check_engine("mine", LoadedConfig(Config(), None, private_home), checked)
    assert started.notices == checked.notices
    assert f"a group with unknown members can change {folder};" in started.notices[0]


def test_a_folder_above_the_state_directory(tmp_path: Path) -> None:
    """A user who can rename the state directory can replace it, except in a sticky folder."""
    above = tmp_path / "above"
    plugin = write_plugin(above / "home", CODE)
    above.chmod(0o777)
    with pytest.raises(PluginBroken, match=f"other users can change {above};"):
        load_plugins(above / "home", ["acme"])
    assert not ran(plugin)
    above.chmod(0o1777)
    assert load_plugins(above / "home", ["acme"]).names == ["acme"]


def test_what_a_link_leads_to(private_home: Path, tmp_path: Path) -> None:
    code = write(tmp_path / "elsewhere" / "acme", CODE)
    (private_home / "plugins").mkdir(parents=True)
    (private_home / "plugins" / "acme").symlink_to(code)
    module = tmp_path / "shared"
    module.mkdir()
    (module / "part.py").touch()
    (code / "parts").symlink_to(module)
    (module / "part.py").chmod(0o666)
    with pytest.raises(PluginBroken, match=f"other users can change {module / 'part.py'};"):
        load_plugins(private_home, ["acme"])
    (module / "part.py").chmod(0o644)
    code.parent.chmod(0o777)
    with pytest.raises(PluginBroken, match=f"other users can change {code.parent};"):
        load_plugins(private_home, ["acme"])
    assert not ran(code)
    code.parent.chmod(0o755)
    assert load_plugins(private_home, ["acme"]).names == ["acme"]


def test_what_belongs_to_another_user(plugin: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    for target in (plugin / "helper.py", plugin, plugin.parent):
        os.chown(target, ELSE, -1)
        with pytest.raises(PluginBroken, match=rf"{target} belongs to another user \(4711\); .*`chown"):
            load_plugins(plugin.parents[1], ["acme"])
        os.chown(target, os.geteuid(), -1)
    assert not ran(plugin)
    assert load_plugins(plugin.parents[1], ["acme"]).names == ["acme"]


def test_an_engine_that_others_may_write(private_home: Path) -> None:
    """It counts as broken, and the built-in engine replaces it."""
    folder = write_engine(private_home, ENGINE)
    folder.chmod(0o777)
    with pytest.raises(EngineBroken, match=f"other users can change {folder};"):
        make_engines(private_home)
    (listed,) = [
        each for each in available_engines(private_home, Plugins(), active="") if each.name == "mine"
    ]
    assert "other users can change" in listed.problem


def test_endless_links(plugin: Path) -> None:
    (plugin / "again").symlink_to(plugin)
    (plugin / "nowhere").symlink_to("/does/not/exist")
    assert load_plugins(plugin.parents[1], ["acme"]).names == ["acme"]
