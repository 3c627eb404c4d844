"""
The tests of a file: promises that hold or do not hold in a simulation of it.

1. read   the file of tests: nodes with their places, by its schema
2. make   the tests: loads, hosts, faults, promises. What they name must be in the file
3. run    one of them, and compare its promises with the figures of the simulation
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from fusiond.config import units
from fusiond.config.lint.reports import as_text
from fusiond.config.lint.suggest import nearest
from fusiond.config.model import Config
from fusiond.config.problems import Problem
from fusiond.config.schema import check
from fusiond.config.yaml.includes import read_tree
from fusiond.config.yaml.nodes import Node, Place
from fusiond.errors import ConfigError
from fusiond.simulation.load_files import read_load, stream
from fusiond.simulation.loads import Load, LoadError
from fusiond.simulation.replay import BEGIN, Conditions, Fault
from fusiond.simulation.variants import check_tasks, simulate

#: what a promise is about → its section in a file, that in a result, and its noun
_SECTIONS = {
    "task": ("tasks", "tasks", "task"),
    "queue": ("queues", "queues", "queue"),
    "group": ("workers", "groups", "worker group"),
    "cron": ("cron", "cron", "cron entry"),
}
_HOLDS = {"at_most": operator.le, "at_least": operator.ge, "exactly": operator.eq}


class Promise(NamedTuple):
    """A bound for one figure."""

    #: task, queue, group or cron
    subject: str
    name: str
    figure: str
    #: at_most, at_least or exactly
    bound: str
    #: as it is in the file: a number of things, a duration, or a share
    limit: Node

    def broken(self, result: Mapping[str, Any]) -> Problem | None:
        """What was promised, what happened in that simulation, and when; None: the promise holds."""
        actual, moment = self._figure(result)
        if actual is not None and _HOLDS[self.bound](actual, _number(self.limit.value)):
            return None
        about = f"{self.figure} of {_SECTIONS[self.subject][2]} {self.name!r}: expected {self.bound.replace('_', ' ')}"
        said = f"{about} {self.limit.raw}, was {self._shown(actual)}"
        if moment is not None:
            what = "the peak was" if self.figure == "backlog" else "the longest wait ended"
            at = datetime.fromisoformat(result["begin"]) + timedelta(seconds=moment)
            said += f"; {what} {units.written(moment)} after the begin, {at.isoformat(timespec='seconds')}"
        return self.limit.place.error("broken-promise", said)

    def _figure(self, result: Mapping[str, Any]) -> tuple[float | None, float | None]:
        """The figure and the s from the begin of a peak; None: there is none, as of a task of which no job began."""
        said = result[_SECTIONS[self.subject][1]].get(self.name, {})
        if self.figure.startswith("wait_"):
            actual = said.get(self.figure)
            return actual, said["wait_max_at"] if actual is not None else None
        name = "ran" if self.figure == "ticks" else self.figure
        return said.get(name, None if self.subject == "group" else 0), said.get(f"{name}_at")

    def _shown(self, actual: float | None) -> str:
        if actual is None:
            return "nothing, since no host runs it" if self.subject == "group" else "nothing, since no job of it began"
        if self.subject == "group":
            return f"{actual:.1%}"
        return units.written(actual) if self.figure.startswith("wait_") else f"{actual:,}"


class FileTest(NamedTuple):
    """One of the tests."""

    name: str
    place: Place
    load: Load
    conditions: Conditions
    promises: list[Promise]
    #: of the simulation, once it was run
    result: Mapping[str, Any] = {}

    def run(self, config: Config, on_progress: Callable[[int], None] = lambda _: None) -> FileTest:
        """The test with its result. Takes and raises what `simulate` does, and KeyboardInterrupt."""
        result = simulate(config, self.load, self.conditions, on_progress)
        if result["interrupted"] is not None:
            raise KeyboardInterrupt
        del result["memory"]  # the rest is the same each time
        return self._replace(result=result)

    @property
    def problems(self) -> list[Problem]:
        """One for each promise that does not hold."""
        return [*filter(None, (each.broken(self.result) for each in self.promises))]


def read_tests(path: Path, environ: Mapping[str, str]) -> Node:
    """The file of tests, which fits its schema. Raises ConfigError."""
    tree = read_tree(path, environ)
    root, problems = tree.root, set(tree.problems)
    if root is not None and not problems:
        problems |= set(check(root, schema="fusion-tests"))
        if "tests" not in root.keys and root.keys.keys() & {"broker", "queues", "tasks", "workers"}:
            remedy = f"run `fusiond test -c {path}`, which reads the tests beside it"
            problems = {root.place.error("no-tests-file", "this file has no tests", remedy)}
    if root is None or problems:
        raise _refused(path, problems)
    return root


def make_tests(root: Node, config: Config) -> list[FileTest]:
    """The tests for this configuration. Raises ConfigError if they name what it does not have."""
    maker = _Maker(root, config)
    tests = [maker.test(node) for node in root.items("tests")]
    if maker.problems:
        raise _refused(root.place.source.name, maker.problems)
    return tests


def _refused(file: Path | str, problems: Iterable[Problem]) -> ConfigError:
    return ConfigError(f"{file} cannot be used\n{as_text([*problems])}")


class _Maker:
    """Makes the tests, and collects problems; a test with a problem is not meant to be run."""

    def __init__(self, root: Node, config: Config) -> None:
        self._root, self._config = root, config
        #: many tests may replay one large recording
        self._read_load = functools.cache(read_load)
        self.problems: set[Problem] = set()

    def test(self, node: Node) -> FileTest:
        """The test."""
        said = node.data()
        clock, seed, scale = said.get("clock", {}), said.get("seed", 1), said.get("load", {}).get("scale", 1.0)
        hosts, load, begin = self._hosts(node), self._load(node.get("load"), seed), BEGIN
        written = said.get("for") or clock.get("for")
        length = units.seconds(written) if written else load.length()
        with self._at(node.nearest("clock", "from")):
            begin = datetime.fromisoformat(clock["from"]) if "from" in clock else BEGIN
        with self._at(node.nearest("load")):
            next(load.arrivals(length, scale), None)  # refuses a load that is too large
        faults = [self._fault(each, hosts, length) for each in node.items("faults")]
        promises = [promise for each in node.items("expect") for promise in self._promises(each)]
        return FileTest(said["name"], node.place, load, Conditions(length, begin, scale, hosts, faults, seed), promises)

    def _hosts(self, test: Node) -> dict[str, int]:
        node, groups = test.get("hosts") or self._root.get("hosts"), self._config.workers.values()
        hosts: dict[str, int] = node.data() if node else {}
        for name, place in node.keys.items() if node else ():
            if not any(group.runs_on(host) for group in groups for host in _names({name: hosts[name]})):
                known = {host for group in groups for host in group.hosts}
                self._unknown("host", name, place, known, "no worker group runs on host")
        return hosts

    def _load(self, node: Node | None, seed: int) -> Load:
        if node and (file := node.get("file")):
            with self._at(file.place):
                load, _ = self._read_load(str(Path(file.place.source.name).parent / str(file.value)), seed)
                check_tasks(load, [self._config])
                return load
        streams = []
        for job in node.items("jobs") if node else ():
            with self._at(job.nearest("task")):
                check_tasks(Load([stream(job.data(), "load.jobs")], seed, {}, None), [self._config])
                streams.append(stream(job.data(), "load.jobs"))
        return Load(streams, seed, {}, None)

    def _fault(self, node: Node, hosts: Mapping[str, int], length: float) -> Fault:
        said = node.data()
        if units.seconds(said["at"]) >= length:
            message = f"the fault begins at {said['at']}, and the test lasts {units.written(length)}"
            self.problems.add(
                node.nearest("at").error("bad-value", message, "begin it earlier, or write a longer `for`")
            )
        self._unknown("host", said["host"], node.nearest("host"), {*hosts, *_names(hosts)}, "`hosts` does not have")
        return Fault(said["host"], units.seconds(said["at"]), units.seconds(said["for"]))

    def _promises(self, node: Node) -> Iterator[Promise]:
        """The bounds of one item of `expect`."""
        subject = next(word for word in _SECTIONS if word in node.keys)
        section, _, noun = _SECTIONS[subject]
        name = str(node.text(subject))
        # What starts a flow is not simulated.
        known = [name for name, entry in getattr(self._config, section).items() if not getattr(entry, "flow", None)]
        self._unknown(subject, name, node.nearest(subject), known, f"a simulation of the file has no {noun}")
        for figure, bounds in node.entries():
            for bound, limit in bounds.entries():
                yield Promise(subject, name, figure, bound, limit)

    def _unknown(self, what: str, name: str, place: Place, known: Collection[str], message: str) -> None:
        """Unless the name is a known one, a problem."""
        if name not in known:
            self.problems.add(place.error(f"unknown-{what}", f"{message} {name!r}", nearest(name, known)))

    @contextlib.contextmanager
    def _at(self, place: Place) -> Iterator[None]:
        """What is raised is a problem at this place."""
        try:
            yield
        except (LoadError, ValueError) as error:
            self.problems.add(place.error("bad-value", str(error)))


def _names(hosts: Mapping[str, int]) -> list[str]:
    return Conditions(0, hosts=hosts).host_names()


def _number(value: Any) -> float:
    """Of what the schema takes: a number of things, a share, a duration."""
    if isinstance(value, int):
        return value
    return units.share(value) if value.endswith("%") else units.seconds(value)
