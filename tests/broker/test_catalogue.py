"""The catalogue: which daemon's word counts, alive or dead, and what is served."""

import pytest

from fusiond.broker.call import as_is, plain
from tests.support.running import until


@pytest.fixture
def fleet(run, broker):
    return Fleet(run, broker)


class Fleet:
    """Daemons that declare one task, `t`, in a queue, and their groups."""

    def __init__(self, run, broker):
        self.run, self.broker, self.said = run, broker, {}

    def start(self, daemon, content, queue, *, serves=(), task="t"):
        """A daemon whose file has this content; its generation."""
        self.said[daemon] = self.run(
            self.broker.publish_catalogue(
                daemon, content, {task: {"queue": queue, "priority": 1}}, priorities={queue: 1}, queues=[queue]
            )
        )  # fmt: skip
        self.serve(daemon, *serves)
        return self.said[daemon].generation

    def serve(self, daemon, *queues):
        self.run(self.broker.serve(daemon, "host.1", queues))

    def end(self, daemon):
        """A clean shutdown."""
        self.serve(daemon)
        self.run(self.broker.end_daemon(daemon, self.said[daemon]))

    def kill(self, daemon, ago_ms=1):
        """As if it had said its last word long enough ago: its records hold no more."""
        for name, words in self.records().items():
            if name.partition("/")[0] == daemon:
                _, rest = words.split(" ", 1)
                self.run(plain(as_is, "HSET", "test:daemons", name, f"{self.now() - ago_ms} {rest}"))

    def records(self):
        flat = self.run(plain(as_is, "HGETALL", "test:daemons"))
        return {name.decode(): words.decode() for name, words in zip(flat[::2], flat[1::2], strict=True)}

    def now(self):
        seconds, micros = self.run(plain(as_is, "TIME"))
        return int(seconds) * 1000 + int(micros) // 1000

    def queue(self, task="t"):
        return self.catalogue().tasks[task]["queue"]

    def catalogue(self):
        return self.run(self.broker.catalogue())


def test_the_newest_generation_of_the_living_wins(fleet):
    """The same content is the same generation on each host; a daemon that goes back to old content is the newest."""
    generations = [fleet.start(*what) for what in (("h1", "A", "a"), ("h2", "A", "a"), ("h1", "B", "b"))]
    assert generations == [1, 1, 2]
    catalogue = fleet.catalogue()
    assert catalogue.tasks["t"]["queue"] == "b"
    assert (catalogue.priorities, catalogue.queues) == ({"a": 1, "b": 1}, {"a", "b"})
    assert fleet.start("h3", "A", "a") == 1
    assert fleet.queue() == "b"
    assert fleet.start("h1", "A", "a") == 3
    assert fleet.queue() == "a"


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_living_daemon_outranks_a_dead_one_whatever_its_generation(fleet, how):
    """A newer file moved the task; its host was replaced by one with the old content and another name."""
    fleet.start("old", "A", "default", serves=["default"])
    fleet.start("new", "B", "fast", serves=["fast"])
    assert fleet.queue() == "fast"
    getattr(fleet, how)("new")
    assert fleet.start("replacement", "A", "default") == 1
    assert fleet.queue() == "default"
    # What no living daemon names is filled in.
    assert fleet.catalogue().queues == {"default", "fast"}


def test_a_living_group_keeps_its_daemon_alive(fleet):
    """An operator who stops the scheduler has not stopped the daemon."""
    fleet.start("old", "A", "default", serves=["default"])
    fleet.start("new", "B", "fast", serves=["fast"])
    fleet.run(fleet.broker.end_daemon("new", fleet.said["new"]))
    assert fleet.queue() == "fast"
    fleet.serve("new")
    assert fleet.queue() == "default"


def test_of_two_living_daemons_the_one_counts_whose_queue_is_served(fleet):
    """A group that is not ready yet, or has ended for good, takes no jobs from one that serves."""
    fleet.start("old", "A", "default", serves=["default"])
    fleet.start("new", "B", "fast")
    assert fleet.queue() == "default"
    fleet.serve("new", "fast")
    assert fleet.queue() == "fast"
    fleet.serve("new")
    assert fleet.queue() == "default"
    fleet.serve("old")
    assert fleet.queue() == "fast"


def test_while_no_daemon_runs_the_last_ones_are_followed(fleet):
    """Producers go on while everything restarts: by generation among those that ended together, else by their end."""
    fleet.start("gone", "B", "first")
    fleet.kill("gone", ago_ms=3_600_000)
    fleet.start("a", "C", "fast")
    fleet.start("b", "A", "default")
    assert fleet.start("a", "A", "default") == fleet.start("b", "A", "default") == 3
    fleet.start("c", "D", "fast")
    fleet.kill("c", ago_ms=3_600_000)
    fleet.end("a")
    fleet.end("b")
    assert fleet.queue() == "default"


def test_served_needs_a_living_group_of_a_daemon_that_knows_the_task(fleet):
    """Another daemon's group would give the job back, as of a task that it does not know."""
    fleet.start("a", "A", "default")
    assert not fleet.catalogue().serves("t", "default")
    fleet.start("b", "B", "default", task="other", serves=["default"])
    catalogue = fleet.catalogue()
    assert catalogue.serves("other", "default")
    assert not catalogue.serves("t", "default")
    assert catalogue.serving == {"default"}
    fleet.serve("a", "default", "more")
    catalogue = fleet.catalogue()
    assert catalogue.serves("t", "default")
    assert catalogue.serves("t", "more")
    fleet.kill("a")
    assert not fleet.catalogue().serves("t", "default")


def test_alive_is_judged_by_the_clock_of_redis(fleet):
    """A word holds for its time, and no longer; nothing else is needed for its end."""
    fleet.start("old", "A", "default", serves=["default"])
    fleet.start("new", "B", "fast")
    fleet.kill("new", ago_ms=-3000)
    fleet.serve("old")
    assert fleet.queue() == "fast"
    until(lambda: fleet.queue() == "default")


def test_two_daemons_that_alternate_under_one_id_count_no_generations(fleet, run, broker):
    """Each start may be a new generation, since it may be a return to older content; what is repeated is none."""
    fleet.start("a", "A", "a")
    fleet.start("a", "B", "b")

    def again(content, queue):
        tasks = {"t": {"queue": queue, "priority": 1}}
        plan = broker.publish_catalogue("a", content, tasks, priorities={}, queues=[queue], before=content)
        return run(plan).generation

    generations = {again(*what) for _ in range(10) for what in (("A", "a"), ("B", "b"))}
    assert generations == {1, 2}


def test_at_maxmemory_a_daemon_stays_alive(fleet, run, broker):
    """Its sign of life is the same small record again."""
    fleet.start("a", "A", "a")
    fleet.kill("a")
    run(plain(as_is, "CONFIG", "SET", "maxmemory", 1))
    assert run(broker.stay_alive("a", fleet.said["a"]))
    run(plain(as_is, "CONFIG", "SET", "maxmemory", 0))
    assert fleet.catalogue().tasks
    assert fleet.records()["a"].split()[0] > str(fleet.now())
