"""
Start a group's fork server, or a probe: with the group's user, interpreter and environment, and with our sources.

1. resolve  user, interpreter, directory, environment of the group
2. lend     descriptors: of the control socket, and of the program's text (bundle.py)
3. start    privileges.py, which drops the daemon's privileges and becomes the interpreter

Knows the group and the file system. Loads no task code.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import logging
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fusiond import hook
from fusiond.config import environment_files
from fusiond.config.model import Config, RetryPolicy, Task, WorkerGroup, callback_hosts, calls_urls, serves
from fusiond.config.release_marks import Marks, marks, release_name
from fusiond.files import read_secret
from fusiond.worker.pool.fork_server.bundle import CONCURRENT, FORK_SERVER, LOAD, bundle, privileges
from fusiond.worker.pool.memory_file import memory_file

#: ld.so(8) looks up all symbols at the start; otherwise each child looks up those that it uses, at 0.04 ms a job
_LOADER = {"LD_BIND_NOW": "1"}
_PYTHONPATH = "PYTHONPATH"
#: runs privileges.py, as the daemon found it when it started, and closes its descriptor
_AS_A_SCRIPT = "exec(compile(open({}).read(), 'privileges.py', 'exec'))"


@dataclass(frozen=True, slots=True)
class LaunchedFrom:
    """What a fork server was started from, besides the configuration."""

    #: digest of the variables that the environment files gave it
    environment: str = ""
    #: what the paths of `reload_on` led to just before
    release: Marks = field(default_factory=dict)
    #: of that release, for people; empty: neither `reload_on` nor a link to the directory tells it
    name: str = ""
    #: its directory and its interpreter, by paths without links to directories; None: the daemon's own interpreter
    directory: str = "/"
    python: str | None = None
    #: its PYTHONPATH, by paths without links to directories; None: it has none
    python_path: str | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """A fork server that was started; it is ready when it says so on `control`."""

    process: subprocess.Popen[bytes]
    #: SOCK_SEQPACKET, not blocking
    control: socket.socket
    #: read end of the pipe to which the server and the imports print, not blocking
    output: int
    origin: LaunchedFrom


def launch(config: Config, group: WorkerGroup, like: LaunchedFrom | None = None) -> Launched:
    """
    Start the fork server of a group.

    Args:
        config: has its tasks.
        group: says who, where and what.
        like: start it from the same release again, if that is still there; None: from the one that links lead to now.

    Raises:
        OSError, LookupError: as `start`.
    """
    like = like if like and Path(like.directory).is_dir() else None
    # Before the directory is resolved: a link that is switched in between is noticed later.
    release = like.release if like else marks(group.reload_on)
    name = release_name(group.directory, release) if not like else like.name
    group = _without_links(group, like)
    setup = _setup(config, group)
    if hook.path():
        setup["hook"] = hook.handed()
    sources = FORK_SERVER if group.executor == "sync" else CONCURRENT
    launched = start(group, sources, setup, webhooks(config, group))
    return replace(launched, origin=replace(launched.origin, release=release, name=name))


def _without_links(group: WorkerGroup, like: LaunchedFrom | None) -> WorkerGroup:
    """The group with the directory, interpreter and PYTHONPATH of an earlier start, or those that links lead to now."""
    if like:
        path = {} if like.python_path is None else {_PYTHONPATH: like.python_path}
        return replace(group, directory=like.directory, python=like.python, environment={**group.environment, **path})
    return replace(group, directory=os.path.realpath(group.directory), python=group.python and interpreter(group))


def start(
    group: WorkerGroup, sources: tuple[str, ...], setup: dict[str, Any], more: Mapping[str, str] | None = None
) -> Launched:
    """
    Start a program as the group's user, in its directory, under its interpreter, with its environment.

    Args:
        group: says who, where and what.
        sources: FORK_SERVER or PROBE; their main is called with the control socket's descriptor and `setup`.
        setup: JSON.
        more: variables of the environment, besides those of the group.

    Raises:
        OSError: the interpreter, the directory or an environment file cannot be used.
        LookupError: there is no such user.
    """
    files = environment_files.read(group.environment_file)
    variables = environment(group, os.environ, files) | dict(more or {})
    if path := variables.get(_PYTHONPATH):
        entries = (os.path.realpath(Path(group.directory, entry)) for entry in path.split(os.pathsep))
        variables[_PYTHONPATH] = os.pathsep.join(entries)
    with contextlib.ExitStack() as lent, contextlib.ExitStack() as kept:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept.callback(ours.close)
        lent.callback(theirs.close)
        output, printed = os.pipe()
        kept.callback(os.close, output)
        lent.callback(os.close, printed)
        handed = {"control": theirs.fileno(), "ours": sorted(_LOADER.keys() - variables.keys()), "setup": setup}
        program = _lend(lent, "program", *bundle(handed, sources))
        asked = _lend(lent, "request", json.dumps(_request(group, program, variables)).encode())
        first = _lend(lent, "privileges", privileges())
        process = subprocess.Popen(
            # It runs in the daemon's own environment: the group's may have LD_PRELOAD, say, which the loader would
            # obey as root until the user is changed.
            [sys.executable, "-I", "-S", "-c", _AS_A_SCRIPT.format(first), str(asked)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            cwd=os.path.realpath(group.directory),
            pass_fds=(theirs.fileno(), program, asked, first),
            start_new_session=True,
        )
        kept.pop_all()
    ours.setblocking(False)
    os.set_blocking(output, False)
    digest, path = environment_files.digest(files), variables.get(_PYTHONPATH)
    origin = LaunchedFrom(digest, directory=group.directory, python=group.python, python_path=path)
    return Launched(process, ours, output, origin)


def _lend(stack: contextlib.ExitStack, name: str, *content: bytes) -> int:
    """A descriptor of memory that holds the content, until the stack is unwound."""
    fd = memory_file(f"fusiond-{name}", *content)
    stack.callback(os.close, fd)
    return fd


def _request(group: WorkerGroup, program: int, variables: dict[str, str]) -> dict[str, Any]:
    """What privileges.py is asked to become: the user, the program, its environment. Raises KeyError."""
    words = [interpreter(group), "-c", LOAD.format(program), f"fusion:{group.name}"]
    return {**_identity(group.user), "argv": words, "environment": {**_LOADER, **variables}}


def interpreter(group: WorkerGroup) -> str:
    """
    The group's interpreter, by a path without links to directories.

    A link such as `current`, which leads to a release, may be changed while children run; they keep their packages. The
    interpreter's own link is not resolved: Python finds its virtual environment by it.
    """
    if group.python is None:
        return sys.executable
    directory, name = os.path.split(group.python)
    return str(Path(os.path.realpath(directory)) / name)


def environment(group: WorkerGroup, own: Mapping[str, str], files: dict[str, str] | None = None) -> dict[str, str]:
    """
    The environment of children: PATH, LANG, TZ, HOME, USER, what the group passes on, its files, its own variables.

    Args:
        group: names the user, the files, the variables.
        own: the daemon's environment.
        files: the variables of the group's environment files; None: they are read.

    Raises:
        OSError: an environment file cannot be read, or is not UTF-8.
    """
    name, home = _account(group, own)
    path = own.get("PATH", os.defpath)
    programs = Path(interpreter(group)).parent
    if group.python and (programs.parent / "pyvenv.cfg").exists():
        path = f"{programs}{os.pathsep}{path}"  # as in a virtual environment that a shell has activated
    result = {"PATH": path, "HOME": home, "USER": name, "LOGNAME": name}
    result |= {name: own[name] for name in ("LANG", "LC_ALL", "TZ") if name in own}
    passed = (name for pattern in group.pass_environment for name in fnmatch.filter(own, pattern))
    result |= {name: own[name] for name in passed}
    if files is None:
        files = environment_files.read(group.environment_file)
    return result | files | dict(group.environment)


def webhooks(config: Config, group: WorkerGroup) -> dict[str, str]:
    """What the webhooks of callbacks need in a group that calls them: the secret, and the hosts that the file names."""
    if not calls_urls(config, group):
        return {}
    variables = {"FUSION_WEBHOOK_CALLBACKS": ",".join(sorted(callback_hosts(config)))}
    if config.webhooks.secret_file:
        variables["FUSION_WEBHOOK_SECRET"] = read_secret(config.webhooks.secret_file)
    return variables


def _account(group: WorkerGroup, own: Mapping[str, str]) -> tuple[str, str]:
    """Name and home of the children's user; in a container its number may have no name. Raises KeyError."""
    try:
        user = pwd.getpwnam(group.user) if group.user else pwd.getpwuid(os.geteuid())
    except KeyError:
        if group.user:
            raise
        return str(os.geteuid()), own.get("HOME", "/")
    return user.pw_name, user.pw_dir


def table(config: Config, group: WorkerGroup) -> dict[str, Any]:
    """
    What a child must know of the file: the row of `task.TaskRow` for each task, when the child is replaced, and the
    exceptions of the retry policies, which a call may name.
    """
    rows = {name: _row(config, task) for name, task in config.tasks.items()}
    policies = {name: _names(policy) for name, policy in config.retry_policies.items()}
    level = logging.getLevelNamesMapping()[config.logging.level.upper()]
    limits = {"max_jobs": group.max_jobs, "max_memory": group.max_memory}
    return {"tasks": rows, "policies": policies, **limits, "level": level}


def _row(config: Config, task: Task) -> list[Any]:
    names = _names(config.retry_policies[task.retry])
    return [task.code, task.timeout.soft, *names, task.job_keyword, task.result != "ignore"]


def _names(policy: RetryPolicy) -> list[list[str]]:
    return [list(policy.retry_on), list(policy.give_up_on), list(policy.snooze_on)]


def _identity(name: str | None) -> dict[str, Any]:
    """uid, gid and groups of a user; all None for the daemon's own. Raises KeyError."""
    if name is None:
        return {"uid": None, "gid": None, "groups": None}
    user = pwd.getpwnam(name)
    return {"uid": user.pw_uid, "gid": user.pw_gid, "groups": os.getgrouplist(name, user.pw_gid)}


def _setup(config: Config, group: WorkerGroup) -> dict[str, Any]:
    """What the fork server is told."""
    return {
        "group": group.name,
        "directory": os.path.realpath(group.directory),
        "umask": group.umask,
        "one_job": group.isolation == "fork",
        "executor": group.executor,
        "concurrency": group.concurrency,
        "on_start": group.on_start,
        "nice": group.nice,
        "slot_variable": group.slot_variable,
        "preload": [name for name, task in config.tasks.items() if serves(group.queues, task.queue)],
        "table": table(config, group),
    }
