"""
Start a group's fork server, or a probe in its place: the right user, interpreter, environment and sources.

1. resolve  user, interpreter, directory, environment of the group
2. bundle   the source files and the set-up in a descriptor, since the group's user may not read ours
3. start    privileges.py, which drops what the daemon may do and becomes the interpreter

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
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusiond import hook
from fusiond.config import environment_files
from fusiond.config.model import serves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fusiond.config.model import Config, Task, WorkerGroup

_HERE = Path(__file__).parent
_PACKAGE = _HERE.parent.parent
#: the files of each program in the order in which they import one another; the last one's main is run, or a hook's
FORK_SERVER = (
    "nesting",
    "wire",
    "errortext",
    "refusals",
    "task",
    "tasklog",
    "payload",
    "run",
    "child",
    "one_job_child",
    "startup",
    "forkserver",
)
PROBE = ("errortext", "refusals", "task", "probe")
#: the parts that other rooms use as well; they lie beside the rooms
_SHARED = {"nesting"}

#: ld.so(8): symbols are looked up at the start. Looked up when first used they are in each child anew: 0.04 ms a job.
_LOADER = {"LD_BIND_NOW": "1"}
# Runs in the group's interpreter. A package of a private name, so that our `task` shadows no module of the user's.
#: Compiled code is for one version of Python only. Compiling it there takes 40 ms, and memory that each child copies.
_BOOT = """
import json, marshal, os, sys, types
if sys.version_info < (3, 9): sys.exit("fusiond needs Python 3.9 or later; this is " + sys.version.split()[0])
for variable in {ours}: del os.environ[variable]
with open({bundle}, "rb") as file: bundle = json.load(file)
name = "_fusiond_worker"
package = sys.modules[name] = types.ModuleType(name)
package.__path__ = []
for part, path, source, code in bundle["sources"]:
    module = sys.modules[name + "." + part] = types.ModuleType(name + "." + part)
    module.__package__, module.__file__ = name, path
    setattr(package, part, module)
    same = bundle["python"] == sys.version
    exec(marshal.loads(code.encode("latin-1")) if same else compile(source, path, "exec"), module.__dict__)
module.main({control}, bundle["setup"])
"""


@dataclass(frozen=True, slots=True)
class Launched:
    """A fork server that was started; it is ready when it says so on `control`."""

    process: subprocess.Popen[bytes]
    #: SOCK_SEQPACKET, not blocking
    control: socket.socket
    #: read end of what the server and the imports print, not blocking
    output: int
    #: digest of the variables that it got from environment files
    environment: str


def launch(config: Config, group: WorkerGroup) -> Launched:
    """Start the fork server of a group. Raises as `start`."""
    setup = _setup(config, group)
    if hook.path():
        setup["hook"] = hook.handed()
    return start(group, FORK_SERVER, setup)


def start(group: WorkerGroup, sources: tuple[str, ...], setup: dict[str, Any]) -> Launched:
    """
    Start a program as the group's user, in its directory, under its interpreter, with its environment.

    Args:
        group: says who, where and what.
        sources: FORK_SERVER or PROBE; their main is called with the control socket's descriptor and `setup`.
        setup: JSON.

    Raises:
        OSError: the interpreter, the directory or an environment file cannot be used.
        LookupError: there is no such user.
    """
    files = environment_files.read(group.environment_file)
    identity, variables = _identity(group.user), environment(group, os.environ, files)
    with contextlib.ExitStack() as lent, contextlib.ExitStack() as kept:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept.callback(ours.close)
        lent.callback(theirs.close)
        output, printed = os.pipe()
        kept.callback(os.close, output)
        lent.callback(os.close, printed)
        bundle = _lend(lent, "bundle", _bundle(sources, setup))
        text = _BOOT.format(bundle=bundle, control=theirs.fileno(), ours=sorted(_LOADER.keys() - variables.keys()))
        boot = _lend(lent, "boot", text)
        # Not the text itself: `ps` and `systemctl status` show the command line, of each child again.
        load = f"with open({boot}) as file: text = file.read()\nexec(text)"
        words = [interpreter(group), "-c", load, f"fusion:{group.name}"]
        request = {**identity, "argv": words, "environment": {**_LOADER, **variables}}
        asked = _lend(lent, "request", json.dumps(request))
        process = subprocess.Popen(
            # It runs in the daemon's own environment: the loader obeys what the group's may say, LD_PRELOAD for one,
            # and until the user is changed that would be obeyed as root.
            [sys.executable, "-I", "-S", str(_HERE / "privileges.py"), str(asked)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            cwd=os.path.realpath(group.directory),
            pass_fds=(theirs.fileno(), bundle, boot, asked),
            start_new_session=True,
        )
        kept.pop_all()
    ours.setblocking(False)
    os.set_blocking(output, False)
    return Launched(process, ours, output, environment_files.digest(files))


def _lend(stack: contextlib.ExitStack, name: str, text: str) -> int:
    """A descriptor of the text, until the stack is unwound."""
    fd = memory_file(f"fusiond-{name}", text.encode())
    stack.callback(os.close, fd)
    return fd


def interpreter(group: WorkerGroup) -> str:
    """
    The group's interpreter, where a release's link, `current`, leads now: what runs keeps its packages when that moves.

    Its own link, and the name, are what a virtual environment is known by, and stay.
    """
    if group.python is None:
        return sys.executable
    directory, name = os.path.split(group.python)
    return str(Path(os.path.realpath(directory)) / name)


def environment(group: WorkerGroup, own: Mapping[str, str], files: dict[str, str] | None = None) -> dict[str, str]:
    """
    What children get: PATH, LANG, TZ, HOME, USER, what the group passes on, its files, its own variables.

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


def _account(group: WorkerGroup, own: Mapping[str, str]) -> tuple[str, str]:
    """Name and home of who children run as; in a container that may be a number that no user has. Raises KeyError."""
    try:
        user = pwd.getpwnam(group.user) if group.user else pwd.getpwuid(os.geteuid())
    except KeyError:
        if group.user:
            raise
        return str(os.geteuid()), own.get("HOME", "/")
    return user.pw_name, user.pw_dir


def table(config: Config, group: WorkerGroup) -> dict[str, Any]:
    """What a child must know of the file: `tasks`, task → the row of `task.TaskRow`, and when it has done its share."""
    rows = {name: _row(config, task) for name, task in config.tasks.items()}
    level = logging.getLevelNamesMapping()[config.logging.level.upper()]
    return {"tasks": rows, "max_jobs": group.max_jobs, "max_memory": group.max_memory, "level": level}


def _row(config: Config, task: Task) -> list[Any]:
    policy = config.retry_policies[task.retry]
    names = list(policy.retry_on), list(policy.give_up_on)
    return [task.run, task.timeout.soft, *names, task.pass_job, task.result == "keep"]


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
        "preload": [name for name, task in config.tasks.items() if serves(group.queues, task.queue)],
        "table": table(config, group),
    }


def _bundle(sources: tuple[str, ...], setup: dict[str, Any]) -> str:
    """Sources and set-up."""
    parts = [_source(module_of(part)) for part in sources]
    if "hook" in setup:
        parts.append(_source("hook", hook.path()))
    return json.dumps({"python": sys.version, "sources": parts, "setup": setup})


def module_of(part: str) -> str:
    """The module that a part of a bundle is here."""
    return f"fusiond.{part}" if part in _SHARED else f"fusiond.worker.runtime.{part}"


@cache
def _source(module: str, path: str | None = None) -> tuple[str, str, str, str]:
    """A module's own name, path, text and compiled code; of the last each byte is a character, for JSON."""
    in_package = _PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    loader = SourceFileLoader(module, path or str(in_package))
    # As the import system compiles it, so that what it has kept in a file serves here as well.
    code = marshal.dumps(loader.get_code(module)).decode("latin-1")
    return module.rpartition(".")[2], loader.path, Path(loader.path).read_text(), code


def memory_file(name: str, content: bytes) -> int:
    """
    A descriptor of memory that holds the content, at its beginning, and whose size nobody can change.

    A process that has a truncated file mapped is killed by SIGBUS when it reads there, so what is shared is sealed.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd
