"""What needs attention, as sentences with a link each: the worst first. What is fine is not mentioned."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fusiond.broker.event_verbs import SinkState
from fusiond.broker.hosts.host_records import FileInForce
from fusiond.broker.outbox_verbs import OutboxState
from fusiond.broker.records import HeldTask
from fusiond.inspecting.outbox_states import all_outbox_sentences
from fusiond.schedule.drift import Drift, differences
from fusiond.schedule.held_keeping import sentence, suspension
from fusiond.status_document import StatusDocument
from fusiond.web.filters import plural, span
from fusiond.web.pages.cron_pages import CronRow
from fusiond.web.pages.queue_pages import QueueRow
from fusiond.web.pages.worker_pages import WorkerRow

#: seconds that a job may have waited before that is mentioned
LONG_WAIT = 300.0
#: seconds that a job runs, and for how many times as long as half of its task's others, before that is mentioned
LONG_RUN, UNUSUAL = 10.0, 10.0
#: such jobs that are mentioned
_LONG_RUNS = 5
#: in this order
Level = Literal["bad", "warning", "note"]
_ORDER: tuple[Level, ...] = ("bad", "warning", "note")


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing that needs attention."""

    level: Level
    sentence: str
    #: where more about it is, or it can be helped
    link: str


def of_daemon(status: StatusDocument | None) -> Iterator[Attention]:
    """What the daemon of this host says of itself."""
    if status is None:
        yield Attention("bad", "the daemon of this host does not answer on its control socket", "/workers")
        return
    for name, why in status["unready"].items():
        yield Attention("bad", f"{name} does not serve: {why}", "/workers")
    reload = status["reload"]
    if reload and reload["result"] == "refused":
        first = reload["reason"].partition("\n")[0]
        yield Attention("bad", f"the last reload was refused: {first}", "/configuration")
    elif status["file_differs"]:
        yield Attention("note", "the file differs from the configuration that runs", "/configuration")


def of_queues(queues: Sequence[QueueRow]) -> Iterator[Attention]:
    """Queues in which jobs are stuck."""
    for queue in queues:
        if queue.waiting and queue.drained_on:
            by = f"{plural(queue.waiting, 'job')} in queue {queue.name}, whose worker groups are drained"
            yield Attention("warning", f"{by} on {', '.join(queue.drained_on)}", "/queues")
        elif queue.waiting and not queue.served:
            stuck = f"{plural(queue.waiting, 'job')} in queue {queue.name}, which no living worker group serves"
            yield Attention("bad", stuck, "/queues")
        elif queue.suspended_by and queue.waiting:
            by = f"queue {queue.name} is suspended by the {queue.suspended_by}"
            yield Attention("warning", f"{by}; {plural(queue.waiting, 'job')} in it", "/queues")
        elif (queue.oldest_wait_ms or 0) > LONG_WAIT * 1000:
            wait = span((queue.oldest_wait_ms or 0) / 1000)
            yield Attention("warning", f"a job of queue {queue.name} has been ready for {wait}", "/queues")
        if queue.lost:
            lost = f"{plural(queue.lost, 'job')} of queue {queue.name} lost the lease and waits to be taken back"
            yield Attention("warning", lost, f"/jobs?state=started&queue={queue.name}")


def of_held_tasks(stuck: Sequence[tuple[str, HeldTask]]) -> Iterator[Attention]:
    """Jobs that no living worker group can run."""
    for queue, held in stuck:
        yield Attention("bad", sentence(queue, held), f"/jobs?state=held&queue={queue}")


def of_suspended_tasks(tasks: Mapping[str, HeldTask]) -> Iterator[Attention]:
    """Tasks that somebody has suspended."""
    for task, held in tasks.items():
        yield Attention("warning" if held.jobs else "note", suspension(held), f"/jobs?state=held&task={task}")


def of_workers(workers: Sequence[WorkerRow]) -> Iterator[Attention]:
    """Workers that do not do their work."""
    for worker in workers:
        if worker.state == "gone":
            sentence = f"worker {worker.name} of group {worker.group} does not answer: killed, frozen or cut off"
            yield Attention("warning", sentence, "/workers")
        elif worker.trouble:
            yield Attention("bad", f"worker {worker.name} of group {worker.group}: {worker.trouble}", "/workers")


def of_long_runs(workers: Sequence[WorkerRow], usual: Mapping[str, float]) -> Iterator[Attention]:
    """Jobs that run for far longer than others of their task, the worst first. `usual`: task → s."""
    heard = [job for worker in workers if worker.state != "gone" for job in worker.jobs if job.task in usual]
    times = {job: job.runs_ms / 1000 / usual[job.task] for job in heard if job.runs_ms >= LONG_RUN * 1000}
    for job in sorted((job for job in times if times[job] > UNUSUAL), key=lambda each: -times[each])[:_LONG_RUNS]:
        sentence = f"job {job.job} of task {job.task} runs {times[job]:,.0f} × longer than usual"
        both = f"for {span(job.runs_ms / 1000)}, and half of its task's others ran below {span(usual[job.task])}"
        yield Attention("warning", f"{sentence}: {both}", f"/jobs/{job.job}")


def of_unkilled(unkilled: Sequence[tuple[str, str]]) -> Iterator[Attention]:
    """Processes that outlived SIGKILL."""
    for worker, job in unkilled:
        sentence = f"the process of job {job} on {worker} was killed and has not ended"
        yield Attention("bad", sentence, f"/jobs/{job}")


def of_cron(entries: Sequence[CronRow]) -> Iterator[Attention]:
    """Entries of which nothing has finished for too long."""
    for entry in entries:
        if entry.overdue_since is not None:
            late = span(max(0.0, time.time() - entry.overdue_since / 1000))
            sentence = f"cron entry {entry.name} is overdue since {late}: none of its jobs has finished"
            yield Attention("bad", sentence, "/cron")


def of_files(files: Sequence[FileInForce], drifts: Sequence[Drift]) -> Iterator[Attention]:
    """Hosts that run different files."""
    if len(files) > 1:
        names = [f"{kind} {', '.join(found[:5])}" for kind, found in differences(files).items()]
        which = f": {'; '.join(names)}" if names else ""
        yield Attention("warning", f"living daemons run {len(files)} different files{which}", "/configuration")
    for drift in drifts:
        yield Attention("warning", str(drift), "/cron")


def of_sinks(sinks: Mapping[str, SinkState]) -> Iterator[Attention]:
    """Sinks that are behind with the events."""
    for name, state in sinks.items():
        if state.is_late:
            why = f": {state.failing}" if state.failing else ""
            yield Attention("warning", f"sink {name} is {span(state.delay)} behind with events{why}", "/workers")


def of_outboxes(outboxes: Mapping[str, OutboxState]) -> Iterator[Attention]:
    """Outboxes whose rows wait, or were refused."""
    for each in all_outbox_sentences(outboxes, time.time(), span):
        yield Attention("warning", each, "/outboxes")


def sorted_by_level(found: Sequence[Attention]) -> list[Attention]:
    """The worst first, otherwise as they came."""
    return sorted(found, key=lambda each: _ORDER.index(each.level))
