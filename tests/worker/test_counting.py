"""A group's program has Redis count what becomes of its jobs, once its file says so."""

import signal
from dataclasses import replace

import pytest

from fusiond.config.model.commands import Parameter


def test_what_becomes_of_jobs_is_counted_once_the_file_says_so(place):
    """It takes the key in place, and counts by the tasks of its file, with the times that their jobs took."""
    program = place.start(processes=1, link=True)
    place.result(place.enqueue("echo", 1))
    program.apply_config(replace(place.config(processes=1), metrics=True))
    place.result(place.enqueue("echo", 2))
    place.error(place.enqueue("wrong"))

    reading = place.broker.counters(["default"])
    found = reading.read([place.run(call) for call in reading.calls])["default"].totals
    assert (found["echo"].finished, found["echo"].ended) == (1, 1)
    assert (found["wrong"].failed, found["wrong"].ended) == (1, 1)
    for tally in found.values():
        assert tally.run.count == tally.wait.count == 1
        assert 0 < tally.run.seconds < 60


@pytest.mark.parametrize("isolation", ["fork", "process"])
def test_what_an_attempt_used_is_known(place, isolation):
    """Its CPU time, with that of the processes that it waited for, is in its job and counted; a fork's memory, too."""
    place.start(processes=1, isolation=isolation, change=lambda config: replace(config, metrics=True))
    for task in ("burn", "echo"):
        job = place.until(place.enqueue(task, 0.2))
        assert job.status == "finished"
        least, most = (0.35, 30) if task == "burn" else (0, 0.2)
        assert least <= job.ran_with.cpu_seconds <= most
        assert (job.ran_with.generation, job.ran_with.release) == (1, "")
        assert (job.ran_with.peak_memory is None) == (isolation == "process")
    reading = place.broker.counters(["default"])
    found = reading.read([place.run(call) for call in reading.calls])["default"].totals
    assert found["burn"].cpu >= 0.35 > found["echo"].cpu


def test_what_an_attempt_used_is_known_of_one_that_was_killed(place):
    """It cannot say so itself; with `isolation: fork` the kernel says it, and the history has it of each attempt."""
    place.start(processes=1, isolation="fork")
    grown, killed = (place.until(place.enqueue(*call)) for call in (("grow", 64), ("kill_self", signal.SIGKILL)))
    assert grown.ran_with.peak_memory >= 64 << 20
    *_, past = killed.history
    assert past.outcome == "crashed"
    assert past.ran_with == killed.ran_with
    assert past.ran_with.cpu_seconds is not None
    assert 0 < past.ran_with.peak_memory < grown.ran_with.peak_memory


def test_each_program_of_a_child_has_used_what_it_has_used(place):
    """Also one that is killed: then the kernel tells what its child has used for all of its programs."""
    burn = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done"
    script = f'case $1 in burn) {burn};; esac; echo $PPID >> "$2"; case $1 in wait) sleep 1000;; esac'
    rules = dict.fromkeys(["what", "path"], Parameter(pattern=".*"))
    task = {"run": "", "command": ("sh", "-c", script, "sh", "$(what)", "$(path)"), "parameters": rules}
    place.start(processes=1, isolation="fork", tasks={"work": task})

    def run(what):
        """What the job has used, and the child that it has run in."""
        path = place.path()
        id_ = place.enqueue("work", what=what, path=path)
        [child] = place.until_lines(path)
        if what == "wait":
            place.cancel(id_)
        return place.until(id_).ran_with, child

    burnt, child = run("burn")
    # Another child stands ready, which may get a job instead.
    for what in ("idle", "wait"):
        used = next(used for used, where in (run(what) for _ in range(20)) if where == child)
        assert used.cpu_seconds < burnt.cpu_seconds / 2
        assert used.peak_memory
