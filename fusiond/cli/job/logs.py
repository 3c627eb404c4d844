"""`fusiond job logs`: what a job has printed, from the hosts on which it ran."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.find import broker
from fusiond.cli.find.job import find_job
from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.text import json_text, legible, span, tell
from fusiond.errors import BrokerUnavailable, JobNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.broker.hosts.outputs import OutputAnswer, OutputPart
    from fusiond.inspecting.output_question import OutputFound
    from fusiond.job import JobRecord

    #: hides the secret arguments of the job in a text
    Mask = Callable[[str], str]

#: s; from one question to the next with --follow; from the end of a job to the last one, by when all is written
_AGAIN, _WRITTEN = 0.5, 1.0
#: s; to the next question while Redis is away
_AWAY = 2.0
_OFF = "no daemon keeps what jobs print: write `job_output: {}` into the file"


def register(commands: Any) -> None:
    """Add `job logs`."""
    logs = arguments.command(commands, "logs", _logs)
    logs.add_argument("job", metavar="JOB", help="queue/id, or the id alone")
    logs.add_argument("--follow", "-f", action="store_true", help="go on with what comes, until the job has ended")
    tail = "begin with the last N lines; default: with the first line that is kept"
    logs.add_argument("--tail", "-n", type=arguments.positive_number, metavar="N", help=tail)
    logs.add_argument("--attempt", type=arguments.positive_number, metavar="N", help="of this attempt; default: all")
    arguments.add_broker(logs)


def _logs(options: arguments.Options) -> int:
    """
    [broker] Show what a job has printed and logged, from any host, also while it runs.

    Daemons keep it if `job_output` is in the file. Otherwise Redis has the end of what a failed attempt has printed.
    With --json each line is one part of the output.
    """
    from fusiond.inspecting.output_question import ask

    with broker.session(options) as session:
        record = _record(session, options.job)
        mask = _mask(session, record)
        shown = _Shown(mask, as_json=options.json, tail=options.tail)
        queue = record.queue if record else options.job.rpartition("/")[0] or None
        found = session.run(ask(session.verbs, _id(options.job), options.attempt, queue=queue))
        shown.show(found)
        after, ended_at = found.after, _ended_at(record)
        try:
            while found.more or (options.follow and time.monotonic() < ended_at):
                if not found.more:
                    time.sleep(_AGAIN)
                try:
                    found = session.run(ask(session.verbs, _id(options.job), options.attempt, after, queue=queue))
                    if options.follow and ended_at == float("inf"):
                        ended_at = _ended_at(_record(session, options.job))
                except BrokerUnavailable as error:
                    tell(f"{error}; tried again")
                    time.sleep(_AWAY)
                    continue
                after = found.after
                shown.show(found)
            shown.end()
        except KeyboardInterrupt:
            return OK
        return OK if shown.any else _without_output(found, record, mask, options)


def _id(name: str) -> str:
    return name.rpartition("/")[2]


def _record(session: broker.Session, name: str) -> JobRecord | None:
    """The job; None: Redis has it no more, and hosts may still have what it has printed."""
    try:
        return find_job(session, name)
    except JobNotFound:
        return None


def _ended_at(record: JobRecord | None) -> float:
    """Monotonic s by which all is written that the job has printed."""
    return float("inf") if record and not record.status.ended else time.monotonic() + _WRITTEN


def _mask(session: broker.Session, record: JobRecord | None) -> Mask:
    from fusiond.masking import masked_job

    secret = session.secret() if record else {}
    return lambda text: masked_job(replace(record, printed=text), secret).printed if record else text


class _Shown:
    """Prints parts, with a heading for each attempt."""

    def __init__(self, mask: Mask, *, as_json: bool, tail: int | None) -> None:
        """`tail`: lines that are shown of what there is by now; None: all."""
        self._mask, self._as_json, self._tail = mask, as_json, tail
        self.any = False
        self._attempt = (0, "")
        #: what there is so far, if the end of that is to be shown
        self._kept: list[tuple[OutputAnswer, OutputPart]] = []

    def show(self, found: OutputFound) -> None:
        """Print it; with a tail, once the answers have come to the end of what there is."""
        parts = [(answer, part) for answer in found.answers for part in answer.parts]
        self.any = self.any or bool(parts)
        self._kept += parts
        if self._tail is None or not found.more:
            self.end()

    def end(self) -> None:
        """Print what was kept back."""
        parts, self._kept = self._kept, []
        if self._tail is not None:
            parts, self._tail = _last_lines(parts, self._tail), None
        for each in parts:
            self._show(*each)

    def _show(self, answer: OutputAnswer, part: OutputPart) -> None:
        text = self._mask(part.text)
        if self._as_json:
            said = {"attempt": part.attempt, "at": part.at, "host": answer.host, "text": text}
            print(json_text(said), flush=True)
            return
        if (part.attempt, answer.host) != self._attempt:
            self._attempt = part.attempt, answer.host
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(part.at / 1000))
            print(paint(f"-- attempt {part.attempt} on {answer.host}, {moment}", "dim"))
        print(legible(text), end="", flush=True)


def _last_lines(parts: list[tuple[OutputAnswer, OutputPart]], most: int) -> list[tuple[OutputAnswer, OutputPart]]:
    """The parts with the last lines alone."""
    found = []
    for answer, part in reversed(parts):
        lines = part.text.splitlines(keepends=True)[-most:] if most else []
        most -= len(lines)
        if lines:
            found.append((answer, replace(part, text="".join(lines))))
    return found[::-1]


def _without_output(found: OutputFound, record: JobRecord | None, mask: Mask, options: arguments.Options) -> int:
    """Say why there is nothing, and show what Redis has."""
    if record and record.printed and options.attempt in (None, record.printed_attempt):
        tell(f"no host answers that it has more: this is the end of what attempt {record.printed_attempt} has printed")
        print(legible(mask(record.printed)), end="")
        return OK
    if found.silent:
        silent = ", ".join(f"{each.host}, last seen {span(each.silent)} ago" for each in found.silent)
        tell(f"no host that answers has output of this job; these keep output, and do not answer: {silent}")
        return REFUSED
    if not found.is_kept:
        tell(_OFF)
        return REFUSED
    if record is None:
        raise JobNotFound(f"no job {options.job!r}, and no host has output of it; see fusiond job list")
    tell("it has printed nothing so far" if not record.status.ended else "it has printed nothing that is still kept")
    return OK
