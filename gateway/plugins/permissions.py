"""Rejects plugins that another user of the machine could change: their code runs with all rights of the owner.

Plugins that come with Hermes or are installed beside it are not checked: a user who can change them can change Hermes.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path

from gateway.plugins.plugin_folder import PluginFault


def check_permissions(folder: Path, home: Path) -> list[str]:
    """Raise PluginFault if other users can change the folder, anything in it, or a folder above it.

    The folder, its content, and the folders up to the state directory must also belong to this user or to root. Return
    a warning if a group with unknown members may write, as on a volume in a container.
    """
    user, real = os.geteuid(), folder.resolve()
    parents = dict.fromkeys((*folder.absolute().parents, *real.parents))
    doubtful: list[str] = []
    contents = ((path, found, False) for path, found in _reachable(real))
    for path, found, is_parent in chain(contents, ((path, path.stat(), True) for path in parents)):
        option, target = ("", path) if is_parent else ("-R ", real)
        # In a sticky folder such as /tmp, users cannot replace files of others.
        is_sticky = is_parent and bool(found.st_mode & stat.S_ISVTX)
        if _others_write(found) and not is_sticky:
            remedy = f"chmod {option}go-w {target}"
            raise PluginFault(f"other users can change {path}; look at what is in it, then run `{remedy}`.")
        if found.st_uid not in (0, user) and (not is_parent or path.is_relative_to(home)):
            raise PluginFault(
                f"{path} belongs to another user ({found.st_uid}); look at what is in it, then run "
                f"`chown {option}{user} {target}`."
            )
        if _unknown_write(found) and not is_sticky:
            doubtful.append(
                f"the plugin in {folder} is run, but a group with unknown members can change {path}; "
                f"unless Hermes needs that, run `chmod {option}g-w {target}`"
            )
    return doubtful[:1]


def _others_write(found: os.stat_result) -> bool:
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and _is_own_group(found.st_gid) is False


def _unknown_write(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_IWGRP) and _is_own_group(found.st_gid) is None


@cache
def _is_own_group(group: int) -> bool | None:
    """Tell whether this user is the only member. Many systems give each user such a group and make new files writable
    for it. None if unknown: the group has no name, or root is in it."""
    users, own = pwd.getpwall(), set()
    with suppress(KeyError):  # in a container, this user may have no name
        users.append(pwd.getpwuid(os.geteuid()))  # a directory service need not list everyone
        own = {users[-1].pw_name}
    members = {user.pw_name for user in users if user.pw_gid == group}
    try:
        members |= set(grp.getgrgid(group).gr_mem)
    except KeyError:
        return None if members <= own | {"root"} else False
    if members and members == own:
        return True
    return None if members and members <= own | {"root"} else False


def _reachable(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the folder and everything in it, following links, each once."""
    seen: set[tuple[int, int]] = set()
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        with suppress(OSError):  # a broken link, or a folder that cannot be read and so cannot be run
            found = path.stat()
            if (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
            yield path.resolve(), found
            if stat.S_ISDIR(found.st_mode):
                waiting += path.iterdir()
