"""
The application whose runs are counted: each leaves a line when it begins and one when it ends, whatever becomes of it.

A line is one write to a file that was opened to append, so that a kill cannot tear it.
"""

import asyncio
import os
import pathlib
import signal
import time

_LOG = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
_FLAWS = pathlib.Path(os.environ["RUNS"]).with_name("flaws")


def _parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])


# Imported by the fork server.
_SERVER, _DISPATCHER = os.getpid(), os.getppid()
_SUPERVISOR = _parent_of(_DISPATCHER)


class Flaw(Exception):
    """What the flawed task raises."""


def run(seconds, *, job):
    """Take so long."""
    _note("begin", job)
    time.sleep(seconds)
    _note("end", job)


def run_until(gate, *, job):
    """Take until the gate is a file."""
    _note("begin", job)
    while not pathlib.Path(gate).exists():
        time.sleep(0.02)
    _note("end", job)


async def run_awaiting(seconds, *, job):
    """Take so long, and let others run meanwhile."""
    _note("begin", job)
    await asyncio.sleep(seconds)
    _note("end", job)


def flawed(seconds, *, job):
    """Fail, but for a run after one that has failed; only an operator has it run again."""
    _note("begin", job)
    time.sleep(seconds)
    flaw = _FLAWS / job["id"]
    if flaw.exists():
        _note("end", job)
    else:
        _note("fail", job)
        flaw.touch()
        raise Flaw


def _note(what, job):
    chain = f"{os.getpid()} {_SERVER} {_DISPATCHER} {_SUPERVISOR}"
    os.write(_LOG, f"{what} {job['id']} {job['attempt']} {chain} {time.time():.6f}\n".encode())


def endure(seconds, *, job):
    """Take so long, whatever is raised meanwhile."""
    _note("begin", job)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            time.sleep(left)
        except BaseException:
            continue
    _note("end", job)


def kill_itself(seconds, *, job):
    """End by SIGKILL after so long."""
    _note("begin", job)
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)
