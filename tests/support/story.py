"""A whole daemon for a story: supervisor, Redis, scheduler, workers, and a small package of tasks."""

from fusiond.client import Client
from fusiond.job import JobStatus
from tests.support.running import Running, run_down, until

TASKS = '''
import os, pathlib, time

def note(number, seconds=0.0, log=None):
    """Leaves a line for each run."""
    time.sleep(seconds)
    with open(log, "a") as file:
        file.write(f"{number} {os.getpid()}\\n")
    return number

def hold(gate, began):
    """Runs until the gate is a file."""
    pathlib.Path(began).touch()
    while not pathlib.Path(gate).exists():
        time.sleep(0.01)
    return os.environ.get("COLOUR")

def colour():
    return os.environ.get("COLOUR")
'''


class Story(Running):
    """A daemon with its own broker, and what a producer does."""

    def __init__(self):
        super().__init__()
        (self.app / "stories.py").write_text(TASKS)
        self.runs = self.directory / "runs"
        self.jobs = []

    def body(self, workers, *, tasks="", more=""):
        """A file: the tasks of `stories.py`, these worker groups, each `name: {…}`."""
        return (
            f"broker: {{url: '{self.broker_url or 'embedded'}'}}\n"
            f"defaults: {{workers: {{directory: {self.app}}}, tasks: {{retry: single}}}}\n"
            "retry_policies: {single: {max_attempts: 1}}\n"
            "tasks:\n"
            "  note: {run: stories.note}\n  hold: {run: stories.hold}\n  colour: {run: stories.colour}\n"
            f"{tasks}workers:\n  {workers}\n{more}"
        )

    def client(self):
        return Client(self.url)

    def enqueue_notes(self, count, seconds=0.0):
        """So many jobs that leave a line for each run."""
        start = len(self.jobs)
        numbers = range(start, start + count)
        self.jobs += self.client().enqueue_many(
            [("note", [number], {"seconds": seconds, "log": str(self.runs)}) for number in numbers]
        )

    def hold(self, name):
        """One job that runs until `let_go(name)`; returns when it has begun."""
        gate, began = self.directory / f"gate-{name}", self.directory / f"began-{name}"
        job = self.client().enqueue("hold", str(gate), str(began))
        until(began.exists, self.text)
        return job

    def let_go(self, name):
        (self.directory / f"gate-{name}").touch()

    def assert_each_ran_once(self):
        """Every job finished, and none ran twice: no job was lost, and none failed or was repeated."""
        run_down(lambda: sum(not job.status().ended for job in self.jobs), self.text)
        assert {job.status() for job in self.jobs} == {JobStatus.FINISHED}
        numbers = sorted(int(line.split()[0]) for line in self.runs.read_text().splitlines())
        assert numbers == list(range(len(self.jobs)))
