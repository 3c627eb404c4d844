"""
What the file says of one worker group, in the form in which its dispatcher looks it up for each job.

There is one GroupConfig in a dispatcher. A reload that the group follows in place replaces what is in it, so all who
hold it read the new file from the next job on. Who must also act on the change has a method `follow`, which the
dispatcher calls (dispatcher/loop.py).
"""

from __future__ import annotations

from pathlib import Path

from fusiond.config.model import Config, RetryPolicy, Task, WorkerGroup
from fusiond.worker.pool.attempt import Attempt
from fusiond.worker.pool.call_options import call_options


class GroupConfig:
    """The accepted configuration, as one group needs it."""

    def __init__(self, config: Config, group: WorkerGroup, generation: int = 0, state: Path = Path()) -> None:
        #: of the configuration
        self.generation = generation
        #: the daemon's state directory
        self.state = state
        self.replace(config, group)

    def replace(self, config: Config, group: WorkerGroup) -> None:
        """Take over a file that has changed; `group`: the one of this dispatcher in it."""
        self.config, self.group = config, group
        #: task → what the file says of it, and its retry policy
        self.tasks = {name.encode(): (task, config.retry_policies[task.retry]) for name, task in config.tasks.items()}
        #: for a task that the file has no more, while its job runs
        self.owners = config.owners
        self._default = Task("", ""), config.retry_policies["standard"]
        #: the tasks whose jobs may begin once only
        self.once = frozenset(name for name, (_, policy) in self.tasks.items() if policy.at_most_once)
        pools = frozenset(name for name, (task, _) in self.tasks.items() if task.pools)
        #: the tasks whose jobs need slots of pools before they begin
        self.pooled = pools if config.max_running is None else frozenset(self.tasks)
        #: the tasks of which it claims no more jobs than children are free
        self.few = self.once | pools

    def task(self, name: bytes) -> tuple[Task, RetryPolicy]:
        """What the file says of a task, and its retry policy."""
        return self.tasks.get(name, self._default)

    def policy(self, attempt: Attempt) -> RetryPolicy:
        """The retry policy that its call names, if the file has that one, or else that of its task."""
        named = self.config.retry_policies.get(call_options(attempt.header).retry or "")
        return named or self.task(attempt.task)[1]
