"""
Give up the daemon's privileges, check that they are gone, and become the group's interpreter.

    python -I -S privileges.py DESCRIPTOR      of {"uid": …, "gid": …, "groups": […], "argv": […], "environment": {…}}

1. drop     supplementary groups, gid, uid; capabilities: ambient, permitted, effective, inheritable
2. lock     no_new_privs, so that no set-uid program gives any of them back
3. check    what the kernel shows in /proc/self/status
4. bind     end with the parent process, and inherit orphans
5. exec     the interpreter, which loads task code, in the group's environment

Without a uid the process keeps its user: a root daemon's group without `user` stays root, capabilities included.
Run as a script, from memory, before anything of the application's is loaded. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

# From <linux/prctl.h> and <linux/capability.h>.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITY_VERSION_3 = 0x20080522
#: exit status of a shell that could not start a program
EXIT_CANNOT_EXECUTE = 126

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> None:
    """Never returns: becomes `argv`, or exits with one sentence."""
    with open(int(arguments[0]), "rb") as file:  # noqa: PTH123
        request = json.load(file)
    try:
        drop(request)
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        # After the uid: setresuid clears it. The fork server ignores it once it can notice by itself.
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        os.execvpe(request["argv"][0], request["argv"], request["environment"])
    except (OSError, ValueError) as error:  # ValueError: a NUL in the environment
        program, remedy = request["argv"][0], ""
        if isinstance(error, PermissionError) and request["uid"] is not None:
            remedy = _remedy(program, request["environment"].get("USER", request["uid"]))
        print(f"{program}: {getattr(error, 'strerror', None) or error}{remedy}", file=sys.stderr)
        sys.exit(EXIT_CANNOT_EXECUTE)


def _remedy(program: str, user: str) -> str:
    """What to do about an interpreter that the user may not run: often it lies below root's home."""
    names = program.split("/")
    above = ("/".join(names[:end]) or "/" for end in range(1, len(names)))
    closed = next((directory for directory in above if not os.access(directory, os.X_OK)), None)
    why = f"user {user} may not enter {closed}" if closed else f"user {user} may not run it"
    return f"; {why}: change its mode, or set `python` to an interpreter that the user may run"


def drop(request: dict[str, Any]) -> None:
    """Become the request's user and keep no privileges. Raises OSError, also if the check finds that some are left."""
    uid, gid = request["uid"], request["gid"]
    if uid is None and os.geteuid() == 0:
        return
    if uid is not None and (os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3):
        os.setgroups(request["groups"])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if os.geteuid() != 0:
        _drop_capabilities()
        _prctl(PR_SET_NO_NEW_PRIVS, 1)
        _check(uid)


def _drop_capabilities() -> None:
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _libc.capset(header, nothing):
        raise OSError(ctypes.get_errno(), "cannot give up capabilities")


def _check(uid: int | None) -> None:
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)  # noqa: PTH123, SIM115
    left = [name for name in ("CapInh", "CapPrm", "CapEff", "CapAmb") if int(status[name], 16)]
    if left or status["NoNewPrivs"] != "1" or (uid is not None and set(status["Uid"].split()) != {str(uid)}):
        raise OSError(1, f"privileges are left: {', '.join(left) or 'uid or no_new_privs'}")


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])
