"""Retry policies: what has no effect, what can never match, and what outlives the job's `expires`."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Final

from fusiond.config.lint.suggest import Suggestions
from fusiond.config.lint.walk import named, names, said
from fusiond.config.units import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fusiond.config.model import Config, RetryPolicy
    from fusiond.config.problems import Problem
    from fusiond.config.yaml.nodes import Node

_EXCEPTIONS: Final = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_DELAYS: Final = ("backoff", "delay", "max_delay", "jitter")


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each policy that does not do what it says."""
    suggest = Suggestions(_EXCEPTIONS)
    for name, node in named(root, "retry_policies"):
        policy = config.retry_policies[name]
        yield from _without_effect(node, policy)
        yield from _unknown_exceptions(node, suggest)
        yield from _given_up(node)
    yield from _late_retries(root, config)


def last_retry(policy: RetryPolicy) -> float:
    """Seconds from the first failure to the last attempt, jitter aside, as `worker.dispatcher.retry` counts them."""
    count = policy.max_attempts - 1
    if policy.backoff == "list":
        return sum(policy.delays[min(n, len(policy.delays) - 1)] for n in range(count))
    if policy.backoff == "fixed":
        return policy.delay * count
    factors = (2.0 ** min(n, 64) if policy.backoff == "exponential" else n + 1 for n in range(count))
    return sum(min(policy.delay * factor, policy.max_delay) for factor in factors)


def _without_effect(node: Node, policy: RetryPolicy) -> Iterator[Problem]:
    if policy.max_attempts == 1 and (key := next((key for key in _DELAYS if key in node.keys), None)):
        message = f"{key} has no effect beside max_attempts: 1"
        yield node.keys[key].warning("ignored-key", message, "remove it, or allow more attempts")
    elif policy.backoff == "list":
        yield from _of_list(node, policy)
    elif policy.backoff == "fixed":
        if "max_delay" in node.keys:
            yield node.keys["max_delay"].warning("ignored-key", "max_delay has no effect on a fixed delay", "remove it")
    elif policy.delay > policy.max_delay:
        message = f"the delay {written(policy.delay)} is above max_delay, {written(policy.max_delay)}, which cuts it"
        yield node.nearest("delay").warning(
            "delay-above-max", message, f"write max_delay: {written(policy.delay)} or more"
        )


def _of_list(node: Node, policy: RetryPolicy) -> Iterator[Problem]:
    for key in ("delay", "max_delay"):
        if key in node.keys:
            yield node.keys[key].warning("ignored-key", f"{key} has no effect beside a list of delays", "remove it")
    # a hard timeout, which is a crash, is waited for as a failure is
    delays, backoff = policy.max_attempts - 1 + policy.max_crashes, node.get("backoff")
    if backoff is not None and len(policy.delays) > delays:
        surplus = backoff.items()[delays]
        counts = f"max_attempts: {policy.max_attempts} and max_crashes: {policy.max_crashes}"
        message = f"the delay {surplus.raw} never comes: {counts} leave room for {delays}"
        remedy = f"write max_attempts: {len(policy.delays) + 1 - policy.max_crashes}"
        yield surplus.place.warning("unused-delay", message, remedy)


def _unknown_exceptions(node: Node, suggest: Suggestions) -> Iterator[Problem]:
    """Bare names: only a built-in can match one."""
    for item in _exceptions(node, "retry_on", "give_up_on"):
        name = str(item.value)
        if "." not in name and name not in _EXCEPTIONS:
            remedy = suggest(name) or f"write its module, too: package.module.{name}"
            yield item.place.warning("unknown-exception", f"there is no built-in exception {item.raw!r}", remedy)


def _given_up(node: Node) -> Iterator[Problem]:
    """Names of retry_on that give_up_on covers."""
    refused = [str(item.value) for item in _exceptions(node, "give_up_on")]
    for item in _exceptions(node, "retry_on"):
        name = str(item.value)
        covering = next((other for other in refused if other == name or _is_base(other, name)), None)
        if covering is not None:
            message = f"{item.raw} is never retried: give_up_on has {covering}, and wins"
            yield item.place.warning("never-retried", message, "remove one of the two")


def _is_base(base: str, name: str) -> bool:
    return base in _EXCEPTIONS and name in _EXCEPTIONS and issubclass(_EXCEPTIONS[name], _EXCEPTIONS[base])


def _exceptions(node: Node, *keys: str) -> Iterator[Node]:
    for key in keys:
        listed = node.get(key)
        yield from (item for item in (listed.items() if listed else ()) if isinstance(item.value, str))


def _late_retries(root: Node, config: Config) -> Iterator[Problem]:
    """`expires` covers the first attempt only, so that a retry may come long after it. Once for each `expires`."""
    seen = set()
    lasts = {name: last_retry(policy) for name, policy in config.retry_policies.items()}
    for name in names(root, "tasks"):
        task = config.tasks[name]
        node = said(root, "tasks", name, "expires")
        if task.expires is None or node is None or (node.place, task.retry) in seen:
            continue
        seen.add((node.place, task.retry))
        last = lasts[task.retry]
        if last > task.expires:
            message = (
                f"expires: {node.raw} covers the first attempt only; the last retry of {task.retry!r} may begin "
                f"{written(last)} after it"
            )
            yield node.place.warning("late-retries", message, "take a policy that ends sooner, or a longer expires")
