"""
What the file as it is now would do with the load of the last hours, beside what runs.

1. make      the load of the hourly counters, without tasks that the file of this host does not have
2. simulate  it with `fusiond simulate`, in a process of its own, since that replaces the clock of its scripts. One runs
             at a time, for PATIENCE seconds at most. It ends with its request, and with this program
3. show      the result, or why there is none
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, Final

from fusiond.inspecting.coarse_load import COARSE, coarse_load
from fusiond.inspecting.statistics import HOUR, hours_between
from fusiond.simulation.result_tables import NOT_SIMULATED
from fusiond.web.backend import Backend
from fusiond.web.endpoint import WebCall, reads
from fusiond.web.inputs import Input

#: seconds that a simulation may take, and its end once it is interrupted
PATIENCE, _LEAVE = 60.0, 5.0
#: The command; the kernel interrupts it when this program ends. Jobs have the CPU first.
_COMMAND: Final = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 2, 0, 0, 0)
os.getppid() == int(sys.argv.pop(1)) or sys.exit()
os.nice(10)
from fusiond.cli import main
sys.exit(main())
"""
_INPUTS = (
    Input("hours", "the load of the last so many hours", form="number", default=1, least=1, most=24),
    Input("later", "answer at once, without the simulation", form="switch"),
)


@dataclass(frozen=True, slots=True)
class SimulatedPlan:
    """What a reload would change for the jobs of the last hours."""

    hours: int
    #: why there is no result; empty: there is one
    reason: str = ""
    #: what must be known to read the result
    notes: list[str] = field(default_factory=list)
    #: as `fusiond simulate --json` prints it: `after`, of the file, and `before`, of what runs
    result: dict[str, Any] = field(default_factory=dict)
    #: it was not asked for yet
    later: bool = False


async def _show(call: WebCall) -> SimulatedPlan:
    hours = call["hours"]
    if call["later"]:
        return SimulatedPlan(hours, later=True)
    try:
        async with asyncio.timeout(PATIENCE):
            return await call.while_asked(_simulate(call.backend, hours))
    except TimeoutError:
        record = f"fusiond record --from counters --since {hours}h -o load.jsonl"
        simulate = f"fusiond simulate {shlex.quote(call.backend.source)} --load load.jsonl"
        return SimulatedPlan(hours, f"it takes more than {PATIENCE:g} s here; in a shell: {record} && {simulate}")


async def _simulate(backend: Backend, hours: int) -> SimulatedPlan:
    """Raises BrokerError."""
    now, tasks = time.time(), backend.config.tasks.values()
    counted = await backend.run(backend.verbs.hours(await backend.queues(), hours_between(now - hours * HOUR, now)))
    known = {name for task in tasks for name in (task.name, *task.aliases)}
    lines = list(coarse_load(counted, now))
    others = sorted({line["task"] for line in lines[1:]} - known)
    lines = [line for line in lines if line.get("task") not in others]
    if len(lines) < 2:
        return SimulatedPlan(hours, f"no job of this file's tasks has ended in the last {hours} h; take more hours")
    hosts = sorted({each.name.rpartition(".")[0] for each in await backend.workers() if not each.is_gone})
    words = ["--hosts", ",".join(f"{host}=1" for host in hosts)] if hosts else []
    if (daemon := await backend.status()) and daemon["development"]:
        words.append("--dev")
    with tempfile.TemporaryFile() as load:
        load.write("\n".join(map(json.dumps, lines)).encode())
        load.flush()
        async with backend.simulates:
            status, printed, told = await _run(load, [backend.source, "--clock", lines[0]["began"], *words])
    if status:  # of a file with problems only the first line, since the plan shows them
        said = told.rpartition("fusiond: ")[2].partition("\n")[0]
        return SimulatedPlan(hours, said or f"the simulation ended with status {status}")
    result = json.loads(printed)
    notes = [NOT_SIMULATED, COARSE, *result["after"]["notes"]]
    if others:
        notes.append(f"left out, as this host's file does not have the task: {', '.join(others)}")
    return SimulatedPlan(hours, notes=notes, result=result)


async def _run(load: IO[bytes], words: Sequence[str]) -> tuple[int | None, bytes, str]:
    """Simulate: the exit status, what was printed, and what was told on standard error."""
    command = [sys.executable, "-P", "-c", _COMMAND, str(os.getpid()), "simulate", "--json", "--load", "/dev/stdin"]
    process = await asyncio.create_subprocess_exec(*command, *words, stdin=load, stdout=PIPE, stderr=PIPE)
    try:
        printed, told = await process.communicate()
        return process.returncode, printed, told.decode(errors="replace")
    finally:
        if process.returncode is None:
            await _interrupt(process)


async def _interrupt(process: asyncio.subprocess.Process) -> None:
    """End it as Ctrl-C does, so that it removes its files."""
    process.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(_LEAVE):
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()


_SUMMARY: Final = "What a reload would change for the jobs of the last hours"
_reads = partial(reads, right="configuration", everywhere=True)
ENDPOINTS = (_reads("/configuration/simulation", _show, _SUMMARY, SimulatedPlan, "simulation.html", _INPUTS),)
