"""
A program that only speaks with its supervisor: no Redis, no task code.

What it does is said by its group's `environment`, so that a test steers it through the file:

    ACT       ready (default), fail, crash, never, deaf (ready, acknowledges nothing),
              stubborn (ignores SIGTERM), stuck (never, and stubborn),
              orphan (leaves a grandchild), parent (has a child in a session of its own, which lives on),
              late (ready once `go-<group>` appears beside the snapshot)
              whatever it is: while `broken-<group>` lies beside the snapshot it fails; while `trouble-<group>` does,
              it says that it cannot serve
    BUSY      slots that it says are busy while it drains; it ends when `done-<group>` appears beside the snapshot
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

from fusiond import logs
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.config.release_marks import marks
from fusiond.program import Link


async def main() -> int:  # noqa: C901 - a script
    parser = argparse.ArgumentParser()
    parser.add_argument("--snapshot", type=Path)
    parser.add_argument("--runtime")
    parser.add_argument("--group", default="")
    parser.add_argument("--held", action="store_true")
    parser.add_argument("--publish-only", action="store_true")
    options = parser.parse_args()
    link, snapshot = Link.from_environment(), read_snapshot(options.snapshot)
    state = options.snapshot.parent
    group = snapshot.config.workers.get(options.group)
    act = group.environment.get("ACT", "ready") if group else "ready"
    busy = int(group.environment.get("BUSY", 0)) if group else 0
    logs.setup(snapshot.config.logging, link.name, link.tail)
    ended, drained = asyncio.Event(), False

    def note(**what):
        with (state / f"heard-{link.name}").open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), **what}) + "\n")

    def hear(command):
        nonlocal drained
        note(**command)
        match command:
            case {"do": "apply", "snapshot": path} if act != "deaf":
                link.say({"is": "applied", "generation": read_snapshot(path).generation})
            case {"do": "drain"}:
                drained = True
                link.say({"is": "busy", "slots": busy, "jobs": busy, "waits": False})
                if not busy:
                    ended.set()

    async def check():
        return "no child can be forked" if (state / f"trouble-{options.group}").exists() else ""

    link.start(hear, lambda: os._exit(9), check)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: act not in ("stubborn", "stuck") and ended.set())
    note(do="start", argv=sys.argv[1:], environment=sorted(os.environ))
    if act == "parent":
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)  # noqa: ASYNC220 - a stray, on purpose
        (state / f"child-{options.group}").write_text(str(child.pid))
    if act == "fail" or (state / f"broken-{options.group}").exists():
        logging.getLogger("fusiond").error("here are the last words")
        logs.stop()
        link.say({"is": "failed", "reason": "shop.missing: no module named 'shop'"})
        return 78
    if act == "orphan":
        # Its grandchild outlives its child, and falls to PID 1.
        subprocess.run(["sh", "-c", "sleep 0.2 &"], check=True)  # noqa: ASYNC221 - at once over
    if act == "crash":
        return 3
    while act == "late" and not (state / f"go-{options.group}").exists():  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.02)
    if act not in ("never", "stuck"):
        if group:
            link.say({"is": "loaded", "environment": "", "release": marks(group.reload_on)})
        if trouble := await check():
            link.say({"is": "checked", "n": 0, "trouble": trouble})
        link.say({"is": "ready"})
    while not ended.is_set():
        if drained and (state / f"done-{options.group}").exists():
            return 0
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), 0.05)
    return 0


def entry_point():
    return asyncio.run(main())


if __name__ == "__main__":
    sys.exit(entry_point())
