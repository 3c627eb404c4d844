"""Config → programs: pure."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from fusiond.config.accepted.snapshot import Snapshot
from fusiond.config.model import Broker, Config, WorkerGroup
from fusiond.config.model.cron_entries import CronEntry
from fusiond.config.model.event_log import Events, Sink
from fusiond.config.model.outboxes import Outbox
from fusiond.config.model.web_face import Web
from fusiond.redis_server import Server
from fusiond.supervise.wanted_programs import RunOptions, loaded_for, part_of, wanted_programs

OPTIONS = RunOptions(Path("/s"), Path("/r"), Server("Redis", (7, 2, 0), "/usr/bin/redis-server"))


def snapshot(*groups, url="embedded", generation=4, socket_group=None):
    config = Config(broker=Broker(url=url, socket_group=socket_group), workers={group.name: group for group in groups})
    return Snapshot(generation, "hash", config, Path("/s/current.json"))


def generations(found, generation=3):
    return {part_of(name): generation for name in found.config.workers}


def test_the_dashboard_runs_where_the_file_has_it_and_only_permits_it():
    """Without `web:` there is no such program; on a host of its own it runs beside a publisher."""
    found = snapshot(WorkerGroup("main"), url="redis://elsewhere")
    shown = replace(found, config=replace(found.config, web=Web()))
    assert "web" not in wanted_programs(found, generations(found), OPTIONS)
    assert list(wanted_programs(shown, generations(found), OPTIONS)) == ["scheduler", "web", "worker:main@3"]
    for only, names in (("web", ["publisher", "web"]), ("main", ["publisher", "worker:main@3"])):
        alone = replace(OPTIONS, only=frozenset({only}))
        assert list(wanted_programs(shown, generations(found), alone)) == names


def test_an_outbox_has_a_program_as_a_sink_has():
    """Its argument is its name, never an address; `--only` names it like a group."""
    events, outbox = Events(sinks={"audit": Sink("file", path="/x")}), Outbox(("a",), url="postgresql://u:hunter2@h/d")
    found = snapshot(WorkerGroup("main"), url="redis://elsewhere")
    found = replace(found, config=replace(found.config, events=events, outboxes={"shop": outbox}))
    programs = wanted_programs(found, generations(found), OPTIONS)
    assert list(programs) == ["scheduler", "sink:audit", "outbox:shop", "worker:main@3"]
    assert programs["outbox:shop"].entry == "fusiond.outbox.__main__:entry_point"
    assert programs["outbox:shop"].arguments[-2:] == ("--outbox", "shop")
    alone = replace(OPTIONS, only=frozenset({"outbox:shop"}))
    assert list(wanted_programs(found, generations(found), alone)) == ["publisher", "outbox:shop"]


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
