"""
The programs that run in a group's interpreter, as they are handed to it: the source files and the set-up, in one file.

That file is in memory, since the group's user may not be allowed to read our files, and since an upgrade of the
package may change the files while the daemon runs.
"""

from __future__ import annotations

import marshal
import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from fusiond import hook

_HERE = Path(__file__).parent
_PACKAGE = _HERE.parents[2]
_RUNTIME = _PACKAGE / "worker" / "runtime"
#: the files of each program, each after those that it imports; the last one's main is run, or the hook's
FORK_SERVER = (
    "json_depth",
    "wire",
    "usage",
    "task_errors",
    "errortext",
    "refusals",
    "task",
    "tasklog",
    "payload",
    "passed_job",
    "job_trace",
    "command",
    "run",
    "child",
    "one_job_child",
    "child_start",
    "hugepages",
    "wrong_paths",
    "startup",
    "load_warnings",
    "leftovers",
    "forkserver",
)
#: the same for a group with `executor: thread` or `asyncio`; those that load asyncio come before the last one
CONCURRENT = (*FORK_SERVER[:-1], "job_output", "job_threads", "loop_socket", "concurrent_child", FORK_SERVER[-1])
PROBE = ("wire", "errortext", "refusals", "task_errors", "task", "wrong_paths", "startup", "probe")
#: where a part lies that other packages use as well
_SHARED = {"json_depth": _PACKAGE / "json_depth.py"}

#: Runs in the group's interpreter. The package has a private name, so that our `task` shadows no module of the user's.
#: Compiled code is for one version of Python only; to compile it there takes 40 ms, and memory that each child copies.
_BOOT = """
import os, sys, types
if sys.version_info < (3, 9): sys.exit("fusiond needs Python 3.9 or later; this is " + sys.version.split()[0])
head = marshal.load(file)
for variable in head["ours"]: del os.environ[variable]
sys.path[:] = filter(None, sys.path)  # until the tasks are loaded, not the group's directory: it may have a queue.py
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
#: what the group's interpreter runs, with the descriptor of the program. `ps` and `systemctl status` show this command
#: line, of each child again, so it is short
LOAD = "import marshal\nfile = open({}, 'rb')\nexec(marshal.load(file))"
#: of marshal's format: all versions of Python read it
_FORMAT = 2


def bundle(handed: dict[str, Any], sources: tuple[str, ...]) -> list[bytes]:
    """
    The pieces of such a file, which LOAD runs.

    Args:
        handed: `control`, a descriptor, and `setup`, JSON, with which its main is called; `ours`, the variables that
            are deleted from its environment first.
        sources: FORK_SERVER, CONCURRENT or PROBE.
    """
    parts = [_source(part, _SHARED.get(part, _RUNTIME / f"{part}.py")) for part in sources]
    if "hook" in handed["setup"]:
        parts.append(_source("hook", Path(hook.path() or "")))
    head = {**handed, "python": sys.version, "parts": len(parts)}
    return [marshal.dumps(_BOOT, _FORMAT), marshal.dumps(head, _FORMAT), *parts]


def load_sources() -> None:
    """Read the files of all programs now; each start of one takes them from memory, whatever pip does to them."""
    bundle({"setup": {}}, CONCURRENT)
    privileges()


@cache
def privileges() -> bytes:
    """The source of privileges.py, which the daemon's own interpreter runs before the group's."""
    return (_HERE / "privileges.py").read_bytes()


@cache
def _source(part: str, path: Path) -> bytes:
    """A part's name, path, text and compiled code."""
    # The import system's own loader, so that code which it has compiled and cached is not compiled again.
    code = marshal.dumps(SourceFileLoader(part, str(path)).get_code(part))
    return marshal.dumps((part, str(path), path.read_text(), code), _FORMAT)
