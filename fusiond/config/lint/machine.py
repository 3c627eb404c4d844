"""
What this machine has: users, groups, directories, interpreters, files.

A file is often written and checked elsewhere than it runs, so what is missing is a warning, and an error only where the
machine is about to run it.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fusiond.config.lint.suggest import Suggestions
from fusiond.config.lint.walk import group_settings, said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem, Severity
    from fusiond.config.yaml.nodes import Node


#: from <linux/capability.h>: CAP_KILL, CAP_SETGID, CAP_SETUID
_BECOMES = 1 << 5 | 1 << 6 | 1 << 7


def check(root: Node, config: Config, *, to_run: bool) -> Iterator[Problem]:
    """Each thing that the file names and this machine does not have, or this user may not use."""
    look = _Look(root, "error" if to_run else "warning")
    yield from look.at_accounts()
    yield from look.at_directories()
    yield from look.at_interpreters(config)
    yield from look.at_server(config)
    yield from look.at_files()
    if os.geteuid() == 0:
        yield from _groups_of_root(root, config)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the machine, for one file."""

    root: Node
    severity: Severity

    def at_accounts(self) -> Iterator[Problem]:
        """Users and system groups."""
        users = [node for _, settings in group_settings(self.root) if (node := settings.get("user")) is not None]
        suggest = Suggestions(_users())
        for node in users:
            yield from self._user(node, suggest)
        for path in (("broker", "socket_group"), ("control", "group")):
            node = self.root.get(*path)
            if node is not None and isinstance(node.value, str) and not _group_exists(node.value):
                yield from self._missing(
                    node, "unknown-group", f"there is no group {node.raw!r}", Suggestions(_groups())
                )

    def _user(self, node: Node, suggest: Suggestions) -> Iterator[Problem]:
        if not isinstance(node.value, str):
            return
        try:
            uid = pwd.getpwnam(node.value).pw_uid
        except KeyError:
            yield from self._missing(node, "unknown-user", f"there is no user {node.raw!r}", suggest)
            return
        if os.geteuid() != uid and not _may_become_others():
            message = f"only root can run a group as {node.raw!r}"
            remedy = "remove user:, or start the daemon as root, or with CAP_SETUID, CAP_SETGID and CAP_KILL"
            yield node.place.problem(self.severity, "needs-root", message, remedy)

    def _missing(self, node: Node, code: str, message: str, suggest: Suggestions) -> Iterator[Problem]:
        remedy = suggest(str(node.value)) or "create it, or remove the key"
        yield node.place.problem(self.severity, code, f"{message} on this machine", remedy)

    def at_directories(self) -> Iterator[Problem]:
        """Each `directory` that is none."""
        for _, settings in group_settings(self.root):
            node = settings.get("directory")
            if node is not None and isinstance(node.value, str):
                path = node.place.source.directory / node.value
                if not _is_directory(path):
                    message = f"the directory {path} does not exist"
                    yield node.place.problem(self.severity, "missing-directory", message, "create it, or mend the path")
                elif _mode(path) & stat.S_IWOTH:
                    message = f"everyone on this machine can put code into {path}"
                    yield node.place.warning("unsafe-directory", message, f"chmod o-w {shlex.quote(str(path))}")

    def at_interpreters(self, config: Config) -> Iterator[Problem]:
        """Each `python` that is none, once for each place that says it and path that it comes to."""
        seen: set[tuple[object, str | None]] = set()
        for name, group in config.workers.items():
            node = said(self.root, "workers", name, "python")
            if node is None or group.python is None or (node.place, group.python) in seen:
                continue
            seen.add((node.place, group.python))
            if not os.access(group.python, os.X_OK) or _is_directory(group.python):
                message = f"there is no interpreter {group.python}"
                remedy = "write an absolute path, or one that starts at `directory`"
                if said(self.root, "workers", name, "directory") is None and not str(node.value).startswith("/"):
                    remedy = "a relative one starts at `directory`, which is / where none is written"
                yield node.place.problem(self.severity, "missing-python", message, remedy)

    def at_server(self, config: Config) -> Iterator[Problem]:
        """The `broker.server` that is none."""
        node, path = self.root.get("broker", "server"), config.broker.server
        if node is not None and path is not None and (not os.access(path, os.X_OK) or _is_directory(Path(path))):
            message, remedy = f"there is no server {path}", "write the path of a redis-server or valkey-server"
            yield node.place.problem(self.severity, "missing-server", message, remedy)

    def at_files(self) -> Iterator[Problem]:
        """Each file that is named and must be there already; one with a secret is for its owner's eyes."""
        secret = [("broker", "password_file"), ("broker", "tls", "key_file")]
        paths = [*secret, ("broker", "tls", "ca_file"), ("broker", "tls", "cert_file")]
        nodes = [node for path in paths if (node := self.root.get(*path)) is not None]
        for node in (node for path in secret if (node := self.root.get(*path)) is not None):
            yield from self._exposed(node)
        lists = [files for _, settings in group_settings(self.root) if (files := settings.get("environment_file"))]
        environments = [node for files in lists for node in files.items()]
        for node in (*nodes, *environments):
            if isinstance(node.value, str):
                yield from self._file(node, node.place.source.directory / node.value)
        for node in environments:
            if isinstance(node.value, str):
                yield from self._text(node, node.place.source.directory / node.value)
        yield from self._log()

    def _file(self, node: Node, path: Path) -> Iterator[Problem]:
        if not os.path.isfile(path):  # noqa: PTH113 - as below
            yield node.place.problem(
                self.severity, "missing-file", f"{path} does not exist", "create it, or mend the path"
            )
        elif not os.access(path, os.R_OK):
            yield node.place.problem(
                self.severity, "unreadable-file", f"{path} cannot be read", f"chmod or chown {path}"
            )

    def _text(self, node: Node, path: Path) -> Iterator[Problem]:
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            message = f"{path} cannot be read: it is not UTF-8"
            yield node.place.problem(self.severity, "unreadable-file", message, "save it as UTF-8")
        except (OSError, ValueError):
            pass  # told before

    def _exposed(self, node: Node) -> Iterator[Problem]:
        if isinstance(node.value, str):
            path = node.place.source.directory / node.value
            if _mode(path) & stat.S_IROTH:
                message = f"everyone on this machine can read {path}"
                yield node.place.warning("exposed-file", message, f"chmod o-r {shlex.quote(str(path))}")

    def _log(self) -> Iterator[Problem]:
        node = self.root.get("logging", "file")
        if node is not None and isinstance(node.value, str):
            path = node.place.source.directory / node.value
            if not _is_directory(path.parent):
                message = f"the directory {path.parent} does not exist"
                yield node.place.problem(self.severity, "missing-directory", message, "create it, or mend the path")
            elif _is_directory(path):
                message = f"{path} is a directory"
                yield node.place.problem(self.severity, "missing-file", message, "name a file, in it or elsewhere")


def _groups_of_root(root: Node, config: Config) -> Iterator[Problem]:
    for name, group in config.workers.items():
        if group.user is None:
            message = f"workers.{name} runs its tasks as root"
            yield root.nearest("workers", name).warning(
                "runs-as-root", message, "add user:, or run the daemon as another"
            )


def _mode(path: Path) -> int:
    """The file's mode bits; none where it cannot be looked at."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116 - as below
    except (OSError, ValueError):
        return 0


def _is_directory(path: str | Path) -> bool:
    # Path.is_dir() raises where a parent cannot be searched, or the name is too long.
    return os.path.isdir(path)  # noqa: PTH112


def _may_become_others() -> bool:
    """Whether this process is root, or has what of root a group's user takes."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # on another system, which checks the file for this one
        return os.geteuid() == 0
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(effective.split()[1], 16) & _BECOMES == _BECOMES


def _group_exists(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True


def _users() -> list[str]:
    return [entry.pw_name for entry in pwd.getpwall()]


def _groups() -> list[str]:
    return [entry.gr_name for entry in grp.getgrall()]
