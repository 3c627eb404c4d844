"""What a daemon does about jobs that are held for their task."""

import asyncio
import dataclasses
import json
import logging
from random import Random

import pytest

from fusiond.broker.maintenance.held_verbs import STEP
from fusiond.broker.records import NewJob, Outcome
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.verbs import Verbs
from fusiond.config import model
from fusiond.job import JobStatus, new_token
from fusiond.schedule import held_keeping, publishing

ERROR = b'{"code":"IMPORT_ERROR","type":"","message":"no module shop","traceback":""}'


class Place:
    """A queue in which jobs of task `gone` are held."""

    def __init__(self, run, settings, tmp_path):
        self.run, self.verbs, self.told = run, Verbs("test"), []
        self.settings, self.tmp_path = settings, tmp_path
        self.config = model.Config(queues={"q": model.Queue("q")})

    def hold(self, count, error=ERROR):
        jobs = [NewJob(f"j{n}", "gone", b"[[],{}]") for n in range(count)]
        self.run(self.verbs.enqueue("q", jobs))
        claim = {"dispatcher": "d", "nonce": "n", "lease_ms": 10**6, "max_rescues": 2, "few": (1, ()), "has": ""}
        self.run(self.verbs.claim("q", 1, **claim))
        self.run(self.verbs.settle("q", [Outcome("j0", "n", "unknown", 0, 0, error, "unknown task")]))
        while self.run(self.verbs.counts("q")).queued:
            self.run(self.verbs.claim("q", 1, **claim | {"nonce": new_token()}))

    def serve(self, *tasks, lacks=()):
        """A living daemon whose group claims from the queue."""
        said = {task: {"queue": "q", "priority": 1} for task in tasks}
        self.run(self.verbs.publish_catalogue("box", "hash", said, priorities={}, queues=["q"]))
        self.run(self.verbs.serve("box", "box.1", ["q"], [f"!{task}" for task in lacks]))

    def keep(self, fail_after=3600.0, looks=1):
        """So many looks of a daemon."""

        async def look():
            connection = connect_async(self.settings, self.tmp_path)
            unknown = model.UnknownTasks(fail_after)
            config = dataclasses.replace(self.config, unknown_tasks=unknown)
            keeper = held_keeping.HeldTaskKeeper(self.verbs, connection, config, Random(1), self.told.append)
            for _ in range(looks):
                await keeper.run_once()
            await connection.close()

        asyncio.run(look())

    def held(self):
        return self.run(self.verbs.counts("q")).held


@pytest.fixture
def place(run, broker_settings, tmp_path):
    return Place(run, broker_settings, tmp_path)


def test_jobs_that_nobody_can_run_are_named(place, caplog):
    """In the log and to the supervisor: the task, how many, and what to do. Not while somebody can run them."""
    place.hold(3, b"{}")
    place.serve("other")
    with caplog.at_level(logging.WARNING):
        place.keep()
    [said] = place.told
    assert said in caplog.text
    assert "queue 'q': 3 jobs are held of task 'gone': no living worker group of the queue has the task" in said
    assert "declare the task" in said
    assert "fail after 1h" in said
    place.serve("gone", lacks=["gone"])
    place.keep()
    assert place.told[1] == said, "a group whose function does not load cannot run it either"


def test_jobs_go_on_where_each_group_has_the_task(place):
    """More than one step takes: the rest follows at once."""
    place.hold(held_keeping._STEPS * STEP + 1)
    place.serve("gone")
    place.keep(looks=2)
    assert (place.held(), place.told) == (0, [])


def test_jobs_that_a_pool_holds_stay_held(place):
    """Their dispatchers look for room: if they went on, each would be claimed and refused again."""
    place.hold(3, b"")
    place.config = dataclasses.replace(place.config, tasks={"gone": model.Task("gone", "x.y", pools={"p": 1})})
    place.serve("gone")
    place.keep(fail_after=0.001)
    assert (place.held(), place.told) == (3, [])


def test_jobs_fail_that_nobody_could_run_for_too_long(place, caplog):
    """With the error of the dispatcher that could not load the function; the log says how many."""
    place.hold(held_keeping._STEPS * STEP + 1)
    place.serve("other")
    place.keep(fail_after=0.001, looks=2)
    assert place.held() == 0
    [job] = place.run(place.verbs.jobs("q", JobStatus.FAILED, count=1))
    assert json.loads(job.error)["code"] == "IMPORT_ERROR"
    assert "jobs of task 'gone' that failed" in caplog.text


def test_a_queue_that_nobody_serves_keeps_its_jobs(place):
    """Nobody could have declared the task meanwhile."""
    place.hold(2)
    place.keep(fail_after=0.001)
    assert (place.held(), place.told) == (2, [])


def test_a_task_is_suspended_while_the_file_of_a_living_daemon_says_so(place):
    """Another daemon whose file does not say so changes nothing; once the first has ended, the next look resumes."""
    said = {"gone": {"queue": "q", "priority": 1}}
    queues = {"priorities": {}, "queues": ["q"]}
    place.run(place.verbs.declare(["q"]))
    suspended = {"gone": said["gone"] | {"suspended": True}}
    published = place.run(place.verbs.publish_catalogue("one", "hash1", suspended, **queues))
    place.serve("gone")
    place.run(publishing._suspend_tasks(place.verbs))
    place.run(place.verbs.enqueue("q", [NewJob("a", "gone", b"[[],{}]")]))
    claim = {"dispatcher": "d", "lease_ms": 10**6, "max_rescues": 2, "few": (1, ()), "has": ""}
    assert place.run(place.verbs.claim("q", 1, **claim, nonce="n")).jobs == []
    place.keep()
    assert (place.held(), place.told) == (1, [])
    place.run(place.verbs.end_daemon("one", published))
    place.keep()
    assert (place.held(), place.run(place.verbs.counts("q")).held_tasks) == (0, [])
