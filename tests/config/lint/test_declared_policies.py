"""`policies` of the file: what an entry must keep to, judged after all defaults."""

import pytest

from fusiond.config.load import load

FILE = """\
version: 1
defaults: {tasks: {owner: ada, timeout: 1h}}
retry_policies: {patient: {max_attempts: 9}}
queues: {reports: {max_length: 100}}
tasks:
  a: {run: x.y, retry: patient, timeout: {soft: 1h, hard: 3h}, priority: high}
  b: {run: x.y, queue: reports, owner: null, expires: 2h, limit: {max_running: 4}, aliases: [old]}
flows: {f: {steps: {s: {task: a}}, owner: eve}}
cron: {c: {task: a, every: 1d}}
workers:
  m: {environment: {DSN: x}, max_memory: 2GiB}
  n: {queues: [reports], processes: {min: 1, max: 8}}
"""


def found(*policies, text=FILE):
    """Line, code and sentence of each error of the file with these policies."""
    text += "policies:\n" + "".join(f"  - {{{policy}}}\n" for policy in policies)
    problems = load("f.yaml", environ={"MOST": "2h"}, data=text.encode(), elsewhere=True).problems
    return [(problem.line, problem.code, problem.sentence) for problem in problems if problem.is_error]


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        # the task's own value; that of the defaults; a soft timeout with the hard one 10 s later
        ("every: task, key: timeout.hard, at_most: 2h", [6]),
        ('every: task, key: timeout.hard, at_most: "${MOST}"', [6]),
        ("every: task, key: timeout.hard, at_most: 1h", [6, 7]),
        ("every: task, key: timeout.soft, at_most: 1h", []),
        ("every: task, key: timeout.soft, at_least: 2h", [6, 7]),
        # null, and what a map has that is not there
        ("every: task, key: owner, required: true", [7]),
        ("every: task, key: expires, at_most: 2h", [6]),
        ("every: task, key: limit.max_running, at_most: 4", [6]),
        ("every: task, key: limit.max_running, at_least: 5", [6, 7]),
        ("every: task, key: unique, required: true", [6, 7]),
        # names, and numbers that have one
        ("every: task, key: retry, one_of: [none, standard]", [6]),
        ("every: task, key: priority, at_most: moderate", [6]),
        ("every: task, key: priority, one_of: [moderate, 2]", []),
        ("every: queue, key: max_length, one_of: [100, null]", []),
        ("every: queue, key: max_length, at_most: 99", [4, 4]),
        ("every: queue, served_by_groups: 2", [4]),
        ("every: group, key: environment.DSN, required: true", [12]),
        ("every: group, key: max_memory, at_most: 1GiB", [11, 12]),
        ("every: group, key: processes, at_most: 4", [12]),
        ("every: retry_policy, key: max_attempts, at_most: 8", [3]),
        ("every: flow, key: owner, one_of: [ada]", [8]),
        ("every: cron, key: owner, required: true", [9]),
        ("every: outbox, key: owner, required: true", None),
    ],
)
def test_each_entry_that_breaks_it_is_an_error_at_its_line(policy, lines):
    """The value counts that the entry has after all defaults; a key without a value is neither small nor large."""
    broken = found(policy)
    if lines is None:  # no entry, and no such key: the policy itself is wrong
        assert [code for _, code, _ in broken] == ["useless-policy"]
    else:
        assert [(line, code) for line, code, _ in broken] == [(line, "broken-policy") for line in lines]


def test_the_error_says_what_to_do_and_why():
    """The reason, the value, where the policy is, the remedy."""
    policy = "every: task, key: timeout.hard, at_most: 2h, message: no task may run longer than two hours"
    assert found(policy)[0][2] == (
        "no task may run longer than two hours: task 'a' has timeout.hard: 3h (the policy at f.yaml:14); "
        "write 2h or less"
    )
    assert found("every: queue, served_by_groups: 3")[-1][2] == (
        "queue 'reports' is served by m, n (the policy at f.yaml:14); have 3 groups serve it"
    )


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("every: task, key: timeout.hrd, at_most: 2h", "timeout has no key 'hrd'; did you mean 'hard'?"),
        ("every: task, key: ownr, required: true", "there is no key 'ownr'; did you mean 'owner'?"),
        ("every: task, key: owner.name, required: true", "owner has no key 'name'"),
        ("every: queue, key: defaults, required: true", "there is no key 'defaults'"),
        ("every: task, key: owner, at_most: 5", "owner is no number; use one_of or required"),
        ("every: task, key: timeout, at_most: 5m", "name one of its keys, such as timeout.soft"),
        ("every: task, key: secret, one_of: [a]", "secret has no single value to compare; use required"),
        ("every: task, key: timeout.soft, at_most: 5", "at_most: 5 is no value of timeout.soft; write one such as 50m"),
        ("every: task, key: expires, one_of: [1]", "one_of: 1 is no value of expires; write one such as 5m"),
        ("every: group, key: processes, at_most: many", "at_most: many is no value of processes; write one such as 4"),
        ("every: retry_policy, key: jitter, at_most: 5", "at_most: 5 is no value of jitter; write one such as 10%"),
        ("every: task, key: owner", "this policy demands nothing"),
        ("every: task, key: owner, required: false", "this policy demands nothing"),
        ("every: task", "this policy demands nothing"),
        ("every: task, at_most: 5m", "this policy needs a key; add key"),
        ("every: task, served_by_groups: 5", "worker groups serve queues only; write every: queue"),
    ],
)
def test_a_policy_that_can_judge_nothing_is_an_error_itself(policy, words):
    """At its own line; nothing passes because a key is misspelt."""
    ((line, code, sentence),) = found(policy)
    assert (line, code) == (14, "useless-policy")
    assert words in sentence


def test_an_entry_that_is_left_out_breaks_no_policy():
    """A group with a mistake in it may be the one that a queue needs: the mistake is told, and nothing else."""
    text = FILE.replace("processes: {min: 1, max: 8}", "proceses: 1")
    assert [code for _, code, _ in found("every: queue, served_by_groups: 2", text=text)] == ["unknown-key"]


def test_so_many_that_it_would_take_minutes_are_refused():
    """Each policy is asked of each entry."""
    broken = found(*["every: task, key: timeout.soft, at_most: 1h"] * 201)
    assert [code for _, code, _ in broken] == ["useless-policy"]
