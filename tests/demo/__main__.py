"""
The tour, in seven acts; each act shows a thing, and checks that it happened as it says.

Its exit status is 0 only if everything did.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, span
from tests.demo.stage import DidNotHappenError, Stage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JOBS = 3000
#: seconds that a reader is given before each act
TO_READ = 2.0
PRIORITIES = ("high", "moderate", "low")


def main() -> int:
    """Play all acts; 0: all went as said, 1: something did not, 130: the reader had enough."""
    begun = time.monotonic()
    try:
        with Stage() as stage:
            try:
                summary = [row for act in ACTS for row in act(stage)]
            except DidNotHappenError as error:
                print(f"\n{paint('The tour stops here.', 'red')} {error}\n\nThe end of the daemon's log:")
                print("\n".join(stage.log.read_text(errors="replace").splitlines()[-20:]))
                return 1
    except KeyboardInterrupt:
        print("\nStopped; everything is cleared.")
        return 130
    print(f"\n{table(['WHAT', 'HAPPENED'], summary)}\n\nin {span(time.monotonic() - begun)}; everything is cleared.")
    for what in stage.broken:
        print(paint(f"not so: {what}", "red"))
    return 1 if stage.broken else 0


def act(title: str, text: str) -> None:
    """A heading, and what is about to be seen."""
    print(f"\n{paint(title, 'bold')}\n{text}\n", flush=True)
    if sys.stdout.isatty():
        time.sleep(TO_READ)


def start(stage: Stage) -> list[tuple[str, str]]:
    """A daemon from nothing."""
    act("1 · A file goes in", f"The file, with the code of its tasks beside it, in {stage.place}:")
    print("\n".join(f"    {line}" for line in stage.file.read_text().splitlines()))
    print(f"\n{paint('$ fusiond run', 'bold')}")
    begun = time.monotonic()
    stage.start()
    stage.until("the daemon is ready", lambda: ready(stage.ask("status")))
    stage.say("status")
    stage.check("the daemon, its own Redis and two worker groups run", holds=stage.alive())
    return [("started", f"daemon, Redis and workers, in {span(time.monotonic() - begun)}")]


def ready(status: dict[str, Any] | None) -> bool:
    """Whether each program of the daemon is ready."""
    daemon = (status or {}).get("daemon") or {}
    programs = daemon.get("programs") or []
    return bool(programs) and all(program.get("ready", True) for program in programs)


def priorities(stage: Stage) -> list[tuple[str, str]]:
    """Thousands of jobs, the urgent first."""
    act(
        "2 · Jobs run, the urgent first",
        "The queue is held, filled with jobs of three priorities in a random order, let go:",
    )
    stage.say("suspend", "parcels")
    jobs = [{"task": "parcel", "args": [n, PRIORITIES[n % 3]], "priority": PRIORITIES[n % 3]} for n in range(JOBS)]
    random.Random(1).shuffle(jobs)
    status = stage.say("enqueue", "-", given="".join(f"{json.dumps(job)}\n" for job in jobs))
    stage.check(f"{count(JOBS, 'job')} enqueued", holds=status == 0)
    stage.say("resume", "parcels")
    begun = time.monotonic()
    ledger = stage.place / "ledger"
    with Progress("jobs run", stream=sys.stdout) as progress:

        def all_run() -> bool:
            progress.to(ledger.read_bytes().count(b"\n") if ledger.exists() else 0)
            return progress.done >= JOBS

        stage.until("all jobs run", all_run)
    seconds = time.monotonic() - begun
    order = [line.split()[0] for line in ledger.read_text().splitlines()]
    stage.check("each ran exactly once", holds=len(set(ledger.read_text().splitlines())) == len(order) == JOBS)
    last = {name: len(order) - 1 - order[::-1].index(name) for name in PRIORITIES}
    stage.check("the last high one ran before the first low one", holds=last["high"] < order.index("low"))
    return [("jobs run", f"{JOBS:,} over three priorities, in {span(seconds)}")]


def failures(stage: Stage) -> list[tuple[str, str]]:
    """A retry, and a soft timeout."""
    act(
        "3 · What fails is tried again, by its policy",
        "This task fails twice, as a network does. Its policy: again after 500 ms.",
    )
    stage.check("the third attempt worked", holds=stage.say("enqueue", "call_carrier", "DHL", "--wait", "90") == 0)
    retried = newest(stage, "finished", "call_carrier")
    stage.check("3 attempts were counted", holds=retried.get("attempts") == 3)
    act(
        "4 · What runs too long is ended",
        "This one never ends. Its timeout is 1 s, and `retry: none` is one attempt.",
    )
    stage.check("it failed, and said so", holds=stage.say("enqueue", "count_stars", "--wait", "90") == 1)
    failed = newest(stage, "failed", "count_stars")
    stage.check("its code is TIMEOUT", holds=(failed.get("error") or {}).get("code") == "TIMEOUT")
    stage.check("1 attempt was counted", holds=failed.get("attempts") == 1)
    return [("retried", "2 failed attempts, then a good one"), ("timed out", "1 job, after 1 s, its worker lived on")]


def newest(stage: Stage, status: str, task: str) -> dict[str, Any]:
    """The record of the newest such job."""
    jobs = stage.ask("job", "list", "--queue", "odd", "--status", status) or []
    return next((job for job in jobs if job["task"] == task), {})


def kill(stage: Stage) -> list[tuple[str, str]]:
    """A process killed in the middle of its job."""
    act("5 · A process dies under its job", "This job runs for ever, the first time. Its process is killed with -9.")
    stage.say("enqueue", "long_haul")
    marker = stage.place / "haul.pid"
    pid = int(stage.until("the job has begun", lambda: marker.exists() and marker.read_text()))
    print(paint(f"$ kill -9 {pid}", "bold"))
    begun = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    job = stage.until("the job ran again", lambda: newest(stage, "finished", "long_haul"))
    seconds = time.monotonic() - begun
    stage.say("job", "show", f"{job['queue']}/{job['id']}")
    stage.check("it ran again, and its crash is counted", holds=(job["attempts"], job["crashes"]) == (2, 1))
    return [("killed with -9", f"1 child; its job had run again within {span(seconds)}")]


EDITS: tuple[tuple[str, str], ...] = (
    ("parcels: {queues: [parcels], processes: 2", "parcels: {queues: [parcels], processes: 3"),
    ("  odd: {}\n", "  odd: {}\n  returns: {}\n"),
    (
        "\nworkers:\n",
        "  take_back: {run: shop.take_back, queue: returns}\n\nworkers:\n  returns: {queues: [returns]}\n",
    ),
)


def reload(stage: Stage) -> list[tuple[str, str]]:
    """The file is edited while the daemon runs."""
    act("6 · The file changes", "One more process for the parcels; a new queue, task and worker group for returns:")
    before = pids(stage)
    text = stage.file.read_text()
    for old, new in EDITS:
        text = text.replace(old, new)
    save(stage.file, text)
    stage.check("the daemon took it", holds=stage.say("reload") == 0)
    stage.until("the new group is there", lambda: any("returns" in name for name in pids(stage)))
    after = pids(stage)
    stage.check("what did not change kept its process", holds=before.items() <= after.items())
    stage.check("the new task runs", holds=stage.say("enqueue", "take_back", "number:=7", "--wait", "90") == 0)
    return [("reloaded", f"1 group in place, 1 added; {len(before)} processes kept their pids")]


def refuse(stage: Stage) -> list[tuple[str, str]]:
    """A mistake in the file costs nothing."""
    act("7 · The file is wrong", "A name is misspelt. The daemon says where, and goes on as it was:")
    before, good = pids(stage), stage.file.read_text()
    save(stage.file, good.replace("queue: returns}", "queue: retruns}"))
    stage.check("the file was refused", holds=stage.say("reload") == 1)
    stage.check("nothing was disturbed", holds=before == pids(stage))
    save(stage.file, good)
    return [("refused", "1 file with a mistake; the daemon went on")]


def pids(stage: Stage) -> dict[str, int]:
    """The daemon's programs and their processes."""
    status = stage.ask("status") or {}
    return {program["name"]: program["pid"] for program in (status.get("daemon") or {}).get("programs") or []}


def save(path: Path, text: str) -> None:
    """Write the whole file at once, as an editor does."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.replace(path)


ACTS: tuple[Callable[[Stage], list[tuple[str, str]]], ...] = (start, priorities, failures, kill, reload, refuse)

if __name__ == "__main__":
    sys.exit(main())
