"""What follows the end of a task's jobs, and of a run of a flow, by the file; `fusiond/callbacks.py` has the forms."""

from __future__ import annotations

from fusiond.callbacks import WEBHOOK_TASK, Callback, follow_text
from fusiond.config.model import Config, Flow, Task, on_end


def follow_of(config: Config, task: Task) -> str:
    """The callbacks of a task's jobs; empty where it has none."""
    return follow_text(callbacks_in(config, task))


def callbacks_in(config: Config, of: Task | Flow) -> dict[str, Callback]:
    """`on_success` and `on_failure` of a task or a flow, as far as it has them."""
    return {key: _callback(config, said) for key, said in of.callbacks.items()}


def _callback(config: Config, said: on_end.Callback) -> Callback:
    """One callback, with what its job needs to know of the file."""
    target = config.tasks[said.task or WEBHOOK_TASK]
    found: Callback = {"queue": target.queue, "task": target.name, "priority": target.priority}
    if target.expires is not None:
        found["expires"] = round(target.expires * 1000)
    if target.unique and not target.unique.by:
        found["unique"] = target.unique.to_text()
    return found | ({"url": said.webhook} if said.webhook else {})
