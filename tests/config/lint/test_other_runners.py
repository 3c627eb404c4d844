import pytest

from fusiond.config.fields import fields_of
from fusiond.config.lint.other_runners import KEYS, remedy_of
from fusiond.config.load import load
from fusiond.config.model import WorkerGroup
from fusiond.config.model.cron_entries import CronEntry
from fusiond.config.model.tasks import Task

ALL_KEYS = sorted(key for keys in KEYS.values() for key in keys.split())


def remedy(text):
    """Of the one problem of a file."""
    (problem,) = load("fusion.yaml", environ={}, data=text.encode(), elsewhere=True).problems
    assert problem.code == "unknown-key"
    return problem.remedy


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("max_retries: 5", "max_attempts"),
        ("maxRetries: 5", "max_attempts"),
        ("retry_backoff: true", "backoff"),
        ("acks_late: true", "remove it: a job of a lost worker runs again"),
        ("rate_limit: 10/s", "limit: {max_running: 5, rate_limit: 10/s}"),
        ("time_limit: 60", "timeout: {soft: 5m, hard: 6m}"),
        ("crontab: 0 2 * * *", "an entry of `cron`"),
        ("cron: 0 2 * * *", "an entry of `cron`"),
        ("':concurrency': 5", "`processes` of a worker group"),
        ("job_timeout: 60", "timeout: 5m"),
        ("activeDeadlineSeconds: 60", "timeout: 5m"),
        ("unique_for: 10", "unique: {by: [kwargs.id], until: ended}"),
    ],
)
def test_a_word_of_another_runner_gets_ours(key, says):
    """In place of a word that is merely spelt alike."""
    assert says in remedy(f"version: 1\ntasks: {{t: {{run: a.b, {key}}}}}\nworkers: {{main: {{queues: [default]}}}}\n")


@pytest.mark.parametrize("key", ALL_KEYS)
def test_each_word_has_a_remedy_that_names_keys_of_ours(key):
    """Or says that there is nothing to set."""
    said = remedy_of(key)
    ours = {field.written for cls in (Task, WorkerGroup, CronEntry) for field in fields_of(cls)}
    names = ours | {"max_attempts", "backoff", "queues", "broker", "flow", "give_up_on", "max_running"}
    assert said
    assert "nothing to set" in said or "option of a call" in said or any(name in said for name in names)
