"""`fusiond enqueue`: one job, or one for each line of JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import numbers, source, words
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.progress import Progress
from fusiond.cli.table import count, json_text, legible, print_json
from fusiond.errors import BrokerError, EnqueueError, JobFailed
from fusiond.job import NOT_LOADED, JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fusiond.broker.call import Plan
    from fusiond.cli.source import Desk
    from fusiond.enqueue_options import Options
    from fusiond.producer import JobRef, Producer

#: seconds after which `--wait` looks whether anything serves the queue
DOUBT: Final = 10.0
_EXAMPLES: Final = """\
  fusiond enqueue send_otp +4912345 code=1234 --priority high
  fusiond enqueue report region=eu retries:=3 --in 10m
  fusiond enqueue report --at 2030-01-31T02:00+01:00 --key report-2030-01
  fusiond enqueue report --wait 30
  fusiond enqueue - < jobs.jsonl       one job a line: {"task": "report", "args": [], "kwargs": {"region": "eu"}}
"""


def register(subparsers: Any) -> None:
    """Add `enqueue`."""
    parser = subparsers.add_parser(
        "enqueue",
        help="[broker] enqueue one job, or one for each line of JSON on standard input",
        epilog=f"examples:\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("task", metavar="TASK", help="a task of the file; - reads JSON lines")
    words.add_options(parser)
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--in", dest="delay", type=_duration, metavar="DURATION", help="run after this time, such as 5m or 1h30m"
    )
    when.add_argument(
        "--at", type=_moment, metavar="TIME", help="run at this time, in ISO 8601; without an offset: local time"
    )
    parser.add_argument("--priority", metavar="P", help="a name from the file, or 0 to 255; higher runs first")
    parser.add_argument("--queue", metavar="Q", help="another queue than the task's")
    same = parser.add_mutually_exclusive_group()
    same.add_argument("--key", metavar="K", help="a second call with this key for this task returns the first job")
    same.add_argument("--id", metavar="ID", help="the job's id: 1 to 128 letters, digits and _:.-")
    parser.add_argument(
        "--expires",
        type=_lasting,
        metavar="DURATION",
        help="if it has not begun within this time, it fails with EXPIRED",
    )
    parser.add_argument("--timeout", type=_lasting, metavar="DURATION", help="of one attempt, instead of the task's")
    parser.add_argument(
        "--meta", type=words.json_object, metavar="JSON", help="what the function receives with pass_job"
    )
    parser.add_argument("--log-tag", metavar="TAG", help="a word that is added to the job's log lines")
    parser.add_argument(
        "--wait",
        nargs="?",
        type=numbers.wait,
        const=float("inf"),
        metavar="SECONDS",
        help="wait until the job has ended, and print its result",
    )
    source.add_broker_options(parser)
    source.add_json_option(parser)
    parser.set_defaults(handler=_enqueue)


def _duration(text: str) -> str:
    from fusiond.enqueue_options import duration

    _check(duration, text)
    return text


def _lasting(text: str) -> str:
    from fusiond.enqueue_options import lasting

    _check(lasting, text)
    return text


def _moment(text: str) -> datetime:
    from fusiond.enqueue_options import moment

    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            found = found.astimezone()
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2030-01-31T02:00+01:00") from error
    _check(moment, found)
    return found


def _check(check: Callable[[str, Any], object], given: object) -> None:
    """Refuse what the producer would, as a word of the option: argparse says which one."""
    try:
        check("", given)
    except EnqueueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix(": ")) from error


def _enqueue(options: argparse.Namespace) -> int:
    from fusiond.enqueue_options import Options
    from fusiond.producer import Producer

    names = ("delay", "at", "queue", "key", "id", "expires", "timeout", "meta", "log_tag")
    common = Options(priority=_priority(options), **{name: getattr(options, name) for name in names})
    with source.broker(options) as desk:
        producer = Producer(desk.verbs, "memory")
        if options.task == "-":
            return _lines(desk, producer, common, options)
        args, kwargs = words.arguments(options)
        place = desk.run(producer.enqueue(common, options.task, args, kwargs))
        if options.wait is None:
            announce(place, options)
            return OK
        warn_unserved([] if place.served else [place.queue])
        return _wait(desk, producer, place, options)


def announce(place: JobRef, options: argparse.Namespace) -> None:
    """Say where the job is, and whether it will wait there."""
    if options.json:
        job = {"job": f"{place.queue}/{place.id}", "queue": place.queue, "id": place.id, "served": bool(place.served)}
        print_json(job)
    else:
        print(f"{place.queue}/{place.id}")
    warn_unserved([] if place.served else [place.queue])


def warn_unserved(queues: Collection[str]) -> None:
    """Say of each queue that jobs which were put into it wait for a worker group."""
    for queue in sorted(queues):
        print(
            f"fusiond: warning: no living worker group serves queue '{queue}' for this task;"
            " jobs wait there until one does (fusiond status)",
            file=sys.stderr,
        )


def _wait(desk: Desk, producer: Producer, place: JobRef, options: argparse.Namespace) -> int:
    """The job's end: its result on standard output, or its traceback on standard error and the status of a failure."""
    try:
        result = desk.run(_noting(producer.result(place, options.wait), lambda: _say_unserved(desk, place)))
    except JobFailed as failure:
        if failure.traceback:
            print(legible(failure.traceback.rstrip()), file=sys.stderr)
        raise JobFailed(
            failure.code, failure.type, f"{failure.message} (fusiond job show {place.queue}/{place.id})"
        ) from failure
    print(json_text(result))
    return OK


def _noting(plan: Plan[Any], note: Callable[[], None]) -> Plan[Any]:
    """The plan, and `note()` once if it lasts longer than DOUBT seconds."""
    doubt = time.monotonic() + DOUBT
    reply: Any = None
    while True:
        try:
            step = plan.send(reply)
        except StopIteration as end:
            return end.value
        reply = yield step
        if time.monotonic() > doubt:
            doubt = math.inf
            note()


def _say_unserved(desk: Desk, place: JobRef) -> None:
    """Tell who waits that the job is not even begun, where nothing is there to begin it."""
    from fusiond.cli.workers import why_unserved

    with contextlib.suppress(BrokerError):  # the wait itself says what is wrong
        record = desk.run(desk.verbs.job(place.queue, place.id))
        if record is None:
            return
        if record.last_outcome == NOT_LOADED and record.status in (JobStatus.QUEUED, JobStatus.SCHEDULED):
            why = f"the code of task {record.task!r} does not load; fusiond status names module and line"
        else:
            why = why_unserved(desk, place.queue, record.task) if record.status is JobStatus.QUEUED else ""
        if why:
            print(f"fusiond: {place.queue}/{place.id} waits: {legible(why)}", file=sys.stderr, flush=True)


def _lines(desk: Desk, producer: Producer, common: Options, options: argparse.Namespace) -> int:
    """One job for each line of standard input; its places where --json asks for them."""
    from fusiond.cli import lines

    if options.words or options.args or options.kwargs or options.wait is not None or options.key or options.id:
        raise UsageError("with -, arguments, keys and ids are in the lines, and there is no --wait")
    refused = 0
    unserved: set[str] = set()
    with Progress("jobs enqueued") as progress:
        for answer in lines.enqueue(desk, producer, sys.stdin.buffer, common):
            if answer.place is None:
                refused += 1
                progress.note(f"line {answer.number}: {answer.refusal}")
                continue
            progress.add()
            if not answer.place.served:
                unserved.add(answer.place.queue)
            if options.json:
                print(json.dumps({"line": answer.number, "job": f"{answer.place.queue}/{answer.place.id}"}))
    warn_unserved(unserved)
    if not options.json:
        print(f"{count(progress.done, 'job')} enqueued" + (f", {count(refused, 'line')} refused" if refused else ""))
    return REFUSED if refused else OK


def _priority(options: argparse.Namespace) -> str | int | None:
    text: str | None = options.priority
    return int(text) if text is not None and text.isdecimal() else text
