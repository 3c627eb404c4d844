"""
Hundreds of reloads of one daemon under load: `python -m tests.soak.storm [--reloads N] [--seed N]`.

Of ten reloads one is invalid and one comes while the group that the last one replaced still drains; the others replace
groups, add and remove one, change sizes in place, or bring new code. Meanwhile a producer fills the queue, and one job
runs from the first reload to the last.

Afterwards each job has run once, and the daemon uses no more processes, descriptors and memory than after WARM of them.
"""

import argparse
import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from fusiond.supervise.control import ask
from tests.support.running import descendants, until
from tests.support.story import Story

#: reloads before the daemon's use is first measured: what is loaded once is loaded by then
WARM = 10
#: bytes that the supervisor's memory may grow by after that, however many reloads follow
GROWTH = 3 << 20
#: jobs that are enqueued at once, and seconds that each takes
BATCH, SECONDS = 20, 0.05
MISTAKES = ("a key", "a user", "a module", "a dying module")


@dataclass(frozen=True)
class Use:
    """What a daemon has of the machine, when it has nothing to do."""

    processes: int
    descriptors: int
    #: bytes that the supervisor has resident
    memory: int
    #: files in the state directory
    files: int


class Storm:
    """One daemon, its load, its reloads."""

    def __init__(self, story, seed):
        self.story, self.rand = story, random.Random(seed)
        self.colour, self.sizes, self.extra = 0, [2, 2], False
        self.results = {"applied": 0, "unchanged": 0, "refused": 0}
        self.draining = self.longest = 0
        self.seconds = []
        self._ended = threading.Event()
        (story.app / "dying.py").write_text(
            "import os\nos.register_at_fork(after_in_child=lambda: os._exit(3))\ndef task(): ...\n"
        )

    def body(self, mistake=""):
        """The file as it is meant now."""
        main, side = self.sizes
        wrong = {"a key": "procesess: 1, ", "a user": "user: nobody-of-that-name, "}.get(mistake, "")
        run = {"a module": "missing.task", "a dying module": "dying.task"}.get(mistake)
        groups = [
            (
                f"main: {{{wrong}queues: [default, holds], processes: {main}, isolation: process,"
                f" environment: {{COLOUR: '{self.colour}'}}}}"
            ),
            f"side: {{queues: [default], processes: {side}, environment: {{COLOUR: '{self.colour // 3}'}}}}",
            *(["extra: {queues: [default]}"] if self.extra else []),
        ]
        wrong = f"  wrong: {{run: {run}}}\n" if run else ""
        body = self.story.body("\n  ".join(groups), tasks=wrong, more="queues: {holds: {}}\n")
        return body.replace("{run: stories.hold}", "{run: stories.hold, queue: holds, timeout: 2h}")

    def load(self):
        """Keep some jobs waiting until the storm is over."""
        while not self._ended.wait(0.02):
            if len(self.story.jobs) - self._ran() < 3 * BATCH:
                self.story.enqueue_notes(BATCH, SECONDS)

    def _ran(self):
        return self.story.runs.read_bytes().count(b"\n") if self.story.runs.exists() else 0

    def blow(self, reloads):
        """So many reloads; returns the use after WARM of them and at the end."""
        self.story.start(self.body())
        long = self.story.hold("long")
        producer = threading.Thread(target=self.load)
        producer.start()
        warm = None
        try:
            for number in range(reloads):
                if number == WARM:
                    warm = self.rest(long)
                self.reload(number)
        finally:
            self._ended.set()
            producer.join()
        self.story.let_go("long")
        assert long.result(timeout=30) == "0", "the long job did not end in the group in which it began"
        self.story.assert_each_ran_once()
        return warm, self.rest(None)

    def reload(self, number):
        """One, of the kind that its number says, and what must come of it."""
        began = time.monotonic()
        if number % 10 == 3:
            mistake = MISTAKES[number // 10 % len(MISTAKES)]
            expected, outcome = "refused", self.story.reload(self.body(mistake))
            self.story.write(self.body())
        elif number % 10 == 6:
            expected, outcome = "applied", self.while_draining(number)
        else:
            self.rand.choice([self.recolour, self.recolour, self.resize, self.add_or_remove, lambda: None])()
            expected, outcome = "applied", self.new_code() if number % 10 == 8 else self.story.reload(self.body())
        self.results[outcome["result"]] += 1
        # The file's watcher may have been first; and what is refused once is not taken by whoever asks next.
        assert outcome["result"] in (expected, "unchanged"), outcome
        assert expected != "refused" or outcome["result"] == "refused", outcome
        self.seconds.append(time.monotonic() - began)

    def while_draining(self, number):
        """Replace main while it runs a job, and once more while it drains."""
        held = self.story.hold(f"job-{number}")
        for _ in range(2):
            self.recolour()
            outcome = self.story.reload(self.body())
            # Besides the first main, in which the long job runs.
            drains = {name for name, program in self.story.programs().items() if program["draining"]}
            self.draining += bool(drains - {"worker:main@1"})
        self.story.let_go(f"job-{number}")
        assert held.result(timeout=60) is not None
        return outcome

    def recolour(self):
        self.colour += 1

    def resize(self):
        self.sizes = [self.rand.randint(2, 4), self.rand.randint(1, 3)]

    def add_or_remove(self):
        self.extra = not self.extra

    def new_code(self):
        return ask(self.story.control, "reload", "storm", "*", timeout=90)

    def rest(self, long):
        """What the daemon uses once all drains are over, but that of the long job."""
        self.sizes, self.extra = [2, 2], False
        self.story.reload(self.body())
        count = len(self.story.always) + 2 + bool(long)  # main, side; and the first main
        until(lambda: len(self.story.names()) == count, self.story.names)
        # The helper and the trial of the last reload may be ending still.
        until(self._quiet)
        return self.use()

    def _quiet(self):
        before = self.use()
        time.sleep(0.5)  # that nothing changes for a while is what is waited for
        return before.processes == self.use().processes

    def use(self):
        pid = self.story.process.pid
        status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        self.longest = max(self.longest, len(self.story.status()["programs"]))
        return Use(
            processes=len(descendants(pid)),
            descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
            memory=int(status["VmRSS"].split()[0]) << 10,
            files=sum(1 for path in self.story.state.rglob("*") if "redis" not in path.parts),
        )


def storm(reloads, seed):
    """Blow, and judge; returns the storm and what the daemon used after WARM reloads and at the end."""
    story = Story()
    try:
        blown = Storm(story, seed)
        warm, end = blown.blow(reloads)
        story.stop()
    finally:
        story.close()
    # The first main has ended with its job: dispatcher, fork server and children.
    assert end.processes < warm.processes, (warm, end)
    assert end.descriptors <= warm.descriptors, (warm, end)
    assert end.memory < warm.memory + GROWTH, (warm, end)
    assert blown.results["refused"] == reloads // 10
    assert blown.draining >= reloads // 10
    return blown, warm, end


def main():
    """Print what was done and what it cost."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.storm")
    parser.add_argument("--reloads", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    blown, warm, end = storm(options.reloads, options.seed)
    took = sorted(blown.seconds)
    print(f"{options.reloads} reloads in {time.monotonic() - began:.0f} s: {blown.results}")
    print(f"one took {took[len(took) // 2]:.2f} s in the middle, {took[-1]:.2f} s at most")
    print(f"{len(blown.story.jobs)} jobs, each ran once; {blown.draining} reloads while a group drained")
    print(f"after {WARM}: {warm}\nat the end: {end}")


if __name__ == "__main__":
    main()
