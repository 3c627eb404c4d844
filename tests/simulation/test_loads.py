"""Loads: what a line means, and what is refused, with its line and a remedy."""

import json

import pytest

from fusiond.simulation.load_files import read_load
from fusiond.simulation.loads import Arrival, LoadError, run_times, scaled

LINE = {"task": "send", "rate": "20/s"}
REFUSED = {
    "an unknown key": ({**LINE, "rat": 1}, "unknown key 'rat'; did you mean 'rate'?"),
    "no task": ({"rate": "20/s"}, "'task' is missing"),
    "a rate of 0": ({**LINE, "rate": "0/s"}, "'0/s' is not a rate above 0"),
    "a negative rate": ({**LINE, "rate": "-5/s"}, "'-5/s' is not a rate above 0"),
    "no rate": ({**LINE, "rate": "often"}, "'often' is not a rate above 0"),
    "a negative time": ({**LINE, "takes": "-1s"}, "'-1s' has a sign"),
    "falling percentiles": ({**LINE, "takes": {"p50": "2s", "p99": "1s"}}, "a higher percentile"),
    "no percentile": ({**LINE, "takes": {"average": "2s"}}, "'average' is not a percentile"),
    "more than all fail": ({**LINE, "fails": 1.5}, "fails: 1.5 is not a share"),
    "a percentage that fails": ({**LINE, "fails": "1%"}, "fails: 1% is not a share from 0 to 1, such as 0.01"),
    "no keys": ({**LINE, "keys": 0}, "keys: 0 is not a number"),
    "keys that are true": ({**LINE, "keys": True}, "keys: True is not a number"),
    "a number as a time": ({**LINE, "for": 10}, "for: '10' is not a duration"),
    "a number as a run time": ({**LINE, "takes": {"p50": 5}}, "takes: '5' is not a duration"),
    "no time to arrive": ({**LINE, "for": "0s"}, "for: no job arrives in a time of 0s; use 1s or more"),
    "too deep": ("[" * 100_000, "is not JSON"),
    "no time at all": ('{"job": "a", "task": "send", "at": NaN}', "is no line of a recording"),
    "the end of time": ('{"job": "a", "task": "send", "at": Infinity}', "is no line of a recording"),
    "a delay into the past": ({"job": "a", "task": "send", "at": 1, "delay": -1}, "is no line of a recording"),
    "a run backwards": ({"job": "a", "n": 1, "took": -1, "outcome": "finished"}, "is no line of a recording"),
    "an attempt without number": (
        '{"job": "a", "n": 1e400, "took": 1, "outcome": "retry"}',
        "is no line of a recording",
    ),
    "an unknown outcome": ({"job": "a", "n": 1, "took": 1, "outcome": "lost"}, "CHECK constraint failed: outcome IN"),
    "a cut attempt": ({"job": "a", "n": 1}, "is no line of a recording: 'took' is missing"),
    "another version": ({"recording": 2}, "of another version"),
    "a list": ([1], "write an object"),
}


@pytest.fixture
def written(tmp_path):
    """A load of these lines, each JSON or a text as it is."""

    def write(*lines, end="\n"):
        file = tmp_path / "load.jsonl"
        file.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines) + end)
        return read_load(str(file), 1)

    return write


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(written, case):
    """An error names the file, the line, the value and the remedy."""
    line, message = REFUSED[case]
    with pytest.raises(LoadError, match=r"load\.jsonl, line 2: ") as caught:
        written(LINE, line)
    assert message in str(caught.value)


def test_too_many_jobs_are_refused(written):
    """A million jobs a second, and more jobs than a simulation can have; the bound is said."""
    for line, length in (({**LINE, "rate": "1000000/s"}, 60.0), ({**LINE, "rate": "9000/s"}, 86400.0)):
        load, _ = written(line)
        with pytest.raises(LoadError, match="at most 10,000,000, and 10,000 a second"):
            next(load.arrivals(length, 1.0))


def test_a_file_without_jobs_or_that_is_not_there_is_refused(written, tmp_path):
    """With an example of a line, or the reason."""
    with pytest.raises(LoadError, match="has no jobs; write lines such as"):
        written("")
    with pytest.raises(LoadError, match="line 2: this is not JSON"):  # only a recording may be cut
        written(LINE, '{"task": "send"', end="")
    with pytest.raises(LoadError, match="No such file"):
        read_load(str(tmp_path / "none.jsonl"), 1)


def test_a_recording_gives_each_job_with_its_attempts(written):
    """In the order of arrivals, whatever the order of lines; repeats count once; ticks of cron entries are left out."""
    arrival = {"job": "a", "task": "send", "at": 1000.5, "by": "k"}
    attempts = [{"job": "a", "n": 1, "took": 0.2, "outcome": "snoozed", "delay": 3}]
    attempts += [
        {"job": "a", "n": 1, "took": 0.3, "outcome": "retry"},
        {"job": "a", "n": 2, "took": 0.1, "outcome": "finished"},
    ]
    tick = {"job": "t", "task": "dump", "at": 999.0, "cron": True}
    cut = '{"job": "b", "n": 1, "too'
    load, notes = written(
        {"recording": 1, "from": "events"}, tick, arrival, attempts[1], arrival, *attempts[::-1],
        {"job": "b", "task": "send", "at": 1000.0, "after": True},
        {"job": "t", "n": 1, "took": 2, "outcome": "finished"},
        cut, end="",
    )  # fmt: skip
    first, second = load.arrivals(100.0, 1.0)
    assert (first.id, first.at_ms, first.runs) == ("load:b", 0, ())
    assert (second.id, second.at_ms, second.by) == ("load:a", 500, "k")
    assert [tuple(run) for run in second.runs] == [(0.2, "snoozed", 3.0), (0.3, "retry", 0.0), (0.1, "finished", 0.0)]
    assert load.run("dump", "cron:dump:1", 1).takes == pytest.approx(2)
    assert [note.partition(": ")[2] or note for note in notes] == [
        "the recording is cut there, and its last line is left out",
        "1 jobs that waited for other jobs are replayed as if they did not",
    ]


def test_run_times_have_the_percentiles_that_were_written():
    """Lognormal between two percentiles; of one percentile always the same; failures by their share."""
    times = run_times({0.5: 0.08, 0.99: 0.9}, 0.25)
    drawn = sorted(times.draw((n + 0.5) / 1000, 0.5).takes for n in range(1000))
    assert drawn[499] == pytest.approx(0.08, rel=0.01)
    assert drawn[989] == pytest.approx(0.9, rel=0.03)
    assert [times.draw(0.5, share).outcome for share in (0.2, 0.3)] == ["retry", "finished"]
    assert run_times({0.5: 2.0}, 0).draw(0.99, 0.5).takes == pytest.approx(2.0)


def test_a_scale_repeats_recorded_arrivals_or_leaves_some_out():
    """Copies have names of their own, and all are in order."""
    import random

    arrivals = [Arrival(n * 1000, f"load:{n}", "t") for n in range(400)]
    more = list(scaled(arrivals, 2.5, random.Random(1)))
    assert len(more) == pytest.approx(1000, rel=0.1)
    assert more == sorted(more)
    assert len({each.id for each in more}) == len(more)
    assert len(list(scaled(arrivals, 0.5, random.Random(1)))) == pytest.approx(200, rel=0.2)


def test_each_line_of_a_task_has_run_times_of_its_own(written):
    """As a load of hourly counters has, with a line for each hour; a cron entry's job has those of one of them."""
    load, _ = written({**LINE, "takes": "1s"}, {**LINE, "takes": "9s"})
    drawn = {arrival.id.split(":")[1]: load.run("send", arrival.id, 1).takes for arrival in load.arrivals(5.0, 1.0)}
    assert drawn == {"0": pytest.approx(1), "1": pytest.approx(9)}
    ticks = {round(load.run("send", f"cron:often:{tick}", 1).takes) for tick in range(50)}
    assert ticks == {1, 9}


def test_a_load_of_more_than_a_year_is_refused(written):
    """Its ticks alone would take hours."""
    load, _ = written({**LINE, "rate": "1/1d", "from": "9999d", "for": "1d"})
    with pytest.raises(LoadError, match="a simulation takes 366d at most"):
        next(load.arrivals(load.length(), 1.0))
