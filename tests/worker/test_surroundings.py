"""What task code may change around it, and what it finds: signals, functions, processes of imports and jobs."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.running import alive, until
from tests.support.worker_program import STRICT

BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])

CODE = """
import ctypes, os, signal, subprocess, time
libc = ctypes.CDLL(None)
helpers = [subprocess.Popen(["sleep", "600"]), subprocess.Popen(["sleep", "600"], start_new_session=True)]

def helped():
    # one that has just been started may not sleep yet
    return [[helper.pid, open(f"/proc/{helper.pid}/stat").read().split()[2] in "SRD"] for helper in helpers]

def nap(ms):
    began = time.monotonic()
    libc.usleep(ms * 1000)
    return round((time.monotonic() - began) * 1000)

def nap_beside_a_program(ms):
    program = subprocess.Popen(["sleep", "0.02"])
    slept = nap(ms)
    return slept, program.wait()

def end(now):
    if now:
        os.kill(os.getpid(), signal.SIGKILL)

async def nap_awaiting(ms):
    return nap(ms)

def actions():
    found = [signal.getsignal(number) is signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)]
    return [*found, not signal.pthread_sigmask(signal.SIG_BLOCK, [])]

def share():
    from multiprocessing import shared_memory
    return shared_memory.SharedMemory(create=True, size=10).name
"""

REPLACED = """
import builtins, os, select, signal, time

def refused(*_args, **_keys):
    raise AssertionError("a function of the tasks' module is called")

def pid():
    return os.getpid()

names = {os: "fork waitpid waitid kill killpg read write close dup2 set_blocking getppid setpgid", time: "sleep",
         signal: "signal setitimer set_wakeup_fd", select: "select poll"}
for module, each in names.items():
    for name in each.split():
        setattr(module, name, refused)
import _signal
for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM):
    _signal.signal(number, _signal.SIG_IGN)
_signal.signal(signal.SIGPIPE, _signal.SIG_DFL)
_signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM})
"""

GREEN = """
import _thread
start = _thread.start_new_thread
def start_new_thread(*args):
    return start(*args)
_thread.start_new_thread = start_new_thread
def pid(): ...
"""


def _own(place, code, *names):
    (place.app / "own.py").write_text(code)
    return {f"own_{name}": {"run": f"own.{name}"} for name in names}


@BOTH
def test_a_program_that_an_import_has_started_lives_as_long_as_its_group(place, isolation):
    """Whatever children end; and no longer, in a session of its own neither."""
    program = place.start(isolation=isolation, max_jobs=1, tasks=_own(place, CODE, "helped"))
    found = [place.result(place.enqueue("own_helped")) for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert [lives for _, lives in found[0]] == [True, True]
    program.signal(signal.SIGTERM)
    program.wait()
    until(lambda: not any(alive(pid) for pid, _ in found[0]))


@BOTH
def test_nothing_interrupts_a_system_call_of_a_job(place, isolation):
    """Neither the outcomes of short jobs before it, nor the end of a program that it has started."""
    place.start(isolation=isolation, processes=1, tasks=_own(place, CODE, "nap", "nap_beside_a_program"))
    ids = place.enqueue_many([("own_nap", 200 if n % 30 == 29 else 0) for n in range(90)])
    slept = [place.result(id_) for id_ in ids]
    assert [each >= 200 for each in slept[29::30]] == [True] * 3
    slept, status = place.result(place.enqueue("own_nap_beside_a_program", 200))
    assert slept >= 200
    assert status == 0


def test_outcomes_of_short_jobs_outlive_the_next_one(place):
    """It ends their child before they were sent: the dispatcher finds them on the page, and no job runs twice."""
    place.start(processes=1, policies={"single": STRICT}, tasks=_own(place, CODE, "end"))
    for _ in range(2):
        place.result(place.enqueue("own_end", False))
    *short, last = place.enqueue_many([("own_end", n == 39) for n in range(40)])
    assert place.until(last).status == "failed"
    assert {place.until(id_).attempts for id_ in short} == {1}


def test_nothing_interrupts_a_coroutine_that_keeps_the_event_loop(place):
    """It is named as the one that keeps the others from running, and its system call goes on."""
    place.start(executor="asyncio", concurrency=2, tasks=_own(place, CODE, "nap_awaiting"))
    assert place.result(place.enqueue("own_nap_awaiting", 1500)) >= 1500


@BOTH
def test_children_have_the_default_actions(place, isolation):
    """Of SIGTERM, SIGINT and SIGCHLD, and none is blocked, so that what a job forks ends as in plain Python."""
    place.start(isolation=isolation, tasks=_own(place, CODE, "actions"))
    assert place.result(place.enqueue("own_actions")) == [True] * 4


def test_a_job_s_resource_tracker_removes_its_shared_memory(place):
    """Which the job has left behind, as a program would."""
    place.start(isolation="fork", tasks=_own(place, CODE, "share"))
    names = [place.result(id_) for id_ in place.enqueue_many([("own_share",)] * 5)]
    until(lambda: not any(Path(f"/dev/shm/{name}").exists() for name in names))


@BOTH
def test_a_module_may_replace_what_the_fork_server_calls(place, isolation):
    """And block or ignore its signals: children are forked, run and are reaped, and the group ends when it is told."""
    program = place.start(isolation=isolation, max_jobs=1, tasks=_own(place, REPLACED, "pid"))
    pids = [place.result(place.enqueue("own_pid")) for _ in range(5)]
    assert len(set(pids)) == 5
    until(lambda: not any(alive(pid) for pid in pids))
    program.signal(signal.SIGTERM)
    program.wait()


def test_a_group_of_threads_is_not_ready_where_a_module_has_replaced_these(place):
    """As gevent and eventlet do; the reason names who it was, and what to write."""
    program = place.start(
        executor="thread", concurrency=2, link=True, ready=False, tasks=_own(place, GREEN, "pid"), change=_only_own
    )
    reason = program.heard("unloaded")["reason"]
    assert "own has replaced _thread.start_new_thread" in reason
    assert "write `executor: sync`" in reason


def _only_own(config):
    return replace(config, tasks={name: task for name, task in config.tasks.items() if name.startswith("own_")})
