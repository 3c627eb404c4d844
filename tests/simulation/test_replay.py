"""What a simulation does with timeouts, lost hosts, ticks and what is left at the end."""

import pytest

from fusiond.simulation.replay import Conditions, Fault

ONE = """\
tasks: {slow: {run: a.b, timeout: {soft: 2s, hard: 3s}, retry: none}, work: {run: a.b}}
workers: {main: {hosts: ["web*"], processes: 2}}
"""


def test_a_soft_timeout_ends_an_attempt(simulated):
    """At the soft timeout the task gets an exception; with `retry: none` the job fails."""
    found = simulated(ONE, [{"task": "slow", "rate": "6/1m", "takes": "5s"}], 300.0)["tasks"]["slow"]
    assert found["failed"] == found["jobs"] > 20
    assert found["finished"] == 0


def test_a_host_that_is_gone_has_its_jobs_run_elsewhere(simulated):
    """Its leases expire, the other host takes the jobs, and nothing is lost."""
    lines, hosts = [{"task": "work", "rate": "30/1m", "takes": "3s"}], {"web": 2}
    fault = Fault("web-1", 60.0, 120.0)
    whole = simulated(ONE, lines, 300.0, hosts=hosts)
    broken = simulated(ONE, lines, 300.0, hosts=hosts, faults=[fault])
    assert whole["groups"]["main"] == {"hosts": 2, "slots": 4, "busy": pytest.approx(0.37, abs=0.1)}
    assert broken["tasks"]["work"]["finished"] == broken["tasks"]["work"]["jobs"] == whole["tasks"]["work"]["jobs"]
    assert broken["tasks"]["work"]["rescued"] > whole["tasks"]["work"]["rescued"] == 0
    assert broken["tasks"]["work"]["wait_p99"] > whole["tasks"]["work"]["wait_p99"]


def test_hosts_have_the_groups_that_name_them(simulated):
    """`web=2` is web-1 and web-2; a group that names no host of these runs nowhere, and its jobs are left."""
    assert Conditions(1.0, hosts={"web": 2, "db": 1}).host_names() == ["web-1", "web-2", "db"]
    found = simulated(ONE, [{"task": "work", "rate": "30/1m"}], 60.0, hosts={"db": 1})
    assert found["groups"] == {}
    assert found["queues"]["default"]["left"] == found["tasks"]["work"]["jobs"] > 10


def test_a_job_that_is_the_first_of_its_kind_begins_at_once(simulated):
    """Its script is in Redis before it is called: else the group looks for the job before it is stored."""
    text = ONE.replace("work: {run: a.b}", "work: {run: a.b, unique: {by: [args.0], until: ended}}")
    jobs = [{"job": task, "task": task, "at": at} for task, at in (("slow", 1.0), ("work", 8.6))]
    found = simulated(text, jobs, 10.0)["tasks"]
    assert {task: figures["wait_max"] for task, figures in found.items()} == {"slow": 0.0, "work": 0.0}


def test_what_waits_at_the_end_of_the_load_still_counts(simulated):
    """Half as many jobs again as the group can do: the last one waits half as long as the load lasts, about."""
    one_child = ONE.replace("processes: 2", "processes: 1")
    found = simulated(one_child, [{"task": "work", "rate": "30/1m", "takes": "3s"}], 120.0)
    assert found["tasks"]["work"]["finished"] == found["tasks"]["work"]["jobs"]
    assert found["tasks"]["work"]["wait_max"] == pytest.approx(60, rel=0.5)
    assert found["queues"]["default"]["backlog"] == pytest.approx(20, rel=0.5)


def test_the_night_the_clocks_change(simulated):
    """A nightly entry ticks once in the night with 25 hours, by the clock of the simulation."""
    from datetime import datetime

    text = ONE + 'cron: {nightly: {task: work, schedule: "30 2 * * *", timezone: Europe/Berlin}}\n'
    begin = datetime.fromisoformat("2026-10-25T00:00+02:00")
    found = simulated(text, [{"task": "work", "rate": "1/1h"}], 6 * 3600.0, begin=begin)
    assert found["cron"] == {"nightly": {"ran": 1, "skipped": 0, "why": ""}}


def test_a_tick_that_finds_the_last_job_still_running_is_passed_over(simulated):
    """`overlap: skip`, as the history of the entry says."""
    text = ONE + "cron: {often: {task: work, every: 10s}}\n"
    found = simulated(text, [{"task": "work", "rate": "1/1h", "takes": "25s"}], 300.0)
    assert found["cron"]["often"] == {"ran": 10, "skipped": 19, "why": "overlap"}
