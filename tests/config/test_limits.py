"""`max_running` and `rate_limit`: how they are written, and what of them cannot be meant."""

import pytest

from fusiond.config.load import load
from fusiond.config.model import Config


def loaded(text):
    return load("fusion.yaml", environ={}, data=f"version: 1\n{text}\n".encode(), elsewhere=True)


@pytest.mark.parametrize(
    ("said", "burst", "every_ms"),
    [
        ("100/s", 10, 10.0),
        ("5/s", 1, 200.0),
        ("1000/1m", 1, 60.0),
        ("1/10s", 1, 10_000.0),
        ("{rate: 1000/1m, burst: 50}", 50, 60.0),
        ("{rate: 2500/s}", 250, 0.4),
        ("{rate: 86400/d, burst: null}", 1, 1000.0),
    ],
)
def test_a_rate(said, burst, every_ms):
    """The burst is what 100 ms bring, at least one job; snapshots keep it."""
    config = loaded(f"queues: {{q: {{rate_limit: {said}}}}}").config
    limit = config.queues["q"].rate_limit
    assert (limit.burst, limit.every_ms) == (burst, every_ms)
    assert Config.from_json(config.to_json()) == config


QUEUE, TASK, CRON, FAIR, FLOW = (
    "queues: {{q: {{{}}}}}",
    "tasks: {{t: {{run: a.b, limit: {}}}}}",
    "tasks: {{t: {{run: a.b, limit: {{by: [{}], max_running: 1}}}}}}\ncron: {{c: {{task: t, every: 5s, {}}}}}",
    "queues: {{q: {{fair_by: {}}}}}",
    "tasks: {{t: {{run: a.b, unique: {{by: [kwargs.x], for: 9s}}}}}}\nflows: {{f: {{steps: {{s: {{task: t, {}}}}}}}}}",
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (QUEUE.format("max_running: 0"), "queues.q.max_running: 0 is below 1; write 1 or more"),
        (QUEUE.format("rate_limit: 100"), "write a rate such as 100/s or 1000/1m, or a map such as {rate: 1000/1m, "),
        (QUEUE.format("rate_limit: 10/week"), "write a rate such as 100/s"),
        (QUEUE.format("rate_limit: 10/0s"), "the rate 10/0s is over no time; write a time, such as 10/s"),
        (QUEUE.format("rate_limit: 9999999/1ms"), "the rate 9999999/1ms is above 1,000,000 jobs a second"),
        (QUEUE.format("rate_limit: {burst: 5}"), "rate"),
        (QUEUE.format("rate_limit: {rate: 1/s, burst: 0}"), "q.rate_limit.burst: 0 is below 1; write 1 or more"),
        (QUEUE.format("rate_limit: {rate: 1/s, per: 3}"), "unknown key 'per'"),
        (TASK.format("{}"), "this limit limits nothing; add max_running or rate_limit, or remove it"),
        (TASK.format("{by: [account], max_running: 1}"), "write an argument of the call: kwargs.user_id, or args.0"),
        (TASK.format("{by: [kwargs.x, kwargs.x], max_running: 1}"), "'kwargs.x' is in the list twice; remove one"),
        (
            CRON.format("kwargs.x", "args: [1]"),
            "`limit` of task 't' needs kwargs.x, but here kwargs.x is missing; write a text, boolean or integer",
        ),
        (CRON.format("kwargs.x", "kwargs: {x: [1]}"), "kwargs.x is neither a text, nor a boolean"),
        (CRON.format("args.1", "args: [1]"), "args.1 is missing"),
        (
            FLOW.format("args: [1]"),
            "flows.f.steps.s: `unique` of task 't' needs kwargs.x, but here kwargs.x is missing",
        ),
        (FAIR.format("[tenant]"), "write an argument of the call: kwargs.user_id, or args.0"),
        *((FAIR.format(said), "queues.q.fair_by") for said in ("kwargs.x", "true", "{by: [kwargs.x]}")),
    ],
)
def test_what_cannot_be_meant(text, sentence):
    """An error with the remedy."""
    assert any(sentence in problem.sentence for problem in loaded(text).problems if problem.is_error)
