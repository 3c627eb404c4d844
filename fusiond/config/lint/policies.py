"""
The policies of tasks and worker groups: values that exceed or exclude others, that have no effect, or that can never
match.

1. tasks     timeouts, expiry, priorities, `pass_job`, and the drain of the groups that run the tasks
2. policies  keys of retry policies that have no effect, names of exceptions, retries that come late
3. groups    keys that have no effect, and variables that do not do what they seem to do
"""

import builtins
import re
from collections.abc import Iterable, Iterator
from typing import Final

from fusiond.config.layers import all_maps, node_of, place_of
from fusiond.config.lint.suggest import Suggestions
from fusiond.config.model import Config, RetryPolicy, Task, WorkerGroup
from fusiond.config.model.commands import FAILURES
from fusiond.config.problems import Problem
from fusiond.config.units import seconds, written
from fusiond.config.yaml.nodes import Node

_EXCEPTIONS: Final = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
} | {FAILURES[0]: type(FAILURES[0], (Exception,), {})}

#: a set of characters of a glob; its first one may be a bracket
_SET: Final = re.compile(r"\[(!?\][^\]]*|![^\]]+|[^\]!][^\]]*)\]")
#: variables that the daemon and its children set themselves
_RESERVED: Final = frozenset({"FUSION_JOB_ID", "FUSION_LOADING", "FUSIOND_LINK", "NOTIFY_SOCKET"})
#: variables that are lists of directories
_SEARCHED: Final = frozenset({"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"})


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each value of a task, retry policy or worker group that is probably a mistake."""
    yield from _tasks(root, config)
    yield from _retries(root, config)
    yield from _groups(root, config)


# -- tasks ------------------------------------------------------------------------------------------------------------


def _tasks(root: Node, config: Config) -> Iterator[Problem]:
    for settings in all_maps(root, "tasks"):
        yield from _times(settings)
    yield from _drains(root, config)
    for name in () if "moderate" in config.priorities else root.names("tasks"):
        if not node_of(root, "tasks", name, "priority"):
            message = f"tasks.{name} has no priority, and `priorities` declares no 'moderate', which is the default"
            remedy = "add defaults: {tasks: {priority: …}}"
            yield root.nearest("tasks", name).error("no-default-priority", message, remedy)
            break
    yield from _uniqueness(root, config)
    yield from _callbacks(root, config)


def _uniqueness(root: Node, config: Config) -> Iterator[Problem]:
    for name, task in config.tasks.items():
        keys = root.names("tasks", name, "unique")
        if task.unique is None:
            continue
        for key, time in (("for", task.unique.for_), ("max_wait", task.unique.max_wait)):
            if time == 0:
                node = root.nearest("tasks", name, "unique", key)
                yield node.error("out-of-range", f"{key}: 0s has no effect", "write 1s or more, or remove the key")
        if task.unique.max_wait is not None and task.unique.on_conflict != "replace":
            message = f"max_wait has no effect with on_conflict: {task.unique.on_conflict}"
            yield keys["max_wait"].warning("ignored-key", message, "remove it, or write on_conflict: replace")
        if f"kwargs.{task.pass_job}" in task.unique.by:
            message = f"the keyword {task.pass_job!r} is the one that pass_job fills: no call has it"
            yield root.nearest("tasks", name, "unique", "by").error("unique-argument", message, "name another argument")


def _callbacks(root: Node, config: Config) -> Iterator[Problem]:
    """Each callback of a task whose jobs need other arguments than the one that they get."""
    for name, task in config.tasks.items():
        for key, said in task.callbacks.items():
            target = config.tasks.get(said.task or "")
            if target and ((target.unique and target.unique.by) or target.limit_by):
                message = f"{key} of {name!r}: {target.name!r} gets an `event` only, and is unique or limited by others"
                place = place_of(root, "tasks", name, key)
                yield place.error("unique-argument", message, "call another task, or leave out `by`")


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
    """Each group whose jobs may take longer than its drain_timeout, if the file sets one of the two times."""
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


def _retries(root: Node, config: Config) -> Iterator[Problem]:
    suggest = Suggestions(_EXCEPTIONS)
    for name, node in root.entries("retry_policies"):
        yield from _without_effect(node, config.retry_policies[name])
        yield from _snoozes(node, config.retry_policies[name])
        yield from _exceptions(node, suggest)
    yield from _late_retries(root, config)


def last_retry(policy: RetryPolicy) -> float:
    """Seconds from the first failure to the last attempt, without jitter."""
    return sum(policy.delay_after(failures) for failures in range(1, policy.max_attempts))


def _snoozes(node: Node, policy: RetryPolicy) -> Iterator[Problem]:
    if not policy.snooze_on and "max_snooze" in node.keys:
        yield node.keys["max_snooze"].warning("ignored-key", "max_snooze has no effect without snooze_on", "remove it")
    elif policy.max_snooze == 0:
        message = "with max_snooze: 0s a job fails at its first snooze"
        yield node.nearest("max_snooze").error("out-of-range", message, "write 1m or more, or remove snooze_on")
    for item in node.items("snooze_on")[:1] if policy.at_most_once else ():
        message = "with max_attempts: 1 and max_crashes: 0 a job begins once, and a snoozed job begins again"
        yield item.place.error("snooze-once", message, "remove snooze_on, or write max_crashes: 1")


def _without_effect(node: Node, policy: RetryPolicy) -> Iterator[Problem]:
    if policy.max_attempts == 1 and not policy.snooze_on:
        ignored = [key for key in ("backoff", "delay", "max_delay", "jitter") if key in node.keys]
        if ignored:
            message = f"{ignored[0]} has no effect with max_attempts: 1"
            yield node.keys[ignored[0]].warning("ignored-key", message, "remove it, or allow more attempts")
        return
    if policy.backoff == "list" and "delay" in node.keys:
        yield node.keys["delay"].warning("ignored-key", "delay has no effect with a list of delays", "remove it")
    if policy.backoff in ("linear", "exponential") and policy.delay > policy.max_delay:
        delay = written(policy.delay)
        message = f"the delay {delay} is above max_delay, {written(policy.max_delay)}, which limits it"
        yield node.nearest("delay").warning("delay-above-max", message, f"write max_delay: {delay} or more")
    # A hard timeout counts as a crash, and the job then waits as after a failure.
    used = policy.max_attempts - 1 + policy.max_crashes
    for surplus in node.items("backoff")[used : used + 1]:
        counts = f"max_attempts: {policy.max_attempts} and max_crashes: {policy.max_crashes}"
        message = f"the delay {surplus.raw} is never used: {counts} allow {used}"
        remedy = f"write max_attempts: {len(policy.delays) + 1 - policy.max_crashes}"
        yield surplus.place.warning("unused-delay", message, remedy)


def _exceptions(node: Node, suggest: Suggestions) -> Iterator[Problem]:
    """Names without a module that are not a built-in exception, and names of which another list has a class above."""
    for item in (*node.items("retry_on"), *node.items("give_up_on"), *node.items("snooze_on")):
        name = str(item.value)
        if "." not in name and name not in _EXCEPTIONS:
            remedy = suggest(name) or f"write its module, too: package.module.{name}"
            yield item.place.warning("unknown-exception", f"there is no built-in exception {item.raw!r}", remedy)
    for key, winners in (("retry_on", ("snooze_on", "give_up_on")), ("give_up_on", ("snooze_on",))):
        for item in node.items(key):
            yield from _overruled(node, key, item, winners)


def _overruled(node: Node, key: str, item: Node, winners: Iterable[str]) -> Iterator[Problem]:
    """An exception of the list `key` that one of the other lists covers, of which the first wins."""
    for winner in winners:
        for covering in (str(other.value) for other in node.items(winner)):
            if _covers(covering, str(item.value)):
                code, never = ("never-retried", "retried") if key == "retry_on" else ("never-given-up", "given up on")
                message = f"{item.raw} is never {never}: {winner} has {covering}, and wins"
                yield item.place.warning(code, message, "remove one of the two")
                return


def _covers(base: str, name: str) -> bool:
    known = base in _EXCEPTIONS and name in _EXCEPTIONS
    return base == name or (known and issubclass(_EXCEPTIONS[name], _EXCEPTIONS[base]))


def _late_retries(root: Node, config: Config) -> Iterator[Problem]:
    """A retry that would begin after `expires` is not made."""
    lasts = {name: last_retry(policy) for name, policy in config.retry_policies.items()}
    for name, task in config.tasks.items():
        node, last = node_of(root, "tasks", name, "expires"), lasts[task.retry]
        if node is not None and task.expires is not None and task.expires < last:
            late = f"the last one of {task.retry!r} would begin {written(last)} after the first failure"
            message = f"no retry begins after expires: {node.raw}; {late}, so it is not made"
            yield node.place.warning("late-retries", message, "take a policy that ends sooner, or a longer expires")


# -- worker groups ----------------------------------------------------------------------------------------------------


def _groups(root: Node, config: Config) -> Iterator[Problem]:
    for name, group in config.workers.items():
        keys = root.names("workers", name)
        yield from _at_once(root, group)
        yield from _range(root, group)
        yield from _globs(root, group)
        yield from _numbered(root, group, config)
        for key in ("max_jobs", "max_memory", "max_age"):
            if key in keys and group.isolation == "fork" and getattr(group, key) is not None:
                message = f"{key} has no effect with isolation: fork, where each job has a child of its own"
                yield keys[key].warning("ignored-key", message, "remove it, or write isolation: process")
        if group.max_age == 0:
            message = "with max_age: 0s each child is too old as soon as it has started"
            yield root.nearest("workers", name, "max_age").error("out-of-range", message, "write 1m or more, or null")
        if "order" in keys and len(group.queues) == 1 and group.queues != ("*",):
            yield keys["order"].warning("ignored-key", "order has no effect on a single queue", "remove it")
    for settings in all_maps(root, "workers"):
        yield from _variables(settings)


def _at_once(root: Node, group: WorkerGroup) -> Iterator[Problem]:
    """What has children run many jobs at once, where they cannot."""
    executor, concurrency = (node_of(root, "workers", group.name, key) for key in ("executor", "concurrency"))
    if executor and group.executor != "sync" and group.isolation == "fork":
        message = f"executor: {group.executor} with isolation: fork, where each job has a child of its own"
        yield executor.place.error("one-job-at-once", message, "write isolation: process, or remove executor")
    elif concurrency and group.concurrency > 1 and group.executor == "sync":
        message = f"concurrency: {group.concurrency} with executor: sync, which runs one job after the other"
        remedy = "write executor: asyncio or thread, and isolation: process; or remove concurrency"
        yield concurrency.place.error("one-job-at-once", message, remedy)


def _numbered(root: Node, group: WorkerGroup, config: Config) -> Iterator[Problem]:
    """A `slot_variable` whose numbers another group on the same hosts gives, too."""
    node = node_of(root, "workers", group.name, "slot_variable")
    for name, other in config.workers.items():
        may_meet = not group.hosts or other.hosts in ((), group.hosts)
        if node and name < group.name and may_meet and group.slot_variable == other.slot_variable is not None:
            message = f"the group {name!r} has slot_variable: {node.raw}, too, and both would begin at 0"
            yield node.place.error("shared-numbers", message, "serve the queues of both by one group")


def _globs(root: Node, group: WorkerGroup) -> Iterator[Problem]:
    """A bracket of `hosts` that is not a set of characters stands for itself, and no host has it in its name."""
    hosts = node_of(root, "workers", group.name, "hosts")
    for item in hosts.items() if hosts is not None else ():
        if re.search(r"[\[\]]", _SET.sub("", str(item.value))):
            message = f"{item.raw!r} matches no host: a bracket in it has no counterpart"
            yield item.place.error("broken-glob", message, "write a set of characters such as batch-[0-9], or batch-*")


def _range(root: Node, group: WorkerGroup) -> Iterator[Problem]:
    """A range of processes that is empty, or none; a target that cannot be met."""
    scaling, node = group.scaling, node_of(root, "workers", group.name, "processes")
    if scaling is None or node is None:
        return
    if scaling.min > scaling.max:
        message = f"min: {scaling.min} is above max: {scaling.max}"
        yield node.nearest("min").error("processes-order", message, f"write min: {scaling.max} or less")
    elif scaling.min == scaling.max and node.text("max") != "auto":
        message = f"from {scaling.min} to {scaling.max} the number of processes follows nothing"
        yield node.nearest("min").warning("ignored-key", message, f"write processes: {scaling.max}")
    if scaling.target_latency == 0:
        message = "with target_latency: 0s each job that waits at all would add processes"
        yield node.nearest("target_latency").error("out-of-range", message, "write 1s or more")


def _variables(settings: Node) -> Iterator[Problem]:
    places = settings.names("environment")
    for name, node in settings.entries("environment"):
        if name in _RESERVED or name == settings.text("slot_variable"):
            yield places[name].warning("reserved-variable", f"{name} is set by fusiond itself", "remove or rename it")
        elif name in _SEARCHED and isinstance(node.value, str):
            relative = [part for part in node.value.split(":") if not part.startswith("/")]
            if relative and "$" not in node.raw:
                message = f"{name} has the relative path {relative[0]!r}, which moves with a job's working directory"
                yield node.place.warning("relative-path", message, "write an absolute path")
