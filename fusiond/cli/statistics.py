"""`fusiond ps` and `stats`: what runs now, and how it compares with what is usual."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import UsageError
from fusiond.cli.find import broker, entry
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count, span, tell

if TYPE_CHECKING:
    from fusiond.broker.counters import Bound, Tally
    from fusiond.inspecting.statistics import Hours

#: of a job that runs so many times as long as half of its task's others, `ps` says so
_NOTED: Final = 2.0
_HEADINGS: Final = ("ENDED", "FAILED", "PER-HOUR", "RAN-50/95%", "WAITED-50/95%")
OFF: Final = "nothing was counted: Redis counts jobs if `metrics: true` or `web` is in the file"


def register(subparsers: Any) -> None:
    """Add `ps` and `stats`."""
    running = arguments.command(subparsers, "ps", _ps)
    running.add_argument("--task", metavar="TASK", action="append", default=[], help="may be repeated; default: all")
    stats = arguments.command(subparsers, "stats", _stats)
    what = "`queue`: of queues in place of tasks; with a name: of that one, by the hour"
    stats.add_argument("what", nargs="*", metavar="[task|queue] [NAME]", help=what)
    since = "since then: 24h, or a time in ISO 8601; Redis has whole hours, of 30 days; default: 24h"
    stats.add_argument("--since", type=arguments.since, metavar="TIME", help=since)
    compare = "beside each row, the same so much earlier, such as 24h"
    stats.add_argument("--compare", type=arguments.positive_duration, metavar="TIME", help=compare)
    for each in (running, stats):
        arguments.add_broker(each)


def _ps(options: arguments.Options) -> None:
    """
    [broker] Show the jobs that run now on all hosts, the longest first.

    USUAL is the time within which half of the task's attempts of the last 7 days ran, if there were 20, and how many
    times as long the job runs. Redis knows it if `metrics: true` or `web` is in the file.
    """
    from fusiond.cli.job.record import share
    from fusiond.cli.status.workers import ask_workers
    from fusiond.inspecting.statistics import usual_times

    with broker.session(options) as session:
        workers = ask_workers(session, {})
        running = [{**job, "worker": worker.name} for worker in workers for job in worker.jobs]
        jobs = sorted(running, key=lambda job: -job["ms"])
        jobs = [job for job in jobs if not options.task or job["task"] in options.task]
        usual = session.run(usual_times(session.verbs, session.queues(), {job["task"] for job in jobs}, time.time()))
    for job in jobs:
        job["usual_s"] = usual.get(job["task"])
    rows = [
        (
            job["job"],
            job["task"],
            span(job["ms"] / 1000),
            _usual(job["ms"] / 1000, job["usual_s"]),
            job["worker"],
            share(job["share"], job["message"]) if "share" in job else "",
        )
        for job in jobs
    ]
    headings = ("JOB", "TASK", "RUNS FOR", "USUAL", "WORKER", "PROGRESS")
    arguments.answer(options, jobs, lambda: table(headings, rows))
    if silent := [worker.name for worker in workers if worker.state in ("silent", "gone")]:
        tell(f"{count(len(silent), 'worker')} did not answer, and their jobs are not shown: {', '.join(silent)}")


def _usual(seconds: float, usual: float | None) -> str:
    """`5s (12 ×)`, `5s`, or "" if it is not known."""
    if usual is None:
        return ""
    return span(usual) + (f" ({seconds / usual:,.0f} ×)" if seconds >= _NOTED * usual else "")


def _stats(options: arguments.Options) -> None:
    """
    [broker] Show how many jobs ended, how many failed, and how long they ran and waited: of all tasks, or by the hour.

    `<25ms/<2s` means that half of the attempts took 25 ms at most, and 95 % took 2 s.

    Redis counts if `metrics: true` or `web` is in the file.
    """
    from fusiond.inspecting.statistics import hours_between

    now = time.time()
    since = now - 86_400 if options.since is None else options.since
    shift = options.compare or 0.0
    with broker.session(options) as session:
        kind, name = _meant(options.what, session)
        queues = session.queues(*[name] if kind == "queue" and name else [])
        spans = {"now": hours_between(since, now)}
        if shift:
            spans["before"] = hours_between(since - shift, now - shift)
        found = {when: session.run(session.verbs.hours(queues, hours)) for when, hours in spans.items()}
    grouped = {when: _grouped(found[when], kind, name, shift if when == "before" else 0.0) for when in spans}
    if not any(grouped.values()):
        tell(OFF)
    elif shift and not grouped["before"]:
        tell("nothing was counted in the time before, so there is nothing to compare with")
    hours = 1.0 if name else max(1.0, (now - since) / 3600)
    rows = [
        (key, when, tallies[key])
        for key in sorted({key for tallies in grouped.values() for key in tallies})
        for when, tallies in grouped.items()
        if key in tallies
    ]
    document = [{"name": key, "span": when, **_document(tally, hours)} for key, when, tally in rows]
    cells = [(key, *([when] if shift else []), *_cells(tally, hours)) for key, when, tally in rows]
    first = "HOUR" if name else kind.upper()
    headings = (first, *(["SPAN"] if shift else []), *_HEADINGS)
    arguments.answer(options, document, lambda: table(headings, cells, right=" ".join(_HEADINGS).lower()))


def _meant(words: list[str], session: broker.Session) -> tuple[str, str]:
    """`task` or `queue`, and the name of one; "": of all. Raises FusionError for a name that is not known."""
    kind, names = (words[0], words[1:]) if words[:1] in (["task"], ["queue"]) else ("", words)
    if len(names) > 1:
        raise UsageError("name one task or one queue")
    if not names:
        return kind or "task", ""
    tasks, queues = session.run(session.verbs.catalogue()).tasks, session.queues()
    known = dict.fromkeys(queues if kind != "task" else (), "queue") | dict.fromkeys(
        tasks if kind != "queue" else (), "task"
    )
    return entry(kind or "task or queue", known, names[0]), names[0]


def _grouped(counted: Hours, kind: str, name: str, shift: float) -> dict[str, Tally]:
    """Task, queue or local hour → what was counted. `shift`: s by which the hours are named later."""
    from fusiond.inspecting.statistics import by_hour, by_queue, by_task, of_task

    if not name:
        return by_queue(counted) if kind == "queue" else by_task(counted)
    chosen = of_task(counted, name) if kind == "task" else counted
    return {
        time.strftime("%Y-%m-%d %H:%M", time.localtime(hour * 3600 + shift)): tally
        for hour, tally in by_hour(chosen).items()
    }


def _cells(tally: Tally, hours: float) -> tuple[object, ...]:
    """As of _HEADINGS."""
    share = f" ({tally.failed / tally.ended:.1%})" if tally.failed else ""
    times = ["/".join(_bound(times.quantile(part)) for part in (0.5, 0.95)) for times in (tally.run, tally.wait)]
    return (tally.ended, f"{tally.failed:,}{share}", f"{tally.ended / hours:,.1f}", *times)


def _bound(bound: Bound | None) -> str:
    """`<5s`, `>2h`, `-` for nothing."""
    return f"{'>' if bound.above else '<'}{span(bound.limit)}" if bound else "-"


def _document(tally: Tally, hours: float) -> dict[str, Any]:
    """As JSON; times are bounds in s, null above the last one, or where none ran."""
    times = {
        f"{name}_{part}_s": None if bound is None or bound.above else bound.limit
        for name, histogram in (("run", tally.run), ("wait", tally.wait))
        for part, share in (("p50", 0.5), ("p95", 0.95))
        for bound in [histogram.quantile(share)]
    }
    numbers = {name: getattr(tally, name) for name in ("finished", "failed", "canceled", "retry", "crashes")}
    return {**numbers, "per_hour": tally.ended / hours, **times}
