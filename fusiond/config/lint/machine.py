"""
What this machine has: users, groups, directories, interpreters, files, memory; and what any kernel allows.

A file is often written and checked elsewhere than it runs: what is missing is a warning, and an error only where this
machine is about to run the file.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from fusiond.config.layers import all_maps, node_of
from fusiond.config.lint.suggest import Suggestions
from fusiond.config.quota import memory_limit
from fusiond.config.units import written_size
from fusiond.paths import LONGEST_CONTROL, control_socket

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fusiond.config.model import Config
    from fusiond.config.problems import Problem, Severity
    from fusiond.config.yaml.nodes import Node

T = TypeVar("T")

#: from <linux/capability.h>: CAP_KILL, CAP_SETGID, CAP_SETUID
_BECOMES: Final = 1 << 5 | 1 << 6 | 1 << 7
#: bytes of sun_path without its closing NUL
_LONGEST_SOCKET: Final = 107


def check(root: Node, config: Config, *, to_run: bool) -> Iterator[Problem]:
    """Each thing that the file names and this machine does not have, or this user may not use."""
    severity: Severity = "error" if to_run else "warning"
    yield from _accounts(root, severity)
    yield from _directories(root, severity)
    yield from _programs(root, config, severity)
    yield from _files(root, severity)
    yield from _memory(root, config)
    for name, group in config.workers.items() if os.geteuid() == 0 else ():
        if group.user is None:
            message, remedy = f"workers.{name} runs its tasks as root", "add user:, or run the daemon as another user"
            yield root.nearest("workers", name).warning("runs-as-root", message, remedy)


def check_paths(root: Node, config: Config) -> Iterator[Problem]:
    """Paths of sockets that are too long for any kernel, and directories that are one."""
    state, runtime, url = config.state_directory, config.runtime_directory, config.broker.url
    node = root.get("runtime_directory")
    sockets = []
    if node is not None and runtime is not None:
        # The path of Redis' socket is longer, and the limit of this one allows for it.
        sockets.append((node, str(control_socket(Path(runtime))), LONGEST_CONTROL))
        if state == runtime:
            message = "state_directory and runtime_directory are the same, and each needs a redis/ of its own"
            yield node.place.error("same-directory", message, "write another directory")
    if url.startswith("unix:") and (node := root.get("broker", "url")) is not None:
        sockets.append((node, urlsplit(url).path, _LONGEST_SOCKET))
    for node, path, longest in sockets:
        length = len(os.fsencode(path))
        if length > longest:
            message = f"the path of {Path(path).name} would be {length} bytes long, and at most {longest} are allowed"
            yield node.place.error("socket-path-too-long", message, "write a shorter directory, such as /run/fusiond")


def _accounts(root: Node, severity: Severity) -> Iterator[Problem]:
    users = Suggestions(entry.pw_name for entry in pwd.getpwall())
    groups = Suggestions(entry.gr_name for entry in grp.getgrall())
    for settings in all_maps(root, "workers"):
        node, name = settings.get("user"), settings.text("user")
        if node is None or name is None:
            continue
        user = _found(pwd.getpwnam, name)
        if user is None:
            remedy = users(name) or "create it, or remove the key"
            message = f"there is no user {node.raw!r} on this machine"
            yield node.place.problem(severity, "unknown-user", message, remedy)
        elif os.geteuid() != user.pw_uid and not _may_become_others():
            message = f"only root can run a group as {node.raw!r}"
            remedy = "remove user:, or start the daemon as root, or with CAP_SETUID, CAP_SETGID and CAP_KILL"
            yield node.place.problem(severity, "needs-root", message, remedy)
    for path in (("broker", "socket_group"), ("control", "group")):
        node, name = root.get(*path), root.text(*path)
        if node is not None and name is not None and _found(grp.getgrnam, name) is None:
            remedy = groups(name) or "create it, or remove the key"
            message = f"there is no group {node.raw!r} on this machine"
            yield node.place.problem(severity, "unknown-group", message, remedy)


def _directories(root: Node, severity: Severity) -> Iterator[Problem]:
    for settings in all_maps(root, "workers"):
        for node, path in _paths(settings.get("directory")):
            if not _is_directory(path):
                message, remedy = f"the directory {path} does not exist", "create it, or correct the path"
                yield node.place.problem(severity, "missing-directory", message, remedy)
            elif _mode(path) & stat.S_IWOTH:
                message = f"everyone on this machine can put code into {path}"
                yield node.place.warning("unsafe-directory", message, f"chmod o-w {shlex.quote(str(path))}")
    for node, path in _paths(root.get("logging", "file")):
        if not _is_directory(path.parent):
            message, remedy = f"the directory {path.parent} does not exist", "create it, or correct the path"
            yield node.place.problem(severity, "missing-directory", message, remedy)
        elif _is_directory(path):
            message, remedy = f"{path} is a directory", "write the path of a file"
            yield node.place.problem(severity, "missing-file", message, remedy)


def _programs(root: Node, config: Config, severity: Severity) -> Iterator[Problem]:
    """Each `python` that does not exist, once for each place that says it and path that it gives; and the server."""
    seen: set[tuple[object, str]] = set()
    for name, group in config.workers.items():
        node, path = node_of(root, "workers", name, "python"), group.python
        if node is None or path is None or (node.place, path) in seen:
            continue
        seen.add((node.place, path))
        if not _is_program(path):
            remedy = "write an absolute path, or one that starts at `directory`"
            if node_of(root, "workers", name, "directory") is None and not str(node.value).startswith("/"):
                remedy = "a relative path starts at `directory`, which is / where the file does not say it"
            yield node.place.problem(severity, "missing-python", f"there is no interpreter {path}", remedy)
    node, path = root.get("broker", "server"), config.broker.server
    if node is not None and path is not None and not _is_program(path):
        remedy = "write the path of a redis-server or valkey-server"
        yield node.place.problem(severity, "missing-server", f"there is no server {path}", remedy)


def _files(root: Node, severity: Severity) -> Iterator[Problem]:
    """Each file that must exist already; one with a secret is for its owner's eyes, one with variables is UTF-8."""
    secrets = (root.get("broker", "password_file"), root.get("broker", "tls", "key_file"))
    certificates = (root.get("broker", "tls", "ca_file"), root.get("broker", "tls", "cert_file"))
    variables = [node for settings in all_maps(root, "workers") for node in settings.items("environment_file")]
    texts = set(variables)
    for node, path in _paths(*secrets):
        if _mode(path) & stat.S_IROTH:
            message = f"everyone on this machine can read {path}"
            yield node.place.warning("exposed-file", message, f"chmod o-r {shlex.quote(str(path))}")
    for node, path in _paths(*secrets, *certificates, *variables):
        if not os.path.isfile(path):  # noqa: PTH113 - see _is_directory
            message, remedy = f"{path} does not exist", "create it, or correct the path"
            yield node.place.problem(severity, "missing-file", message, remedy)
        elif not os.access(path, os.R_OK):
            message, remedy = f"{path} cannot be read", f"chmod or chown {path}"
            yield node.place.problem(severity, "unreadable-file", message, remedy)
        elif node in texts and not _is_text(path):
            message, remedy = f"{path} cannot be read: it is not UTF-8", "save it as UTF-8"
            yield node.place.problem(severity, "unreadable-file", message, remedy)


def _memory(root: Node, config: Config) -> Iterator[Problem]:
    """What the children of all groups may grow to, together, against what this machine has."""
    available = memory_limit()
    shares = {name: group.processes * group.max_memory for name, group in config.workers.items() if group.max_memory}
    total = sum(shares.values())
    if total > available:
        largest = max(shares, key=lambda name: shares[name])
        groups = [config.workers[name] for name in shares]
        terms = " + ".join(f"{group.processes} × {written_size(group.max_memory or 0)}" for group in groups)
        there = written_size(available >> 20 << 20)  # whole MiB: nobody counts a machine's memory in bytes
        message = f"max_memory adds up to {written_size(total)} ({terms}), and this machine has {there}"
        node = node_of(root, "workers", largest, "max_memory")
        place = node.place if node is not None else root.nearest("workers", largest)
        yield place.warning("memory-above-host", message, "lower max_memory or processes")


def _paths(*nodes: Node | None) -> Iterator[tuple[Node, Path]]:
    """Each node that is a path, and the path from the directory of its file."""
    for node in nodes:
        if node is not None and isinstance(node.value, str):
            yield node, node.place.source.directory / node.value


def _found(look_up: Callable[[str], T], name: str) -> T | None:
    try:
        return look_up(name)
    except KeyError:
        return None


def _mode(path: Path) -> int:
    """The file's mode bits; 0 where it cannot be looked at."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116 - as the rest of these
    except (OSError, ValueError):
        return 0


def _is_directory(path: str | Path) -> bool:
    # Path.is_dir() raises where a parent cannot be searched, or the name is too long.
    return os.path.isdir(path)  # noqa: PTH112


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and not _is_directory(path)


def _is_text(path: Path) -> bool:
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    except OSError:  # gone since a moment ago
        pass
    return True


def _may_become_others() -> bool:
    """Whether this process is root, or has the capabilities of root that a group's user needs."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # another system, on which a file for this one is checked
        return os.geteuid() == 0
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(effective.split()[1], 16) & _BECOMES == _BECOMES
