"""What a recording needs of a job and events do not have: its keys of `by` and `fair_by`, and whether it is a step."""

from __future__ import annotations

from fusiond.argument_values import values_of
from fusiond.broker.event_records import Event
from fusiond.config.model import Config
from fusiond.inspecting.job_display import arguments
from fusiond.job import JobRecord


class JobKeys:
    """Of the jobs of one file. The values are arguments: they leave this program as an HMAC only."""

    def __init__(self, config: Config) -> None:
        #: task → the arguments that its limit counts by
        self._by = {name: task.limit_by for name, task in config.tasks.items() if task.limit_by}
        steps = {step.task for flow in config.flows.values() for step in flow.steps.values()}
        self._tasks = self._by.keys() | steps
        self._fair = {name for name, queue in config.queues.items() if queue.fair_by}

    def are_in(self, event: Event) -> bool:
        """Whether the event is the arrival of a job that may have some."""
        return event.name == "enqueued" and (event.task in self._tasks or event.stream in self._fair)

    def of(self, job: JobRecord) -> dict[str, str | bool]:
        """`by`, `fair_by` and `flow`, of which it has them; no two tasks or queues have the same keys."""
        found: dict[str, str | bool] = {"flow": True} if job.run else {}
        if job.tenant and not job.tenant.endswith("="):
            found["fair_by"] = f"{job.queue} {job.tenant}"
        args, kwargs = arguments(job.args)
        try:
            by = values_of(self._by.get(job.task, ()), args, kwargs)
        except ValueError:  # its arguments lack one, or cannot be read
            by = ""
        return found | ({"by": f"{job.task} {by}"} if by else {})
