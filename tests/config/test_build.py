"""Nodes to Config: what wins, where paths start, how values are read."""

import pytest

from fusiond.config.load import load
from fusiond.config.model import Config, RetryPolicy
from fusiond.config.model.tasks import Timeout
from fusiond.config.quota import cpu_quota


def config_of(text, path="/srv/etc/fusion.yaml", **environ):
    """The Config of a text that has no errors."""
    loaded = load(path, environ=environ, data=f"version: 1\n{text}".encode())
    assert loaded.config is not None, loaded.problems
    return loaded.config


def test_an_empty_file_is_the_default_config():
    """All defaults live in the model: a file that says nothing gives exactly them."""
    assert config_of("") == Config()
    assert config_of("broker:\nqueues:\ntasks:\ncron:\nworkers:\ndefaults:\nlogging:\n") == Config()


def test_the_nearest_wins():
    """Task, queue's defaults, defaults.tasks, built-in; null wins too."""
    config = config_of("""
defaults: {tasks: {timeout: 30s, result_ttl: 1m, expires: 5m, priority: low}}
queues: {q: {defaults: {timeout: 20s, priority: high, log_tag: x}}}
tasks:
  far: {run: x.y}
  near: {run: x.y, queue: q}
  own: {run: x.y, queue: q, timeout: 10s, priority: 77, expires: null, log_tag: null}
""")
    far, near, own = (config.tasks[name] for name in ("far", "near", "own"))
    assert (far.timeout, far.result_ttl, far.expires, far.priority, far.log_tag) == (Timeout(30, 40), 60, 300, 0, None)
    assert (near.timeout, near.result_ttl, near.priority, near.log_tag) == (Timeout(20, 30), 60, 2, "x")
    assert (own.timeout, own.priority, own.expires, own.log_tag) == (Timeout(10, 20), 77, None, None)
    assert far.failure_ttl == 30 * 86400


def test_environment_keeps_what_is_written():
    """1.10 stays 1.10 and 007 stays 007, through a variable too."""
    config = config_of(
        """
workers:
  m:
    environment: {A: 1.10, B: 007, C: true, D: yes, E: '${V}'}
  n:
    environment:
      A: ${V}
      B: x${V}
""",
        V="2.50",
    )
    assert config.workers["m"].environment == {"A": "1.10", "B": "007", "C": "true", "D": "yes", "E": "2.50"}
    assert config.workers["n"].environment == {"A": "2.50", "B": "x2.50"}


def test_relative_paths_start_at_their_file_and_python_at_the_directory():
    """The daemon's own directory never matters."""
    config = config_of("""
broker: {url: "redis://h", password_file: secrets/redis}
defaults: {workers: {directory: ../shop, python: .venv/bin/python, environment_file: [env, /abs]}}
workers: {a: {}, b: {directory: .}, c: {python: /usr/bin/python3}, d: {python: null}}
logging: {file: log/f.log}
state_directory: state
""")
    a, b, c, d = (config.workers[name] for name in "abcd")
    assert (a.directory, a.python, a.environment_file) == (
        "/srv/shop", "/srv/shop/.venv/bin/python", ("/srv/etc/env", "/abs"),
    )  # fmt: skip
    assert (b.directory, b.python) == ("/srv/etc", "/srv/etc/.venv/bin/python")
    assert (c.python, d.python) == ("/usr/bin/python3", None)
    assert (config.broker.password_file, config.logging.file) == ("/srv/etc/secrets/redis", "/srv/etc/log/f.log")
    assert config.state_directory == "/srv/etc/state"


@pytest.mark.parametrize(
    ("written", "queues", "order", "weights"),
    [
        ("", ("*",), "round_robin", {}),
        ("queues: '*', order: strict", ("*",), "strict", {}),
        ("queues: ['*']", ("*",), "round_robin", {}),
        ("queues: [q, default], order: strict", ("q", "default"), "strict", {}),
        ("queues: {q: 3, default: 1}", ("q", "default"), "weighted", {"q": 3, "default": 1}),
    ],
)
def test_the_queues_of_a_group(written, queues, order, weights):
    """A list, a map of weights, or all."""
    group = config_of(f"queues: {{q: }}\nworkers: {{m: {{{written}}}}}\n").workers["m"]
    assert (group.queues, group.order, group.weights) == (queues, order, weights)


def test_retry_policies():
    """Every form; a declared policy starts from the model's defaults, `standard` from nothing else."""
    policies = config_of("""
retry_policies:
  bare:
  share: {jitter: 10%, max_attempts: 3}
  spread: {jitter: 5s, backoff: linear, delay: 1s, max_delay: 1h}
  listed: {backoff: [1s, 1m], retry_on: [OSError], give_up_on: [a.b.C], max_crashes: 0}
""").retry_policies
    assert policies["bare"] == RetryPolicy()
    assert policies["share"] == RetryPolicy(max_attempts=3, jitter_share=0.1)
    assert policies["spread"] == RetryPolicy(backoff="linear", delay=1, max_delay=3600, jitter_share=0, jitter=5)
    assert policies["listed"] == RetryPolicy(
        backoff="list", delays=(1, 60), retry_on=("OSError",), give_up_on=("a.b.C",), max_crashes=0
    )
    assert policies["none"].max_attempts == 1
    assert "ConnectionError" in policies["standard"].retry_on


def test_timeouts():
    """A scalar is the soft one, the hard one follows 10 s later; a map sets both."""
    tasks = config_of("""
tasks: {a: {run: x.y, timeout: 1m}, b: {run: x.y, timeout: {soft: 1m}}, c: {run: x.y, timeout: {soft: 1m, hard: 2m}}}
""").tasks
    assert [tasks[name].timeout for name in "abc"] == [Timeout(60, 70), Timeout(60, 70), Timeout(60, 120)]


def test_any_config_survives_its_snapshot():
    """from_json(to_json(c)) is c, also where every key is set."""
    config = config_of("""
broker: {url: "rediss://h", tls: {ca_file: a, cert_file: b, key_file: c}}
retry_policies: {p: {backoff: [1s]}}
queues: {q: {max_length: 3}}
tasks: {a: {run: x.y, expires: 5m, pass_job: j}}
cron: {c: {task: a, every: 5s, args: [[1], {b: null}], starting_deadline: 1h}}
workers: {m: {queues: {q: 2}, user: root, umask: "022", max_jobs: 5, max_memory: 1GiB, environment: {A: b}}}
""")
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({}, 1000),
        ({"cpu.max": "max 100000"}, 1000),
        ({"a/b/cpu.max": "150000 100000"}, 2),
        ({"a/b/cpu.max": "50000 100000"}, 1),
        ({"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
        ({"a/b/cpu.max": "garbage"}, 1000),
    ],
)
def test_auto_is_the_cpu_quota(tmp_path, files, most):
    """The least of affinity and the quotas of the cgroup and its parents, rounded up, at least 1."""
    import os

    own = tmp_path / "own"
    own.write_text("0::/a/b\n")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert cpu_quota(tmp_path, own) == min(most, len(os.sched_getaffinity(0)))
    assert config_of("workers: {m: {processes: auto}}").workers["m"].processes >= 1


def test_aliases_stand_for_their_heirs():
    """A former task has the heir's function and policies; a former queue is served first, with the heir's weight."""
    config = config_of(
        "queues: {images: {max_running: 3, aliases: [pics, photos]}, other: {}}\n"
        "tasks: {resize: {run: shop.resize, queue: images, timeout: 7s, aliases: [thumbnail]}}\n"
        "workers: {plain: {queues: [other, images]}, weighted: {queues: {images: 2, other: 1}}, all: {queues: '*'}}\n"
    )
    former = config.tasks["thumbnail"]
    assert (former.run, former.queue, former.timeout.soft, former.aliases) == ("shop.resize", "images", 7.0, ())
    assert config.queues["pics"].max_running == 3
    assert config.workers["plain"].queues == ("other", "pics", "photos", "images")
    assert config.workers["weighted"].weights == {"pics": 2, "photos": 2, "images": 2, "other": 1}
    assert config.workers["all"].queues == ("*",)
