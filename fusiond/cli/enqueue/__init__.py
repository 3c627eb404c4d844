"""`fusiond enqueue`: one job, or one for each line of JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.enqueue import words
from fusiond.cli.exits import OK, REFUSED, UsageError
from fusiond.cli.find import broker
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.text import count, json_text, legible, one_line, span, tell
from fusiond.errors import BrokerError, BrokerUnavailable, JobFailed, ResultTimeout

if TYPE_CHECKING:
    from collections.abc import Collection

    from fusiond.enqueue_options import Options
    from fusiond.producer.new_jobs import JobRef
    from fusiond.producer.plans import Producer

#: seconds after which `--wait` checks whether anything serves the queue
_CHECK: Final = 10.0
_EXAMPLES: Final = """\
examples:
  fusiond enqueue send_otp +4912345 code=1234 --priority high
  fusiond enqueue report region=eu retries:=3 --in 10m
  fusiond enqueue report --at 2030-01-31T02:00+01:00 --key report-2030-01
  fusiond enqueue report --wait 30
  fusiond enqueue - < jobs.jsonl       one job a line: {"task": "report", "args": [], "kwargs": {"region": "eu"}}
"""


def register(subparsers: Any) -> None:
    """Add `enqueue`."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = arguments.command(subparsers, "enqueue", _enqueue, epilog=_EXAMPLES, formatter_class=raw)
    add, lasting = parser.add_argument, arguments.positive_duration
    add("task", metavar="TASK", help="a task of the file; - reads JSON lines")
    words.add_options(parser)
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--in", dest="delay", type=arguments.duration, metavar="TIME", help="run after this time, such as 5m or 1h30m"
    )
    when.add_argument(
        "--at", type=arguments.moment, metavar="TIME", help="run at this time, in ISO 8601; without an offset: local"
    )
    add("--priority", type=words.scalar, metavar="P", help="a name from the file, or 0 to 255; higher runs first")
    add("--queue", metavar="Q", help="another queue than the task's")
    same = parser.add_mutually_exclusive_group()
    same.add_argument("--key", metavar="K", help="a second call with this key for this task returns the first job")
    same.add_argument("--id", metavar="ID", help="the job's id: 1 to 128 letters, digits and _:.-")
    add("--expires", type=lasting, metavar="TIME", help="no attempt begins later than this; it fails with EXPIRED")
    add("--timeout", type=lasting, metavar="TIME", help="the timeout of one attempt, instead of the task's")
    add("--retry", metavar="POLICY", help="a retry policy of the file, instead of the task's")
    add("--result-ttl", type=arguments.duration, metavar="TIME", help="how long it is kept once it has finished")
    add("--failure-ttl", type=arguments.duration, metavar="TIME", help="how long it is kept once it has failed")
    add("--description", metavar="TEXT", help="a text for people, which job show shows")
    trace = "the span in which it is enqueued, as a W3C traceparent; default: $TRACEPARENT"
    add("--traceparent", metavar="TRACE", help=trace)
    add("--meta", type=words.json_object, metavar="JSON", help="what the function receives with pass_job")
    add("--log-tag", metavar="TAG", help="a word that is added to the job's log lines")
    for word, end in (("success", "finished"), ("failure", "failed")):
        what = f"the task or URL that is called when the job has {end}; empty: none"
        add(f"--on-{word}", type=words.callback, metavar="CALL", help=what)
    add("--after", action="append", metavar="QUEUE/ID", help="wait for this job; can be repeated")
    add("--join", type=words.scalar, metavar="N", help="how many of them must end well: all, any, or a number")
    add("--on-parent-failure", choices=("fail", "run"), help="if not enough of them can end well any more")
    wait = "wait until the job has ended, and print its result"
    add("--wait", nargs="?", type=_wait, const=math.inf, metavar="SECONDS", help=wait)
    arguments.add_broker(parser)


def _wait(text: str) -> float:
    try:
        return arguments.job_timeout(text)
    except argparse.ArgumentTypeError as error:  # argparse takes the word behind --wait, which may be an argument
        raise argparse.ArgumentTypeError(f"{error}; put --wait last, or write --wait=30") from None


def _enqueue(options: arguments.Options) -> int:
    """[broker] Enqueue one job, or one for each line of JSON on standard input."""
    import dataclasses

    from fusiond.enqueue_options import Options
    from fusiond.producer.plans import Producer
    from fusiond.producer.tracing import of_environment

    options.traceparent = options.traceparent or of_environment()
    common = Options(**{field.name: getattr(options, field.name) for field in dataclasses.fields(Options)})
    with broker.session(options) as session:
        producer = Producer(session.verbs, "memory")
        if options.task == "-":
            return _lines(session, producer, common, options)
        args, kwargs = words.arguments(options)
        place = session.run(producer.enqueue(common, options.task, args, kwargs))
        if options.wait is None:
            announce(place, options)
        else:
            warn_unserved([] if place.served else [place.queue])
            print(json_text(_result(session, producer, place, options.wait)))
    return OK


def announce(place: JobRef, options: arguments.Options) -> None:
    """Print the job's name, and a warning if no worker group serves it."""
    document = {"job": place.name, "queue": place.queue, "id": place.id, "served": bool(place.served)}
    if place.existing:
        document["existing"] = True
        tell(f"{place.name} was there already; its task is `unique`, so no other job was stored")
    arguments.answer(options, document, lambda: place.name)
    warn_unserved([] if place.served else [place.queue])


def warn_unserved(queues: Collection[str]) -> None:
    """Warn that jobs in these queues wait for a worker group."""
    for queue in sorted(queues):
        tell(
            f"warning: no living worker group serves queue '{queue}' for this task;"
            " jobs wait there until one does (fusiond status)"
        )


def _result(session: broker.Session, producer: Producer, place: JobRef, seconds: float) -> Any:
    """What the job returned; if it failed, its traceback is printed on standard error and JobFailed is raised."""
    try:
        try:
            return session.run(producer.result(place, min(seconds, _CHECK)))
        except (ResultTimeout, BrokerUnavailable):
            if seconds <= _CHECK:
                raise
        with contextlib.suppress(BrokerUnavailable):
            _say_why_waiting(session, place)
        return session.run(producer.result(place, seconds - _CHECK))
    except JobFailed as failure:
        if failure.traceback:
            print(legible(failure.traceback.rstrip()), file=sys.stderr)
        message = f"{failure.message} (fusiond job show {place.name})"
        raise JobFailed(failure.code, failure.type, message) from failure


def _say_why_waiting(session: broker.Session, place: JobRef) -> None:
    """Print why nothing begins the job, if that is so."""
    from fusiond.cli.status.workers import asking
    from fusiond.inspecting.why_waiting import why_waiting

    with contextlib.suppress(BrokerError):  # the wait itself raises it too
        record = session.run(session.verbs.job(place.queue, place.id))
        if record is not None and (why := session.run(why_waiting(session.verbs, record, asking(session), span))):
            tell(f"{place.name} waits: {why}")


def _lines(session: broker.Session, producer: Producer, common: Options, options: arguments.Options) -> int:
    """Enqueue a job for each line of standard input; with --json, print the job's name for each line."""
    from fusiond.cli.enqueue import lines

    if options.words or options.args or options.kwargs or options.wait is not None or options.key or options.id:
        raise UsageError("with -, arguments, keys and ids are in the lines, and there is no --wait")
    refused = 0
    unserved: set[str] = set()
    with Progress("jobs enqueued") as progress:
        for number, outcome in lines.enqueue(session, producer, sys.stdin.buffer, common):
            if isinstance(outcome, str):
                refused += 1
                progress.clear()
                print(one_line(f"line {number}: {outcome}"), file=sys.stderr)
                continue
            progress.to(progress.done + 1)
            if not outcome.served:
                unserved.add(outcome.queue)
            if options.json:
                print(json.dumps({"line": number, "job": outcome.name}))
    warn_unserved(unserved)
    if not options.json:
        print(f"{count(progress.done, 'job')} enqueued" + (f", {count(refused, 'line')} refused" if refused else ""))
    return REFUSED if refused else OK
