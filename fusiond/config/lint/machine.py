"""
Checks against this machine: users, groups, directories, interpreters, files, memory, packages; and the limits of every
kernel.

A file is often checked on another machine than the one that runs it: what is missing is a warning, and an error only if
this machine is about to run the file.

A daemon of root refuses a file that anybody but root can write; any other user gets a warning.
"""

import contextlib
import errno
import grp
import os
import pwd
import re
import shlex
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from fusiond.config import environment_files
from fusiond.config.calendar_days import holidays_of
from fusiond.config.layers import node_of, place_of
from fusiond.config.lint.suggest import Suggestions, did_you_mean
from fusiond.config.model import Config, Task, WorkerGroup, serves
from fusiond.config.problems import Problem, Severity
from fusiond.config.quota import memory_limit
from fusiond.config.units import written_size
from fusiond.config.yaml.nodes import Node, Tree
from fusiond.files import read_secret
from fusiond.identity import user_name
from fusiond.installed import not_installed
from fusiond.paths import LONGEST_CONTROL, control_socket

T = TypeVar("T")
#: worker groups that run on this host
Groups: TypeAlias = Mapping[str, WorkerGroup]

#: from <linux/capability.h>: CAP_KILL, CAP_SETGID, CAP_SETUID
_BECOMES: Final = 1 << 5 | 1 << 6 | 1 << 7
#: modules that nothing else of the standard library needs, and whose names are popular
_OFTEN_HIDDEN: Final = {"test", "this", "turtle", "lib2to3", "idlelib", "antigravity"}
#: bytes of sun_path without its closing NUL
_LONGEST_SOCKET: Final = 107
_CREATE: Final = "create it, or correct the path"


def check(root: Node, config: Config, *, to_run: bool) -> Iterator[Problem]:
    """
    Each thing that the file names and this machine does not have, or this user may not use.

    What only groups of other hosts need is not looked for.
    """
    severity: Severity = "error" if to_run else "warning"
    host = socket.gethostname()
    groups = {name: group for name, group in config.workers.items() if group.runs_on(host)}
    paths = (("defaults", "workers"), *(("workers", name) for name in groups))
    maps = [node for path in paths if (node := root.get(*path)) is not None]
    yield from _accounts(root, maps, severity)
    yield from _directories(root, maps, severity)
    yield from _programs(root, config, groups, severity)
    yield from _command_programs(root, config, groups)
    yield from _files(root, maps, severity)
    yield from _releases(maps)
    yield from _memory(root, groups)
    yield from _extras(root)
    yield from _holidays(root, config, severity)
    for name, group in groups.items() if os.geteuid() == 0 else ():
        if group.user is None:
            message, remedy = f"workers.{name} runs its tasks as root", "add user:, or run the daemon as another user"
            yield root.nearest("workers", name).warning("runs-as-root", message, remedy)


def check_paths(root: Node, config: Config) -> Iterator[Problem]:
    """Paths of sockets that are too long for any kernel, and two directories that are the same."""
    state, runtime, url = config.state_directory, config.runtime_directory, config.broker.url
    node = root.get("runtime_directory")
    sockets = []
    if node is not None and runtime is not None:
        # The path of Redis' socket is longer; this limit leaves room for it.
        sockets.append((node, str(control_socket(Path(runtime))), LONGEST_CONTROL))
        if state == runtime:
            message = "state_directory and runtime_directory are the same, and each needs a redis/ of its own"
            yield node.place.error("same-directory", message, "write another directory")
    if url.startswith("unix:") and (node := root.get("broker", "url")) is not None:
        sockets.append((node, urlsplit(url).path, _LONGEST_SOCKET))
    if config.web is not None and config.web.socket and (node := root.get("web", "listen")) is not None:
        sockets.append((node, config.web.socket, _LONGEST_SOCKET))
    for node, path, longest in sockets:
        length = len(os.fsencode(path))
        if length > longest:
            message = f"the path of {Path(path).name} would be {length} bytes long, and at most {longest} are allowed"
            yield node.place.error("socket-path-too-long", message, "write a shorter directory, such as /run/fusiond")


def _accounts(root: Node, maps: list[Node], severity: Severity) -> Iterator[Problem]:
    users = Suggestions(entry.pw_name for entry in pwd.getpwall())
    groups = Suggestions(entry.gr_name for entry in grp.getgrall())
    for settings in maps:
        node, name = settings.get("user"), settings.text("user")
        if node is None or name is None:
            continue
        user = looked_up(pwd.getpwnam, name)
        if user is None:
            remedy = users(name) or "create it, or remove the key"
            message = f"there is no user {node.raw!r} on this machine"
            yield node.place.problem(severity, "unknown-user", message, remedy)
        elif os.geteuid() != user.pw_uid and not _may_become_others():
            message = f"only root can run a group as {node.raw!r}"
            remedy = "remove user:, or start the daemon as root, or with CAP_SETUID, CAP_SETGID and CAP_KILL"
            yield node.place.problem(severity, "needs-root", message, remedy)
    for path in (("broker", "socket_group"), ("control", "group"), ("web", "socket_group")):
        node, name = root.get(*path), root.text(*path)
        if node is not None and name is not None and looked_up(grp.getgrnam, name) is None:
            remedy = groups(name) or "create it, or remove the key"
            message = f"there is no group {node.raw!r} on this machine"
            yield node.place.problem(severity, "unknown-group", message, remedy)


def _directories(root: Node, maps: list[Node], severity: Severity) -> Iterator[Problem]:
    for settings in maps:
        for node, path in _paths(settings.get("directory")):
            if not _is_directory(path):
                yield node.place.problem(severity, "missing-directory", f"the directory {path} does not exist", _CREATE)
            elif _mode(path) & stat.S_IWOTH:
                message = f"everyone on this machine can put code into {path}"
                yield node.place.warning("unsafe-directory", message, f"chmod o-w {shlex.quote(str(path))}")
            for file, name in _hiding(path):
                message = (
                    f"{file} hides the module {name} of Python's standard library from everything that the tasks load"
                )
                yield node.place.warning("hidden-module", message, f"rename {file.name}")
    for node, path in _paths(root.get("logging", "file")):
        if not _is_directory(path.parent):
            message = f"the directory {path.parent} does not exist"
            yield node.place.problem(severity, "missing-directory", message, _CREATE)
        elif _is_directory(path):
            message, remedy = f"{path} is a directory", "write the path of a file"
            yield node.place.problem(severity, "missing-file", message, remedy)


def _hiding(directory: Path) -> Iterator[tuple[Path, str]]:
    """The files and packages that are found before a module of the standard library, and that module's name."""
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir()):
            name = path.stem if path.suffix == ".py" else path.name if (path / "__init__.py").is_file() else ""
            if name in sys.stdlib_module_names - _OFTEN_HIDDEN:
                yield path, name


def _programs(root: Node, config: Config, groups: Groups, severity: Severity) -> Iterator[Problem]:
    """Each `python` and `server` that does not exist."""
    for name, group in groups.items():
        node, path = node_of(root, "workers", name, "python"), group.python
        if node is not None and path is not None and not _is_program(path):
            remedy = "write an absolute path, or one that starts at `directory`"
            if node_of(root, "workers", name, "directory") is None and not str(node.value).startswith("/"):
                remedy = "a relative path starts at `directory`, which is / unless the file sets it"
            yield node.place.problem(severity, "missing-python", *_no_program("interpreter", path, remedy))
    node, path = root.get("broker", "server"), config.broker.server
    if node is not None and path is not None and not _is_program(path):
        remedy = "write the path of a redis-server or valkey-server"
        yield node.place.problem(severity, "missing-server", *_no_program("server", path, remedy))


def _command_programs(root: Node, config: Config, groups: Groups) -> Iterator[Problem]:
    """
    Each command whose program cannot start in the first of the groups that run it.

    It is a warning at `run`, too: the other tasks can run, and the program may come with a deployment.
    """
    for name, task in config.tasks.items():
        words = [] if "$(" in "".join(task.command[:1]) else root.items("tasks", name, "command")
        for group in [each for each in groups.values() if words and serves(each.queues, task.queue)][:1]:
            with contextlib.suppress(OSError):  # of an environment file, for which there is a problem already
                for found, remedy in _no_start(task, group):
                    yield words[0].place.warning("missing-program", f"tasks.{name} cannot start: {found}", remedy)


def _no_start(task: Task, group: WorkerGroup) -> Iterator[tuple[str, str]]:
    """Why a command cannot start in a group, and the remedy, if the daemon has the PATH of this process."""
    program, directory = task.command[0], task.directory or group.directory
    variables = environment_files.read(group.environment_file) | dict(group.environment)
    searched = variables.get("PATH") or os.environ.get("PATH", os.defpath)
    path = str(Path(directory, program)) if "/" in program else shutil.which(program, path=searched)
    if not _is_directory(directory):
        yield f"the directory {directory} does not exist", _CREATE
    elif path is None:
        remedy = "write each word for itself, such as [ls, -l]" if " " in program else "install it, or write its path"
        yield f"{program} is nowhere in the PATH of group {group.name!r}, {searched}", remedy
    elif not _is_program(path):
        yield _no_program("program", path, "correct the path; a relative one starts at `directory`")
    elif Path(path).stat().st_size < 1 << 20 and b"\0" not in (text := Path(path).read_bytes()):
        if not (named := re.match(rb"#![ \t]*([^ \t\n]+)", text)):
            yield f"{path} is a script without #!", "begin it with #! and its interpreter"
        elif not os.access(Path(directory, os.fsdecode(named[1])), os.X_OK):
            message = f"the first line of {path} names {os.fsdecode(named[1])!r}, which cannot be executed"
            yield message, "save it with line ends of Unix" if named[1].endswith(b"\r") else "correct that line"


def _files(root: Node, maps: list[Node], severity: Severity) -> Iterator[Problem]:
    """Files that must exist. One with a secret must not be readable by everyone, one with variables must be UTF-8."""
    keys = (("broker", "password_file"), ("broker", "tls", "key_file"), ("webhooks", "secret_file"))
    secrets = [root.get(*key) for key in keys]
    secrets += [sink.get(key) for _, sink in root.entries("events", "sinks") for key in ("secret_file", "api_key_file")]
    secrets += [outbox.get("url_file") for _, outbox in root.entries("outboxes")]
    secrets += [token.get("token_file") for _, token in root.entries("web", "tokens")]
    certificates = (root.get("broker", "tls", "ca_file"), root.get("broker", "tls", "cert_file"))
    variables = [node for settings in maps for node in settings.items("environment_file")]
    #: node → what reads its file as the daemon does
    reads = dict.fromkeys(secrets, read_secret) | dict.fromkeys(variables, environment_files.read_one)
    for node, path in _paths(*secrets):
        if _mode(path) & stat.S_IROTH:
            message = f"everyone on this machine can read {path}"
            yield node.place.warning("exposed-file", message, f"chmod o-r {shlex.quote(str(path))}")
    for node, path in _paths(*secrets, *certificates, *variables):
        if not os.path.isfile(path):  # noqa: PTH113 - see _is_directory
            yield node.place.problem(severity, "missing-file", f"{path} does not exist", _CREATE)
        elif not os.access(path, os.R_OK):
            message, remedy = f"{path} cannot be read", f"chmod or chown {path}"
            yield node.place.problem(severity, "unreadable-file", message, remedy)
        elif reason := _unreadable(path, reads.get(node)):
            remedy = "write NAME=VALUE lines in UTF-8" if node in variables else "write the secret in UTF-8"
            yield node.place.problem(severity, "unreadable-file", f"{path} cannot be read: {reason}", remedy)


def _releases(maps: list[Node]) -> Iterator[Problem]:
    """Each path of `reload_on` by which nothing is noticed. No error: a link or file may come with a deployment."""
    for node, path in _paths(*(node for settings in maps for node in settings.items("reload_on"))):
        if not os.path.exists(path):  # noqa: PTH110 - see _is_directory
            message, remedy = f"{path} leads to nothing", "create it, or correct the path; it counts once it is there"
            yield node.place.warning("missing-release", message, remedy)
        elif _is_directory(path) and os.path.realpath(path) == os.path.abspath(path):  # noqa: PTH100
            message = f"no symlink leads to {path}: nothing that happens in a directory reloads the code"
            yield node.place.warning("no-link", message, "write the path of the symlink, or of a file")


def _memory(root: Node, groups: Groups) -> Iterator[Problem]:
    """Whether the children of these groups together may use more memory than this machine has."""
    available = memory_limit()
    shares = {name: group.processes * group.max_memory for name, group in groups.items() if group.max_memory}
    total = sum(shares.values())
    if total > available:
        largest = max(shares, key=lambda name: shares[name])
        of = [groups[name] for name in shares]
        terms = " + ".join(f"{group.processes} × {written_size(group.max_memory or 0)}" for group in of)
        there = written_size(available >> 20 << 20)  # in whole MiB
        message = f"max_memory adds up to {written_size(total)} ({terms}), and this machine has {there}"
        yield place_of(root, "workers", largest, "max_memory").warning(
            "memory-above-host", message, "lower max_memory or processes"
        )


def _extras(root: Node) -> Iterator[Problem]:
    """
    What needs packages that are not installed here.

    It is a warning at `run`, too: the program that needs them says so and does not start, and jobs do not wait for it.
    """
    places = [("web", root.names()["web"])] if root.get("web") is not None else []
    places += [("outbox", place) for place in root.names("outboxes").values()]
    kinds = [sink.get("kind") for _, sink in root.entries("events", "sinks")]
    places += [(str(kind.value), kind.place) for kind in kinds if kind is not None]
    for extra, place in places:
        if missing := not_installed(extra):
            what = {"web": "the dashboard", "outbox": "an outbox"}.get(extra, f"a sink of the kind {extra}")
            message = f"{what} needs {', '.join(missing)}, which is not installed here"
            yield place.warning("missing-extra", message, f"pip install 'fusiond[{extra}]'")


def _holidays(root: Node, config: Config, severity: Severity) -> Iterator[Problem]:
    """Each calendar whose holidays are not known here: cron entries would not tick."""
    for name, calendar in config.calendars.items():
        try:
            _ = calendar.country and holidays_of(calendar.country, calendar.subdivision)
        except ValueError as error:
            place, (message, _, remedy) = root.nearest("calendars", name, "country"), str(error).partition("; ")
            if remedy:
                yield place.problem(severity, "missing-extra", f"calendars.{name}: {message}", remedy)
                continue
            from holidays import list_supported_countries

            parts = list_supported_countries().get(calendar.country or "")
            key = "country" if parts is None else "subdivision"
            remedy = (
                did_you_mean(calendar.subdivision or "", parts or ()) or "write a code of ISO 3166, such as DE and BY"
            )
            place = root.nearest("calendars", name, key)
            yield place.error("unknown-country", f"calendars.{name}.{key}: {error}", remedy)


def _paths(*nodes: Node | None) -> Iterator[tuple[Node, Path]]:
    """Each node that is a path, and the path from the directory of its file."""
    for node in nodes:
        if node is not None and isinstance(node.value, str):
            yield node, node.place.source.directory / node.value


def looked_up(look_up: Callable[[str], T], name: str) -> T | None:
    """What this machine knows under a name; None: nothing. `look_up`: raises KeyError where there is nothing."""
    try:
        return look_up(name)
    except KeyError:
        return None


def _mode(path: Path) -> int:
    """The file's mode bits; 0 if it cannot be read."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116 - as the rest of these
    except (OSError, ValueError):
        return 0


def _is_directory(path: str | Path) -> bool:
    # Path.is_dir() raises where a parent cannot be searched, or the name is too long.
    return os.path.isdir(path)  # noqa: PTH112


def _is_program(path: str) -> bool:
    return os.access(path, os.X_OK) and not _is_directory(path)


def _no_program(kind: str, path: str, remedy: str) -> tuple[str, str]:
    """Why there is no program at this path, and the remedy. `remedy`: of a path at which there is nothing."""
    if _is_directory(path):
        return f"{path} is a directory", remedy
    if os.access(path, os.F_OK):
        return f"{path} is not executable", f"chmod +x {shlex.quote(path)}, or {remedy}"
    return f"there is no {kind} {path}", remedy


def _unreadable(path: Path, read: Callable[[Path], object] | None) -> str | None:
    """Why the content of this file cannot be used; None: it can, or the file is gone since a moment ago."""
    try:
        if read is not None:
            read(path)
    except OSError as error:
        return error.strerror if error.errno == errno.EILSEQ else None
    return None


def _may_become_others() -> bool:
    """Whether this process is root, or has the capabilities of root that a group's user needs."""
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(effective.split()[1], 16) & _BECOMES == _BECOMES


# -- who could change the file ----------------------------------------------------------------------------------------


def check_owners(tree: Tree, *, to_run: bool) -> Iterator[Problem]:
    """Each file that somebody else can write."""
    user = os.geteuid()
    severity: Severity = "error" if to_run and user == 0 else "warning"
    for path, found in tree.stats.items():
        if reason := weakness(found.st_mode, found.st_uid, found.st_gid, user):
            yield Problem(str(path), 0, 0, severity, "unsafe-file", f"the file {reason}", _commands(path, found, user))


def weakness(mode: int, owner: int, group: int, user: int) -> str:
    """
    Why a file with this mode, owner and group is unsafe for a daemon of `user`; empty if it is safe.

    Root and the user may own it. Its group may write it if the group is root's or the user is not root.
    """
    if owner not in (0, user):
        return f"belongs to user {user_name(owner)}"
    if mode & stat.S_IWOTH:
        return "can be written by everyone"
    if mode & stat.S_IWGRP and group != 0 and user == 0:
        return "can be written by its group"
    return ""


def _commands(path: Path, found: os.stat_result, user: int) -> str:
    commands = []
    if found.st_uid not in (0, user):
        commands.append(f"chown {user_name(user)} {shlex.quote(str(path))}")
    if found.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        commands.append(f"chmod go-w {shlex.quote(str(path))}")
    return " && ".join(commands)
