"""
`python -m benchmarks.peers [NAME …]`: fusiond and its peers in turn, in rounds: A B C, C B A, A B C, …

1. install   the peers, if they are not there yet
2. round     the machine itself, then each measure, runner after runner, each on an empty Redis
3. compare   ours to theirs of the same round; the medians and quartiles of these ratios, and the gates
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import machine, number
from benchmarks.peers import environment, measures
from benchmarks.peers.postgres import Postgres
from benchmarks.peers.results import Bound, Results
from benchmarks.peers.runners import BULLMQ, FORK, FUSIOND, GRAPHILE, HUEY, RQ_FORK, RUNNERS, SIDEKIQ, Runner
from benchmarks.peers.session import GivenUp
from benchmarks.server import Server, describe_server

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    Figures = dict[str, float]
    #: names of rows that are measured together, mostly one; what measures them, once or in several parts, and
    #: returns for each part the figures of each row
    Rows = tuple[tuple[str, ...], Callable[[Server, float], Sequence[Sequence[Figures]]]]

FEW, MANY = f"backlog of {measures.SMALL:,}", f"backlog of {measures.LARGE:,}"
_WORK = {
    "drain": "drain, jobs/s",
    "workers": "workers' CPU, ms a job",
    "redis": "Redis' CPU, ms a job",
    "one": "enqueue one by one, /s",
    "many": "in bulk, /s",
    "waiting": "bytes waiting",
    "finished": "bytes finished",
}
_BRIEF = {name: _WORK[name] for name in ("drain", "workers", "redis", "one", "many")}
_DRAIN = {name: _WORK[name] for name in ("drain", "workers", "redis")}
_GROWING = {name: _WORK[name] for name in ("drain", "workers", "redis", "many")}
GATES = (
    Bound("work", "drain", FUSIOND, SIDEKIQ, floor=2.2),
    Bound("work", "drain", FUSIOND, GRAPHILE, floor=1.8),
    Bound("work", "drain", FUSIOND, BULLMQ, floor=3.5),
    Bound("work", "drain", FUSIOND, HUEY, floor=6),
    Bound("work", "drain", FORK, RQ_FORK, floor=11),
    Bound("latency", "p50", FUSIOND, SIDEKIQ, ceiling=1.1),
    Bound("latency", "p50", FORK, SIDEKIQ, ceiling=1.1),
    Bound("work", "many", FUSIOND, SIDEKIQ, floor=1.1),
    Bound("backlog", "drain", MANY, FEW, floor=0.95),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One measure of a round."""

    name: str
    title: str
    rows: Sequence[Rows]
    #: quantity → heading
    quantities: dict[str, str]
    rounds: int
    tcp: bool = True
    aof: bool = False


def steps(runners: Sequence[Runner]) -> list[Step]:
    """All measures of these runners, in the order of a round."""
    quick = [runner for runner in runners if runner.name in (FUSIOND, SIDEKIQ, BULLMQ, HUEY)]
    wide = [runner for runner in runners if runner.many_slots and not runner.fork]
    narrow = [runner for runner in runners if not runner.threads]
    settled = [runner for runner in narrow if not runner.analyze]
    single = {"p50": "p50, ms", "p99": "p99, ms"}
    idle = {"workers": "workers, % of a core", "redis": "Redis, % of a core", "memory": "memory of the workers, MB"}
    growing: list[Rows] = (
        [((FEW, MANY), measures.backlogs)] if any(runner.name == FUSIOND for runner in runners) else []
    )
    return [
        Step("work", "Work: TCP, no append-only file", _rows(measures.work, narrow), _WORK, 5),
        Step("latency", "From enqueue to start: TCP", _rows(measures.latency, settled), single, 5),
        Step("sleepers", "50 slots, jobs of 10 ms: TCP", _rows(measures.sleepers, wide), _DRAIN, 3),
        Step("backlog", "A backlog that grows: TCP", growing, _GROWING, 3),
        Step("work-unix", "Work: unix socket, no append-only file", _rows(measures.work, quick), _BRIEF, 2, tcp=False),
        Step("work-aof", "Work: TCP, append-only file", _rows(measures.work, quick), _BRIEF, 2, aof=True),
        Step(
            "work-aof-unix",
            "Work: unix socket, append-only file",
            _rows(measures.work, quick),
            _BRIEF,
            2,
            tcp=False,
            aof=True,
        ),
        Step("idle", "Idle, 8 slots: TCP", _rows(measures.idle, settled), idle, 1),
    ]


def _rows(measure: Callable[[Runner, Server | Postgres, float], Figures], runners: Sequence[Runner]) -> list[Rows]:
    def of(runner: Runner) -> Callable[[Server, float], Sequence[Sequence[Figures]]]:
        def one(server: Server, scale: float) -> Sequence[Sequence[Figures]]:
            # The Redis beside a PostgreSQL has nothing to do.
            with Postgres() if runner.postgres else nullcontext(server) as store:
                return [[measure(runner, store, scale)]]

        return one

    return [((runner.name,), of(runner)) for runner in runners]


def main() -> None:
    """Run the rounds, and print what was found."""
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description="fusiond and other job runners, in rounds.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="runners whose name contains this; fusiond always")
    parser.add_argument("--only", default="", metavar="MEASURE,…", help="some measures: work, latency, sleepers, …")
    parser.add_argument("--rounds", type=int, default=5, help="at most so many of each measure (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the jobs, for trying out")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, too")
    parser.add_argument("--strict", action="store_true", help="end with 1 where a gate is missed or not measured")
    options = parser.parse_args()
    wanted = [name.lower() for name in options.names]
    head, runners = _installed([runner for runner in RUNNERS if _is_wanted(runner, wanted)])
    print("\n".join(head), flush=True)
    plan = [step for step in steps(runners) if step.rows and (not options.only or step.name in options.only.split(","))]
    if not plan:
        parser.error(f"there is no measure {options.only}; there are {', '.join(step.name for step in steps(runners))}")
    results, failures = Results(), dict[tuple[str, tuple[str, ...]], str]()
    began = time.monotonic()
    # What was started is ended, and what was found is told, however the run ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for turn in range(options.rounds):
            _round(plan, turn, options.scale, results, failures)
    except KeyboardInterrupt:
        head.append("The run was interrupted.")
    head.append(f"{time.monotonic() - began:.0f} s, at most {options.rounds} rounds, scale {options.scale:g}.")
    asked = {runner.name for runner in RUNNERS if _is_wanted(runner, wanted)} | {FEW, MANY}
    failed = [f"{', '.join(rows)}, {step}: {why}" for (step, rows), why in failures.items()]
    text, kept = report(plan, results, head, failed, asked)
    print("\n" + text)
    if options.markdown:
        options.markdown.write_text(text + "\n")
    if options.strict and not kept:
        sys.exit(1)


def _is_wanted(runner: Runner, wanted: list[str]) -> bool:
    return runner.language == "fusiond" or not wanted or any(name in runner.name.lower() for name in wanted)


def _installed(runners: Sequence[Runner]) -> tuple[list[str], list[Runner]]:
    """What to say of the machine and of the versions; and the runners that are there."""
    versions, missing, there = {}, [], []
    for runner in runners:
        try:
            versions[runner.package] = environment.install(runner)
            there.append(runner)
        except environment.Missing as why:
            missing.append(f"{runner.name} is left out: {why}.")
    named = ", ".join(f"{package} {version}" for package, version in versions.items())
    return [machine(describe_server()) + ".", named + ".", *missing], there


def _round(
    plan: Sequence[Step],
    turn: int,
    scale: float,
    results: Results,
    failures: dict[tuple[str, tuple[str, ...]], str],
) -> None:
    itself = measures.machine()
    results.add("machine", "this machine", turn, itself)
    print(f"{turn + 1} machine: {', '.join(f'{name} {number(value)}' for name, value in itself.items())}", flush=True)
    for step in plan:
        # Backwards in every other round: what a row finds of the one before it then counts for nobody.
        for rows, measure in step.rows if turn % 2 == 0 else reversed(step.rows):
            if turn >= step.rounds or (step.name, rows) in failures:
                continue
            try:
                with Server(tcp=step.tcp, aof=step.aof) as server:
                    found = measure(server, scale)
            except GivenUp as why:
                failures[step.name, rows] = str(why)
                print(f"{turn + 1} {step.name}: {', '.join(rows)} is given up: {why}", flush=True)
                continue
            for part, each in enumerate(found):
                for row, figures in zip(rows, each, strict=True):
                    results.add(step.name, row, (turn, part), figures)
                    _say(f"{turn + 1} {step.name}: {row}", step.quantities, figures)


def _say(what: str, quantities: Mapping[str, str], figures: Figures) -> None:
    said = [f"{title} {number(figures[name])}" for name, title in quantities.items() if name in figures]
    print(f"{what}: {', '.join(said)}", flush=True)


def report(
    plan: Sequence[Step], results: Results, head: Sequence[str], failed: Sequence[str], asked: Collection[str]
) -> tuple[str, bool]:
    """Markdown, and whether all gates of these measures are kept. `asked`: the rows that were to be measured."""
    base = {runner.name: FORK if runner.fork else FUSIOND for runner in RUNNERS} | {FEW: MANY}
    titles = {name: title for step in plan for name, title in step.quantities.items()}
    itself = {"ping": "PING, µs", "fork": "fork, ms", "loop": "a million rounds of a loop, ms"}
    tables = [step.name for step in plan]
    bounds = [each for each in GATES if each.table in tables and {each.ours, each.theirs} <= set(asked)]
    gates, kept = results.gates(bounds, titles)
    parts = ["\n".join(head), *failed, results.table("machine", itself, {}), gates]
    parts += [f"### {step.title}\n\n{results.table(step.name, step.quantities, base)}" for step in plan]
    return "\n\n".join(parts), kept


if __name__ == "__main__":
    main()
