"""Where each effective value comes from."""

import dataclasses
import json

import pytest

from fusiond.config.accepted import explain
from fusiond.config.load import load
from fusiond.config.model import CronEntry, Queue, Task, WorkerGroup
from fusiond.config.model.commands import OF_COMMANDS, OF_FUNCTIONS
from fusiond.config.secrets import hidden, hidden_config, is_secret, looks_secret, names_secret

FILE = """\
version: 1
priorities: {high: 9, moderate: 5, low: 1}
defaults:
  tasks: {timeout: 3m, log_tag: shop, expires: 1h}
  workers:
    directory: app
    umask: "027"
    environment: {A: "1"}
retry_policies:
  patient: {backoff: [10s, 1m], jitter: 2s}
queues:
  sms:
    max_length: 1000
    defaults: {expires: 5m, result_ttl: 1m}
  dumps: {defaults: {exit_status: {retry: [75]}}}
tasks:
  send:
    run: shop.send
    queue: sms
    result_ttl: "${TTL}"
    retry: patient
  dump:
    command: [pg_dump, "--file=/backup/$(day).sql", "--host=${PW}", a b]
    queue: dumps
    parameters: {day: {pattern: "[0-9-]+"}}
  other: {run: "${MODULE}.other", timeout: {soft: 5s, hard: 9s}, expires: null}
cron:
  nightly:
    task: send
    every: 90s
    kwargs: {api_key: 12345, region: "${REGION}", at: "http://u:hunter2@h/", nested: {token: x}}
workers:
  main:
    queues: {sms: 3, default: 1}
    max_memory: 1536MiB
    environment: {DB_PASSWORD: /hunter2, PGPASSWORD: "${PW}", HOME_OF: "${PW}/x", PLAIN: "1.10"}
  rest:
    queues: ["*"]
    processes: ${COUNT}
"""
ENVIRON = {"TTL": "2m", "MODULE": "hunter2", "PW": "hunter2", "REGION": "hunter2", "COUNT": "4"}


def explained(what, name, text=FILE, key=None, path="fusion.yaml"):
    """The values by their keys; those that come more than once as a list."""
    loaded = load(path, environ=ENVIRON, data=text.encode())
    assert loaded.config is not None, loaded.problems
    found = {}
    for value in getattr(explain, what)(loaded.tree.root, loaded.config, name):
        found.setdefault(value.key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def place(value):
    return value.line, value.set_by


def line_of(text):
    return next(number for number, line in enumerate(FILE.splitlines(), 1) if text in line)


def test_the_nearest_layer_is_named():
    """The task itself, its queue's defaults, defaults.tasks, the model: in this order, each with its line."""
    found = explained("task", "send")
    assert place(found["run"]) == (line_of("run: shop.send"), "tasks.send.run")
    assert place(found["result_ttl"]) == (line_of("${TTL}"), "tasks.send.result_ttl")
    assert place(found["expires"]) == (line_of("expires: 5m"), "queues.sms.defaults.expires")
    assert place(found["log_tag"]) == (line_of("log_tag"), "defaults.tasks.log_tag")
    assert (found["failure_ttl"].where, found["failure_ttl"].set_by) == ("built in", None)
    assert found["failure_ttl"].shown == "30d"


def test_a_timeout_in_one_word_says_both():
    """The soft one is what is written, the hard one follows from it; each has a place of its own where it has a key."""
    both = explained("task", "send")
    assert [(both[key].shown, both[key].set_by) for key in ("timeout.soft", "timeout.hard")] == [
        ("3m", "defaults.tasks.timeout"),
        ("3m10s", "defaults.tasks.timeout"),
    ]
    own = explained("task", "other")
    assert [(own[key].value, own[key].set_by) for key in ("timeout.soft", "timeout.hard")] == [
        (5.0, "tasks.other.timeout.soft"),
        (9.0, "tasks.other.timeout.hard"),
    ]


def test_the_retry_policy_is_told_with_the_task():
    """Its values come from the policy's own lines, or are built in; what its backoff does not use is left out."""
    found = explained("task", "send")
    assert (found["retry.backoff"].shown, found["retry.backoff"].set_by) == (
        "10s, 1m",
        "retry_policies.patient.backoff",
    )
    assert found["retry.jitter"].shown == "2s"
    assert found["retry.max_attempts"].where == "built in"
    assert found["retry.retry_on"].shown == "every exception"
    assert "retry.delay" not in found
    assert explained("task", "other")["retry.jitter"].shown == "25%"


def test_a_command_is_told_as_a_shell_would_take_it():
    """Quoted where that is needed, a `${VAR}` as it is written; each rule of a parameter, and each list of statuses."""
    found = explained("task", "dump")
    assert found["command"].shown == "pg_dump '--file=/backup/$(day).sql' '--host=${PW}' 'a b'"
    assert place(found["command"]) == (line_of("command:"), "tasks.dump.command")
    rule = {key: value.shown for key, value in found.items() if key.startswith("parameters.")}
    assert rule == {"parameters.day.pattern": "[0-9-]+"}
    assert (found["exit_status.retry"].shown, found["exit_status.retry"].set_by) == (
        "75",
        "queues.dumps.defaults.exit_status.retry",
    )


def test_who_serves_it_is_told():
    """The groups of a task and a queue, a `*` counted; a queue that nobody serves says so."""
    assert [value.value for value in explained("task", "send")["served by"]] == ["main", "rest"]
    text = FILE.replace('["*"]', "[default]").replace("{sms: 3, default: 1}", "[default]")
    assert explained("queue", "sms", text)["served by"].shown == "no group: its jobs wait"


def test_a_queue_tells_what_it_gives_and_to_whom():
    """Its own keys, its defaults, its tasks; `default` is there without a line."""
    found = explained("queue", "sms")
    assert place(found["max_length"]) == (line_of("max_length"), "queues.sms.max_length")
    assert found["defaults.expires"].shown == "5m"
    assert found["task"].value == "send"
    assert explained("queue", "default")["max_length"].where == "built in"


def test_a_group_tells_each_variable_and_what_it_runs():
    """Maps are taken whole: no variable of the defaults is left. A weighted list says its order, too."""
    found = explained("group", "main")
    assert "environment.A" not in found
    assert place(found["environment.PLAIN"]) == (line_of("PLAIN"), "workers.main.environment.PLAIN")
    assert (found["order"].value, found["order"].set_by) == ("weighted", "workers.main.queues")
    assert (found["umask"].shown, found["max_memory"].shown) == ("027", "1536MiB")
    assert [value.value for value in found["task"]] == ["send", "other"]
    assert explained("group", "rest")["environment.A"].set_by == "defaults.workers.environment.A"


@pytest.mark.parametrize(
    ("what", "name"), [("task", "send"), ("task", "other"), ("task", "dump"), ("cron", "nightly"), ("group", "main")]
)
def test_no_secret_is_shown(what, name):
    """Neither as text nor as data: by the variable's name, by the form of a URL, or because a ${VAR} held it."""
    values = explained(what, name).values()
    assert "hunter2" not in repr(values)
    assert "12345" not in repr(values)


@pytest.mark.parametrize(
    ("what", "name", "cls", "left_out"),
    [
        ("task", "send", Task, {"name", "timeout", "command", *OF_COMMANDS}),
        ("task", "dump", Task, {"name", "timeout", "run", "parameters", "exit_status", *OF_FUNCTIONS}),
        ("queue", "sms", Queue, {"name"}),
        ("group", "main", WorkerGroup, {"name", "environment", "scaling"}),
        ("cron", "nightly", CronEntry, {"name", "schedule", "flow", "calendars"}),
    ],
)
def test_no_field_is_forgotten(what, name, cls, left_out):
    """What the model gains is explained as well, or this fails."""
    missing = {field.name for field in dataclasses.fields(cls)} - explained(what, name).keys()
    assert missing == left_out


def test_a_value_that_looks_like_a_secret_is_hidden_whatever_its_name():
    """A token of a well-known service, a private key, the password of a URL."""
    assert hidden("X", "ghp_" + "a" * 36) == hidden("X", ["-----BEGIN RSA PRIVATE KEY-----"])[0] == "***"
    assert hidden("X", {"y": "postgres://u:hunter2@h/db"}) == {"y": "postgres://u:***@h/db"}
    assert looks_secret("postgres://u:hunter2@h/db")
    assert not looks_secret("https://h:8443/users/@me")


def test_the_name_of_an_entry_hides_no_settings():
    """A task may be called `reset_password`. What may be a secret is hidden, and so is each argument of a call."""
    shown = {
        "tasks": {"reset_password": {"queue": "tokens", "on_failure": {"task": "rotate_token"}}},
        "queues": {"tokens": {"max_length": 5}, "secret": {}},
        "priorities": {"secret": 7},
        "flows": {"token": {"steps": {"new_token": {"args": [], "after": ["x"], "kwargs": {}}}}},
        "workers": {"tokens": {"processes": 4, "queues": ["tokens"], "weights": {"tokens": 3}}},
        "events": {"sinks": {"secret": {"kind": "file", "path": "/x"}}},
    }
    assert hidden_config(shown) == shown
    secret = {"password": "hunter2", "nested": {"api_key": ["hunter2"]}, "tasks": {"token": "hunter2"}}
    entry = {"args": ["hunter2"], "for_each": ["hunter2"], "kwargs": secret, "inputs": secret, "every": 5}
    text = json.dumps(hidden_config({"cron": {"rotate_token": entry}, "flows": {"x": {"steps": {"key": entry}}}}))
    assert "hunter" not in text
    assert text.count('"every": 5') == 2
    assert hidden_config({"broker": {"url": "redis://:hunter2@h", "password": "x"}}) == {
        "broker": {"url": "redis://:***@h", "password": "***"}
    }
    # It may have come from a variable.
    sink = {"events": {"sinks": {"chat": {"url": "https://hooks.example.com/T0/hunter2"}}}}
    assert hidden_config(sink)["events"]["sinks"]["chat"]["url"] == "https://hooks.example.com/•••"
    called = {"cron": {"nightly": {"args": ["eu"], "kwargs": {"region": "eu"}}}}
    assert hidden_config(called) == {"cron": {"nightly": {"args": "***", "kwargs": {"region": "***"}}}}


@pytest.mark.parametrize(
    "name",
    ["PGPASSWORD", "DB_PASS", "API_KEY", "TOKEN_2", "tokens", "STRIPE_SECRET", "db-pwd", "aws_secret_access_key"],
)
def test_what_is_surely_a_secret_is_hidden_too(name):
    """What the linter complains of in clear is never shown by `explain`: one list of words serves both."""
    assert names_secret(name)
    assert is_secret(name)
