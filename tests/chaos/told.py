"""
`python -m tests.chaos.told`: a daemon that keeps events and delivers them to a file; its sink, dispatchers and children
are killed. Status 1 where an event is missing, told twice, or not delivered (I26).

1. work    jobs of all kinds: some fail and are requeued, some are canceled, some come later
2. harm    kill the sink again and again, and now and then a dispatcher or a child
3. judge   the stream: each job's events are in order, and its last one says the status that it has in Redis
4. compare the file with the stream: each event is there, and the same id has the same line
"""

import contextlib
import json
import random
import signal
import sys
import threading
import time

from fusiond.broker.event_records import DAEMONS
from fusiond.job import JobStatus
from tests.chaos import repeat
from tests.chaos.package import SHORTER, Edit
from tests.chaos.plant import CHILD, DISPATCHER, QUEUES, Plant, played
from tests.support.event_story import disagreements
from tests.support.running import send

#: jobs; kills; s in which no more jobs end; s in which a sink that has more to deliver delivers something
JOBS, KILLS, PEACE, SILENCE = 160, 14, 90.0, 20.0
#: it delivers little at a time, and slowly, so that a kill meets it
SLOWER = (
    Edit("sinks/file_outlet.py", "    most = 500\n", "    most = 5\n"),
    Edit(
        "sinks/file_outlet.py",
        "            self._open()\n",
        "            __import__('time').sleep(0.02)\n            self._open()\n",
    ),
)


class Telling(Plant):
    """The daemon, with a sink."""

    def __init__(self, edits):
        super().__init__((*SHORTER, *SLOWER, *edits), processes=2)
        self.told = self.directory / "events.jsonl"
        sink = f"events: {{sinks: {{audit: {{kind: file, path: {self.told}}}}}}}\n"
        self.file.write_text(self.file.read_text() + sink)

    def events(self, queue):
        """All events of a queue."""
        found, read = [], 0
        while (page := self.run(self.broker.events_behind(queue, read, 500))).entries:
            found += page.events
            read = page.last
        return found

    def statuses(self, queue):
        """Job → its status."""
        found = {}
        for status in JobStatus:
            found |= {job.id: status.value for job in self.run(self.broker.jobs(queue, status, count=9999))}
        return found

    def lines(self):
        """Id → the lines with it, of whole lines."""
        found = {}
        for line in self.told.read_text().split("\n")[:-1] if self.told.exists() else ():
            with contextlib.suppress(ValueError):  # what a kill has torn is there again
                found.setdefault(json.loads(line)["id"], set()).add(line)
        return found


def violations(edits=(), seed=0):
    """What was wrong, a sentence each."""

    def story(plant, client):
        over = threading.Event()
        harming = threading.Thread(target=_harm, args=(plant, random.Random(seed), over))
        harming.start()
        try:
            _work(plant, client, random.Random(seed))
        finally:
            over.set()
            harming.join()
        return [f"I26 {sentence}" for queue in QUEUES for sentence in _judge(plant, queue)]

    return played(Telling(edits), "I26", story)


def _work(plant, client, rand):
    """Until every job has ended."""
    jobs = []
    for _ in range(JOBS):
        task = rand.choice(["quick", "slow", "flawed"])
        later = client.options(delay=rand.uniform(0.05, 1.0)) if rand.random() < 0.2 else client
        jobs.append(later.enqueue(task, rand.uniform(0.0, 0.15)))
        if rand.random() < 0.1:
            rand.choice(jobs).cancel()
        time.sleep(0.05)
    plant.await_all(jobs, PEACE)
    failed = [job.id for job in plant.run(plant.broker.jobs("slow", JobStatus.FAILED))]
    plant.run(plant.broker.requeue("slow", failed, who="harness"))
    plant.await_all(jobs, PEACE)


def _harm(plant, rand, over):
    """Kill, until it is over."""
    for _ in range(KILLS):
        if over.wait(rand.uniform(0.3, 0.9)):
            return
        pids = plant.pids(rand.choice([CHILD, DISPATCHER])) if rand.random() < 0.4 else []
        sink = plant.programs().get("sink:audit", {}).get("pid")
        send(signal.SIGKILL, *filter(None, [sink, *pids[:1]]))


def _judge(plant, queue):
    events = plant.events(queue)
    yield from disagreements(events, plant.statuses(queue))
    if [event.number for event in events] != list(range(1, len(events) + 1)):
        yield f"the numbers of {queue}'s events have a gap"
    missing = sorted({event.id for event in events} - _delivered(plant))
    if missing:
        yield f"{len(missing)} events were not delivered, such as {missing[0]}"
    lines = plant.lines()
    yield from (f"{id_} has several lines" for id_, found in lines.items() if len(found) > 1)


def _delivered(plant):
    """The ids in the file, once no more come."""
    found, at = set(), time.monotonic()
    while time.monotonic() - at < SILENCE:
        if plant.lines().keys() - found:
            found, at = set(plant.lines()), time.monotonic()
        elif found == _all_ids(plant):
            break
        time.sleep(0.3)
    return found


def _all_ids(plant):
    return {event.id for stream in (*QUEUES, DAEMONS) for event in plant.events(stream)}


if __name__ == "__main__":
    sys.exit(repeat.main("told", __doc__, violations, times=5))
