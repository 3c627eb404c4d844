"""What a job has printed, asked of the hosts on which it ran: what they have behind the part that was shown last."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusiond.inspecting.output_question import OutputFound, ask
from fusiond.job import JobRecord
from fusiond.masking import masked_job
from fusiond.web.endpoint import WebCall, reads
from fusiond.web.filters import span
from fusiond.web.inputs import BadInput, Input
from fusiond.web.pages.job_pages import JOB, ONE, job_of

_ATTEMPT = Input("attempt", "the number of an attempt; none: all", form="number", least=1)
_AFTER = Input("after", "as the answer before has it; none: from the begin", form="object", longest=6000)


@dataclass(frozen=True, slots=True)
class PrintedPart:
    """Lines that an attempt has printed."""

    attempt: int
    #: when the last of it was printed: epoch ms by the clock of the host
    at: int
    host: str
    text: str


@dataclass(frozen=True, slots=True)
class Printed:
    """What the hosts have answered."""

    #: its full name
    job: str
    task: str
    parts: list[PrintedPart]
    #: where the next question goes on
    after: dict[str, str]
    #: there is more by now
    more: bool
    ended: bool
    #: what may be missing, and why; empty: nothing
    note: str


async def _show(call: WebCall) -> Printed:
    job = await job_of(call)
    backend, given = call.backend, call["after"] or {}
    if not all(isinstance(place, str) for place in given.values()):
        raise BadInput("after: give it as the answer before has it")
    found = await backend.run(ask(backend.verbs, job.id, call["attempt"], given, queue=job.queue))
    secret = await backend.secret()
    parts = [
        PrintedPart(part.attempt, part.at, answer.host, masked_job(replace(job, printed=part.text), secret).printed)
        for answer in found.answers
        for part in answer.parts
    ]
    known = {*given, *(answer.daemon for answer in found.answers)}
    after = {daemon: place for daemon, place in found.after.items() if daemon in known}
    note = _note(found, job, anything=bool(parts or given))
    return Printed(job.name, job.task, parts, after, found.more, job.status.ended, note)


def _note(found: OutputFound, job: JobRecord, *, anything: bool) -> str:
    if not found.is_kept:
        return "No daemon keeps what jobs print: write `job_output: {}` into the file."
    if found.silent:
        silent = ", ".join(f"{each.host}, last seen {span(each.silent)} ago" for each in found.silent)
        return f"These hosts keep output, and do not answer: {silent}."
    nothing = "It has printed nothing that is still kept." if job.status.ended else "It has printed nothing so far."
    return "" if anything else nothing


_INPUTS = (*JOB, _ATTEMPT, _AFTER)
ENDPOINTS = (reads(f"{ONE}/output", _show, "What a job has printed", Printed, "output.html", _INPUTS, right="logs"),)
