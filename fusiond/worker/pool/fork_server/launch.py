"""
Start a group's fork server, or a probe: with the group's user, interpreter and environment, and with our sources.

1. resolve  user, interpreter, directory, environment of the group
2. bundle   the source files and the set-up in a descriptor, since the group's user may not be allowed to read our files
3. start    privileges.py, which drops the daemon's privileges and becomes the interpreter

Knows the group and the file system. Loads no task code.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import json
import logging
import marshal
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from fusiond import hook
from fusiond.config import environment_files
from fusiond.config.model import Config, RetryPolicy, Task, WorkerGroup, callback_hosts, calls_urls, serves
from fusiond.config.release_marks import Marks, marks

_HERE = Path(__file__).parent
_RUNTIME = _HERE.parent.parent / "runtime"
#: the files of each program, each after those that it imports; the last one's main is run, or the hook's
FORK_SERVER = (
    "nesting",
    "wire",
    "errortext",
    "refusals",
    "task",
    "tasklog",
    "payload",
    "passed_job",
    "job_trace",
    "run",
    "child",
    "one_job_child",
    "child_start",
    "hugepages",
    "wrong_paths",
    "startup",
    "forkserver",
)
#: the same for a group with `executor: thread` or `asyncio`; those that load asyncio come before the last one
CONCURRENT = (*FORK_SERVER[:-1], "job_output", "job_threads", "loop_socket", "concurrent_child", FORK_SERVER[-1])
PROBE = ("wire", "errortext", "refusals", "task", "wrong_paths", "startup", "probe")
#: where a part lies that other packages use as well
_SHARED = {"nesting": _HERE.parent.parent.parent / "nesting.py"}

#: ld.so(8) looks up all symbols at the start; otherwise each child looks up those that it uses, at 0.04 ms a job
_LOADER = {"LD_BIND_NOW": "1"}
#: Runs in the group's interpreter. The package has a private name, so that our `task` shadows no module of the user's.
#: Compiled code is for one version of Python only; to compile it there takes 40 ms, and memory that each child copies.
_BOOT = """
import os, sys, types
if sys.version_info < (3, 9): sys.exit("fusiond needs Python 3.9 or later; this is " + sys.version.split()[0])
head = marshal.load(file)
for variable in head["ours"]: del os.environ[variable]
name = "_fusiond_worker"
package = sys.modules[name] = types.ModuleType(name)
package.__path__ = []
for _ in range(head["parts"]):
    part, path, source, code = marshal.load(file)
    module = sys.modules[name + "." + part] = types.ModuleType(name + "." + part)
    module.__package__, module.__file__ = name, path
    setattr(package, part, module)
    exec(marshal.loads(code) if head["python"] == sys.version else compile(source, path, "exec"), module.__dict__)
file.close()
del file, source, code
module.main(head["control"], head["setup"])
"""
_PYTHONPATH = "PYTHONPATH"
#: runs privileges.py, as the daemon found it when it started, and closes its descriptor
_AS_A_SCRIPT = "exec(compile(open({}).read(), 'privileges.py', 'exec'))"
#: of marshal's format: all versions of Python read it
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class LaunchedFrom:
    """What a fork server was started from, besides the configuration."""

    #: digest of the variables that the environment files gave it
    environment: str = ""
    #: what the paths of `reload_on` led to just before
    release: Marks = field(default_factory=dict)
    #: its directory and its interpreter, by paths without links to directories; None: the daemon's own interpreter
    directory: str = "/"
    python: str | None = None
    #: its PYTHONPATH, likewise; None: it has none
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
    group = _without_links(group, like)
    setup = _setup(config, group)
    if hook.path():
        setup["hook"] = hook.handed()
    sources = FORK_SERVER if group.executor == "sync" else CONCURRENT
    launched = start(group, sources, setup, webhooks(config, group))
    return replace(launched, origin=replace(launched.origin, release=release))


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
        bundle = _lend(lent, "bundle", *_bundle(handed, sources))
        asked = _lend(lent, "request", json.dumps(_request(group, bundle, variables)).encode())
        privileges = _lend(lent, "privileges", _privileges())
        process = subprocess.Popen(
            # It runs in the daemon's own environment: the group's may have LD_PRELOAD, say, which the loader would
            # obey as root until the user is changed.
            [sys.executable, "-I", "-S", "-c", _AS_A_SCRIPT.format(privileges), str(asked)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            cwd=os.path.realpath(group.directory),
            pass_fds=(theirs.fileno(), bundle, asked, privileges),
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


def _request(group: WorkerGroup, bundle: int, variables: dict[str, str]) -> dict[str, Any]:
    """What privileges.py is asked to become: the user, the program, its environment. Raises KeyError."""
    # Not the program itself: `ps` and `systemctl status` show the command line, of each child again.
    load = f"import marshal\nfile = open({bundle}, 'rb')\nexec(marshal.load(file))"
    words = [interpreter(group), "-c", load, f"fusion:{group.name}"]
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
    result = {"PATH": own.get("PATH", os.defpath), "HOME": home, "USER": name, "LOGNAME": name}
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
        variables["FUSION_WEBHOOK_SECRET"] = Path(config.webhooks.secret_file).read_text().strip()
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
    return [task.run, task.timeout.soft, *names, task.pass_job, task.result == "keep"]


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
        "preload": [name for name, task in config.tasks.items() if serves(group.queues, task.queue)],
        "table": table(config, group),
    }


def _bundle(handed: dict[str, Any], sources: tuple[str, ...]) -> list[bytes]:
    """What the interpreter is handed, as it reads it: _BOOT, what that needs to know, the parts."""
    parts = [_source(part, _SHARED.get(part, _RUNTIME / f"{part}.py")) for part in sources]
    if "hook" in handed["setup"]:
        parts.append(_source("hook", Path(hook.path() or "")))
    head = {**handed, "python": sys.version, "parts": len(parts)}
    return [marshal.dumps(_BOOT, _FORMAT), marshal.dumps(head, _FORMAT), *parts]


def load_sources() -> None:
    """Read the files of the fork server now; each start of one takes them from memory, whatever pip does to them."""
    _bundle({"setup": {}}, CONCURRENT)
    _privileges()


@cache
def _privileges() -> bytes:
    return (_HERE / "privileges.py").read_bytes()


@cache
def _source(part: str, path: Path) -> bytes:
    """A part's name, path, text and compiled code."""
    # The import system's own loader, so that code which it has compiled and cached is not compiled again.
    code = marshal.dumps(SourceFileLoader(part, str(path)).get_code(part))
    return marshal.dumps((part, str(path), path.read_text(), code), _FORMAT)


def memory_file(name: str, *content: bytes) -> int:
    """
    A descriptor of memory that holds the content, at its beginning, and whose size nobody can change.

    A process that reads a mapped file which was truncated is killed by SIGBUS. The seals prevent that.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.writelines(content)
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd
