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


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("max_running: 0", "queues.q.max_running: 0 is below 1; write 1 or more"),
        ("rate_limit: 100", "write a rate such as 100/s or 1000/1m, or a map such as {rate: 1000/1m, burst: 50}"),
        ("rate_limit: 0/s", "write a rate such as 100/s"),
        ("rate_limit: 10/week", "write a rate such as 100/s"),
        ("rate_limit: 10/0s", "the rate 10/0s is over no time; write a time, such as 10/s"),
        ("rate_limit: 9999999/1ms", "the rate 9999999/1ms is above 1,000,000 jobs a second"),
        ("rate_limit: {burst: 5}", "rate"),
        ("rate_limit: {rate: 1/s, burst: 0}", "queues.q.rate_limit.burst: 0 is below 1; write 1 or more"),
        ("rate_limit: {rate: 1/s, per: 3}", "unknown key 'per'"),
    ],
)
def test_what_cannot_be_meant(said, sentence):
    """An error with the remedy."""
    [problem] = [each for each in loaded(f"queues: {{q: {{{said}}}}}").problems if each.is_error]
    assert sentence in problem.sentence


@pytest.mark.parametrize(
    ("limit", "cron", "sentence"),
    [
        ("{}", "", "this limit limits nothing; add max_running or rate_limit, or remove it"),
        ("{by: [kwargs.x]}", "", "this limit limits nothing"),
        ("{max_running: 0}", "", "0 is below 1"),
        ("{by: [account], max_running: 1}", "", "write an argument of the call: kwargs.user_id, or args.0"),
        ("{by: [kwargs.x, kwargs.x], max_running: 1}", "", "'kwargs.x' is in the list twice; remove one"),
        ("{rate_limit: 1/0s}", "", "the rate 1/0s is over no time"),
        (
            "{by: [kwargs.x], max_running: 1}",
            "args: [1]",
            "of which kwargs.x is missing; pass it by name; add it to args or kwargs",
        ),
        ("{by: [kwargs.x], max_running: 1}", "kwargs: {x: [1]}", "kwargs.x is neither a text, nor a boolean"),
        ("{by: [args.1], max_running: 1}", "args: [1]", "args.1 is missing"),
    ],
)
def test_a_task_s_limit_that_cannot_be_meant(limit, cron, sentence):
    """An error with the remedy."""
    entry = f"\ncron: {{c: {{task: t, every: 5s, {cron}}}}}" if cron else ""
    problems = loaded(f"tasks: {{t: {{run: a.b, limit: {limit}}}}}{entry}").problems
    [problem] = [each for each in problems if each.is_error]
    assert sentence in problem.sentence


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("[tenant]", "write an argument of the call: kwargs.user_id, or args.0"),
        ("[kwargs.x, kwargs.x]", "'kwargs.x' is in the list twice; remove one"),
        ("kwargs.x", "queues.q.fair_by"),
        ("true", "queues.q.fair_by"),
        ("{by: [kwargs.x]}", "queues.q.fair_by"),
    ],
)
def test_a_fair_by_that_cannot_be_meant(said, sentence):
    """An error with the remedy."""
    problems = loaded(f"queues: {{q: {{fair_by: {said}}}}}").problems
    assert any(sentence in problem.sentence for problem in problems if problem.is_error)
