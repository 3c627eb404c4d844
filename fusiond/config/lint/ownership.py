"""
Who could change what the daemon does: the owner and mode of the file and of its includes.

A daemon run by root refuses a file that others than root can write; any other user is warned.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from typing import TYPE_CHECKING

from fusiond.config.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fusiond.config.problems import Severity
    from fusiond.config.yaml.nodes import Tree


def check(tree: Tree, *, to_run: bool) -> Iterator[Problem]:
    """Each file that somebody else can write."""
    user = os.geteuid()
    severity: Severity = "error" if to_run and user == 0 else "warning"
    for path, found in tree.stats.items():
        if reason := weakness(found.st_mode, found.st_uid, found.st_gid, user):
            yield Problem(str(path), 0, 0, severity, "unsafe-file", f"the file {reason}", _remedy(path, found, user))


def weakness(mode: int, owner: int, group: int, user: int) -> str:
    """
    Why a file with this mode, owner and group is unsafe for a daemon of `user`; empty where it is safe.

    Root and the user may own it. Its group may write it where that is root's, or where the user is not root.
    """
    if owner not in (0, user):
        return f"belongs to {_name(owner)}"
    if mode & stat.S_IWOTH:
        return "can be written by everyone"
    if mode & stat.S_IWGRP and group != 0 and user == 0:
        return "can be written by its group"
    return ""


def _remedy(path: Path, found: os.stat_result, user: int) -> str:
    commands = []
    if found.st_uid not in (0, user):
        commands.append(f"chown {_name(user)} {shlex.quote(str(path))}")
    if found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        commands.append(f"chmod go-w {shlex.quote(str(path))}")
    return " && ".join(commands)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
