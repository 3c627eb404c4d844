"""Config → programs: pure."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Broker, Config, WorkerGroup
from fusiond.config.model.cron_entries import CronEntry
from fusiond.config.model.web_face import Web
from fusiond.redis_server import Server
from fusiond.supervise.wanted_programs import SETTLE, RunOptions, loaded_for, part_of, wanted_programs

OPTIONS = RunOptions(Path("/s"), Path("/r"), Server("Redis", (7, 2, 0), "/usr/bin/redis-server"))


def snapshot(*groups, url="embedded", generation=4, socket_group=None):
    config = Config(broker=Broker(url=url, socket_group=socket_group), workers={group.name: group for group in groups})
    return Snapshot(generation, "hash", config, Path("/s/current.json"))


def generations(found, generation=3):
    return {part_of(name): generation for name in found.config.workers}


def test_redis_comes_first_then_the_scheduler_then_the_groups():
    """In start order, each under the name that supervisorctl shows."""
    found = snapshot(WorkerGroup("main"), WorkerGroup("other"))
    assert list(wanted_programs(found, generations(found), OPTIONS)) == [
        "redis",
        "scheduler",
        "worker:main@3",
        "worker:other@3",
    ]


def test_a_broker_elsewhere_needs_no_server():
    """Only `embedded` is ours to run."""
    found = snapshot(url="redis://elsewhere")
    assert list(wanted_programs(found, {}, OPTIONS)) == ["scheduler"]


def test_only_keeps_redis_and_what_is_named():
    """A group would be no use without its broker, nor without producers that know its tasks."""
    found = snapshot(WorkerGroup("main"), WorkerGroup("other"))
    only = replace(OPTIONS, only=frozenset({"other"}))
    assert list(wanted_programs(found, generations(found), only)) == ["redis", "publisher", "worker:other@3"]


def test_the_dashboard_runs_where_the_file_has_it_and_only_permits_it():
    """Without `web:` there is no such program; on a host of its own it runs beside a publisher."""
    found = snapshot(WorkerGroup("main"), url="redis://elsewhere")
    shown = replace(found, config=replace(found.config, web=Web()))
    assert "web" not in wanted_programs(found, generations(found), OPTIONS)
    assert list(wanted_programs(shown, generations(found), OPTIONS)) == ["scheduler", "web", "worker:main@3"]
    for only, names in (("web", ["publisher", "web"]), ("main", ["publisher", "worker:main@3"])):
        alone = replace(OPTIONS, only=frozenset({only}))
        assert list(wanted_programs(shown, generations(found), alone)) == names


@pytest.mark.parametrize(
    ("hosts", "host", "runs"),
    [
        ((), "web-1", True),
        (("batch-*",), "web-1", False),
        (("batch-*",), "Batch-07.example.com", True),
        (("web-2", "web-1"), "web-1", True),
        (("web",), "web-1", False),
        (("web-[0-3]",), "web-4", False),
    ],
)
def test_a_group_runs_on_the_hosts_that_it_names(hosts, host, runs):
    """Names and globs, whatever their case; `fusiond dev` runs all groups, since it has one host."""
    found = snapshot(WorkerGroup("main", hosts=hosts), url="redis://elsewhere")
    wanted = wanted_programs(found, generations(found), replace(OPTIONS, host=host))
    assert ("worker:main@3" in wanted) is runs
    dev = replace(OPTIONS, host=host, development=True)
    assert "worker:main@3" in wanted_programs(found, generations(found), dev)


def test_a_worker_is_told_its_snapshot_and_its_group():
    """It runs isolated from the working directory, and may take its drain and a moment more to stop."""
    found = snapshot(WorkerGroup("main", processes=3, drain_timeout=60.0))
    worker = wanted_programs(found, generations(found), OPTIONS)["worker:main@3"]
    told = ("--snapshot", "/s/current.json", "--runtime", str(OPTIONS.runtime), "--group", "main")
    assert (worker.command[1:], worker.arguments) == (("-P", "-m", "fusiond.worker.__main__"), told)
    assert (worker.slots, worker.stop_seconds, worker.reads) == (3, 60.0 + SETTLE, 4)


def test_the_server_is_run_by_the_standard_library_alone():
    """No site-packages, no environment; its socket is opened to a group only if the file says so."""
    plain = wanted_programs(snapshot(), {}, OPTIONS)["redis"]
    assert plain.command[1:3] == ("-I", "-S")
    assert Path(plain.command[3]).is_file()
    assert "--group" not in plain.arguments
    opened = wanted_programs(snapshot(socket_group="shop"), {}, OPTIONS)["redis"].arguments
    assert opened[opened.index("--group") + 1] == "shop"


def test_no_secret_is_in_a_command_line():
    """Whatever the broker's url holds stays in the snapshot."""
    found = snapshot(WorkerGroup("main", environment={"PASSWORD": "hunter2"}), url="redis://:hunter2@elsewhere")
    assert "hunter2" not in str(
        [program.arguments for program in wanted_programs(found, generations(found), OPTIONS).values()]
    )


def test_a_group_without_a_birth_is_a_mistake():
    """Each group was started at some generation."""
    with pytest.raises(KeyError):
        wanted_programs(snapshot(WorkerGroup("main")), {}, OPTIONS)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True), st.integers(1, 99), max_size=8))
def test_each_group_is_one_program_with_its_own_name(groups):
    """Names are distinct, parts are distinct, and neither depends on the snapshot's own number."""
    found = snapshot(*(WorkerGroup(name) for name in groups))
    born = {part_of(name): generation for name, generation in groups.items()}
    made = wanted_programs(found, born, OPTIONS)
    assert {f"worker:{name}@{generation}" for name, generation in groups.items()} == set(made) - {"redis", "scheduler"}
    assert len({program.part for program in made.values()}) == len(made)
    assert list(wanted_programs(replace(found, generation=9), born, OPTIONS)) == list(made)


@pytest.mark.parametrize(
    ("scheme", "entry", "needed"),
    [
        ("redis", {"every": 60.0}, []),
        ("redis", {"schedule": "@daily"}, ["croniter"]),
        ("redis+cluster", {}, ["fusiond.broker.redis.cluster", "fusiond.broker.redis.discovery.cluster_map"]),
        ("rediss+sentinel", {"schedule": "0 2 * * *"}, ["fusiond.broker.redis.discovery.sentinels", "croniter"]),
    ],
)
def test_programs_load_beforehand_what_the_file_needs(scheme, entry, needed):
    """Each of them takes a megabyte or more, which daemons with other files do without."""
    config = Config(broker=Broker(url=f"{scheme}://elsewhere"), cron={"c": CronEntry("c", "t", **entry)})
    assert loaded_for(config) == needed
    for name in needed:
        importlib.import_module(name)
