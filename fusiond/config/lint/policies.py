"""
The policies of tasks: what exceeds or excludes something else, what has no effect, what can never match.

1. check        timeouts, expiry, priorities, `pass_job`, and the drain of the groups that run the tasks
2. check_retry  retry policies
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Final

from fusiond.config.layers import all_maps, node_of
from fusiond.config.lint.suggest import Suggestions
from fusiond.config.units import seconds, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config, RetryPolicy, Task
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

_EXCEPTIONS: Final = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each pair of values that do not go together."""
    for settings in all_maps(root, "tasks"):
        yield from _times(settings)
    yield from _drains(root, config)
    for name in () if "moderate" in config.priorities else config.tasks:
        if not node_of(root, "tasks", name, "priority"):
            message = f"tasks.{name} has no priority, and `priorities` declares no 'moderate', which is the default"
            remedy = "add defaults: {tasks: {priority: …}}"
            yield root.nearest("tasks", name).error("no-default-priority", message, remedy)
            break
    for name, entry in config.cron.items():
        keyword = config.tasks[entry.task].pass_job
        if keyword is not None and keyword in entry.kwargs:
            message = f"the keyword {keyword!r} is the one that pass_job of {entry.task!r} fills"
            yield root.nearest("cron", name, "kwargs", keyword).error("keyword-taken", message, "rename one of the two")


def check_retry(root: Node, config: Config) -> Iterator[Problem]:
    """Each retry policy that does not do what it says, and each `expires` that retries outlast."""
    suggest = Suggestions(_EXCEPTIONS)
    for name, node in root.entries("retry_policies"):
        yield from _without_effect(node, config.retry_policies[name])
        yield from _exceptions(node, suggest)
    yield from _late_retries(root, config)


def _times(settings: Node) -> Iterator[Problem]:
    expires, timeout = settings.get("expires"), settings.get("timeout")
    if expires is not None and isinstance(expires.value, str) and seconds(expires.value) == 0:
        yield expires.place.error("out-of-range", "with expires: 0s no job ever begins", "write 1s or more, or null")
    if timeout is None:
        return
    soft, hard = timeout.get("soft") or timeout, timeout.get("hard")
    limit = seconds(str(soft.value))
    if limit == 0:
        yield soft.place.error("out-of-range", "with a timeout of 0s nothing can run", "write 1s or more")
    elif hard is not None and isinstance(hard.value, str) and seconds(hard.value) <= limit:
        message = f"the hard timeout {hard.raw} is not above the soft one, {soft.raw}"
        yield hard.place.error("timeout-order", message, f"write more than {soft.raw}, such as {written(limit + 10)}")


def _drains(root: Node, config: Config) -> Iterator[Problem]:
    """A shutdown that kills jobs which their timeout would let run; not where the file sets neither of the two."""
    longest_of: dict[str, Task] = {}
    for task in sorted(config.tasks.values(), key=lambda task: task.timeout.hard):
        longest_of[task.queue] = longest_of["*"] = task
    for name, group in config.workers.items():
        served = [longest_of[queue] for queue in group.queues if queue in longest_of]
        longest = max(served, key=lambda task: task.timeout.hard, default=None)
        if longest is None or group.drain_timeout >= longest.timeout.hard:
            continue
        if node_of(root, "workers", name, "drain_timeout") or node_of(root, "tasks", longest.name, "timeout"):
            drain, hard = written(group.drain_timeout), written(longest.timeout.hard)
            cost = "fail" if config.retry_policies[longest.retry].at_most_once else "run again"
            message = f"workers.{name}: a shutdown kills jobs after {drain}, and {longest.name!r} may run for {hard}"
            remedy = f"write drain_timeout: {hard}, or accept that such jobs {cost}"
            yield root.nearest("workers", name, "drain_timeout").warning("short-drain", message, remedy)


# -- retry policies ---------------------------------------------------------------------------------------------------


def last_retry(policy: RetryPolicy) -> float:
    """Seconds from the first failure to the last attempt, without jitter."""
    return sum(policy.delay_after(failures) for failures in range(1, policy.max_attempts))


def _without_effect(node: Node, policy: RetryPolicy) -> Iterator[Problem]:
    if policy.max_attempts == 1:
        ignored = [key for key in ("backoff", "delay", "max_delay", "jitter") if key in node.keys]
        if ignored:
            message = f"{ignored[0]} has no effect beside max_attempts: 1"
            yield node.keys[ignored[0]].warning("ignored-key", message, "remove it, or allow more attempts")
        return
    kind = {"list": "beside a list of delays", "fixed": "on a fixed delay"}.get(policy.backoff, "")
    for key in {"list": ("delay", "max_delay"), "fixed": ("max_delay",)}.get(policy.backoff, ()):
        if key in node.keys:
            yield node.keys[key].warning("ignored-key", f"{key} has no effect {kind}", "remove it")
    if not kind and policy.delay > policy.max_delay:
        delay = written(policy.delay)
        message = f"the delay {delay} is above max_delay, {written(policy.max_delay)}, which limits it"
        yield node.nearest("delay").warning("delay-above-max", message, f"write max_delay: {delay} or more")
    # A job waits after a hard timeout, which counts as a crash, as it does after a failure.
    used = policy.max_attempts - 1 + policy.max_crashes
    for surplus in node.items("backoff")[used : used + 1]:
        counts = f"max_attempts: {policy.max_attempts} and max_crashes: {policy.max_crashes}"
        message = f"the delay {surplus.raw} is never used: {counts} allow {used}"
        remedy = f"write max_attempts: {len(policy.delays) + 1 - policy.max_crashes}"
        yield surplus.place.warning("unused-delay", message, remedy)


def _exceptions(node: Node, suggest: Suggestions) -> Iterator[Problem]:
    """Names without a module that are no built-in exception, and names of retry_on that give_up_on covers."""
    refused = [str(item.value) for item in node.items("give_up_on")]
    for item in (*node.items("retry_on"), *node.items("give_up_on")):
        name = str(item.value)
        if "." not in name and name not in _EXCEPTIONS:
            remedy = suggest(name) or f"write its module, too: package.module.{name}"
            yield item.place.warning("unknown-exception", f"there is no built-in exception {item.raw!r}", remedy)
    for item in node.items("retry_on"):
        covering = next((other for other in refused if _covers(other, str(item.value))), None)
        if covering is not None:
            message = f"{item.raw} is never retried: give_up_on has {covering}, and wins"
            yield item.place.warning("never-retried", message, "remove one of the two")


def _covers(base: str, name: str) -> bool:
    known = base in _EXCEPTIONS and name in _EXCEPTIONS
    return base == name or (known and issubclass(_EXCEPTIONS[name], _EXCEPTIONS[base]))


def _late_retries(root: Node, config: Config) -> Iterator[Problem]:
    """`expires` covers the first attempt only: a retry may come long after it. Once for each `expires` and policy."""
    seen, used = set(), {task.retry for task in config.tasks.values()}
    lasts = {name: last_retry(config.retry_policies[name]) for name in used}
    for name, task in config.tasks.items():
        node, last = node_of(root, "tasks", name, "expires"), lasts[task.retry]
        if node is None or task.expires is None or task.expires >= last or (node.place, task.retry) in seen:
            continue
        seen.add((node.place, task.retry))
        message = (
            f"expires: {node.raw} covers the first attempt only; the last retry of {task.retry!r} may begin "
            f"{written(last)} after it"
        )
        yield node.place.warning("late-retries", message, "take a policy that ends sooner, or a longer expires")
