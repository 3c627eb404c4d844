"""`fusiond import celery`: Celery itself loads each application."""

import pytest

from fusiond.importing.input_files import ImportRefused
from tests.support.imported_file import DATA, import_application

APP = "from celery import Celery\napp = Celery('shop')\napp.config_from_object('settings'{})\n"


def import_settings(directory, path, namespace="", **more):
    """An application with the settings of a file."""
    app = APP.format(f", namespace={namespace!r}" if namespace else "")
    modules = {"settings.py": (DATA / path).read_text(), "shop/__init__.py": "", "shop/celery.py": app, **more}
    return import_application("celery", directory, modules, "shop.celery:app")


def test_tasks_routes_and_schedules(tmp_path):
    """A task that a schedule names keeps the name that Celery has for it."""
    found = import_settings(tmp_path, "names.celery.txt")
    task = found.config.tasks["shop.sums.add"]
    assert (task.run, task.queue) == ("shop.sums.add", "low_priority")
    entry = found.config.cron["add-at-two"]
    assert (entry.schedule, entry.timezone, list(entry.args), entry.kwargs) == (
        "2 2,14 * * *", "Europe/Madrid", [2, 2], {"rounded": True},
    )  # fmt: skip
    assert "add-now-and-then" not in found.config.cron
    assert "Celery runs it when both day fields match" in found.comments
    assert "task_routes: shop.sums.long: no task of the application has this name" in found.comments


def test_a_django_project(tmp_path, monkeypatch):
    """Prefixed settings, a value of the environment, limits, annotations, a change of the schedule below."""
    monkeypatch.setenv("SECRET_KEY", "hunter3")
    monkeypatch.setenv("WORKERS", "9")
    tasks = (
        "from celery import shared_task\n"
        "@shared_task\ndef send_receipt(): pass\n@shared_task\ndef sync_stock(part): pass\n"
        "@shared_task(name='reports')\ndef report(): pass\n"
    )
    settings = {"payments/__init__.py": "", "payments/tasks.py": tasks}
    text = (DATA / "django.celery.txt").read_text() + 'CELERY_IMPORTS = ("payments.tasks",)\n'
    found = import_settings(tmp_path, "django.celery.txt", "CELERY", **settings, **{"settings.py": text})
    declared, group = found.config.tasks, found.config.workers["main"]
    assert (declared["shop.tasks.pulse"].timeout.soft, declared["shop.tasks.pulse"].timeout.hard) == (1500, 1800)
    sync = declared["payments.tasks.sync_stock"]
    assert (sync.timeout.soft, sync.timeout.hard, sync.queue, sync.result, sync.expires) == (
        6600, 7200, "imports", "ignore", 7200,
    )  # fmt: skip
    receipt = declared["payments.tasks.send_receipt"]
    policy = found.config.retry_policies[receipt.retry]
    assert (policy.max_attempts, policy.delay, receipt.queue, receipt.limit.rate_limit.rate) == (4, 60, "mail", "10/1m")
    assert declared["reports"].run == "payments.tasks.report"
    assert declared["reports"].limit.rate_limit.rate == "1/1h"
    assert found.config.retry_policies["celery"].max_crashes == 2
    assert (group.processes, group.isolation, group.max_jobs, group.max_memory) == (9, "process", 1000, 200_000 * 1024)
    assert set(found.config.cron) == {"sync", "pulse", "nightly", "late"}
    assert found.config.cron["nightly"].timezone == "Europe/Berlin"
    assert found.config.broker.url == "redis://redis.example.org:6380/3"
    assert "hunter" not in found.text
    assert "search.*: no task of the application has this name" in found.comments
    assert "beat_schedule: sync, priority: write it into the task" in found.comments
    assert set(found.warnings) <= {"short-drain", "unused-queue", "runs-as-root"}


def test_names_of_celery_3(tmp_path):
    """The settings of old releases; a broker that is no Redis is a comment."""
    found = import_settings(tmp_path, "old.celery.txt")
    assert found.config.tasks["apps.beat.tick"].queue == "mail"
    assert found.config.workers["main"].processes == 8
    assert found.config.cron["my_beat"].every == 5
    assert "broker amqp: jobs are kept in Redis" in found.comments
    assert "result_backend: results are kept in the broker's Redis" in found.comments


CODE = """
import sys, threading
from datetime import timedelta
from celery import Celery, Task, shared_task
from celery.schedules import BaseSchedule, crontab
from kombu import Queue

class Sunset(BaseSchedule): pass

print("what the application prints is not a part of the file")
threading.Thread(target=threading.Event().wait).start()
app = Celery("shop", broker="redis://db/1")

def router(name, args, kwargs, options, task=None, **more):
    return {"queue": "slow"} if name.endswith("retried") else None

app.conf.update(
    task_default_queue="work", worker_pool="gevent", worker_concurrency=100, task_routes=(router,), timezone="UTC",
    task_compression="gzip", CELERY_TYPO=1, task_default_priority=3, task_default_rate_limit="7/m",
)
app.conf.beat_schedule = {
    "cron": {"task": "shop.plain", "schedule": crontab(0, 3), "options": {"queue": "mail"}},
    "own": {"task": "shop.plain", "schedule": Sunset()},
    "object": {"task": "shop.plain", "schedule": 5.0, "args": (object(),)},
    "short": {"task": "shop.plain", "schedule": 0.2},
    "bad name": {"task": "a-b.c", "schedule": timedelta(minutes=2), "options": None},
    "elsewhere": {"task": "other.run", "schedule": 60, "options": {"queue": Queue("far"), "expires": 9}},
}

@app.task
def plain(x=0): pass

@app.task(bind=True, autoretry_for=(KeyError, ConnectionError), retry_backoff=5, retry_backoff_max=60, max_retries=2)
def retried(self): pass

@shared_task(acks_late=True, max_retries=None, autoretry_for=(Exception,), retry_kwargs={"countdown": 7})
def late(): pass

@app.task(max_retries=-1, rate_limit=5)
def never(): pass

class Mail(Task):
    name = "mail"
    def run(self): pass

@app.on_after_finalize.connect
def setup(sender, **kwargs):
    sender.add_periodic_task(10.0, plain.s("hello"), name="added")

app.register_task(Mail())
"""


def test_what_only_a_running_application_knows(tmp_path):
    """Decorators, routers that are functions, `add_periodic_task`; threads of the application and what it prints."""
    found = import_application("celery", tmp_path, {"shop.py": CODE}, "shop:app")
    config, group = found.config, found.config.workers["main"]
    assert (group.executor, group.concurrency, config.broker.url) == ("thread", 100, "redis://db/1")
    assert {name: task.queue for name, task in config.tasks.items()} == {
        "shop.plain": "mail", "shop.retried": "slow", "shop.late": "work",
        "shop.never": "work", "other.run": "far",
    }  # fmt: skip
    policy = config.retry_policies[config.tasks["shop.retried"].retry]
    assert (policy.max_attempts, policy.backoff, policy.delay, policy.max_delay, policy.retry_on) == (
        3, "exponential", 5, 60, ("KeyError", "ConnectionError"),
    )  # fmt: skip
    policy = config.retry_policies[config.tasks["shop.late"].retry]
    assert (policy.max_attempts, policy.backoff, policy.delay, policy.retry_on) == (1000, "fixed", 7, ())
    assert (config.cron["cron"].schedule, list(config.cron["added"].args)) == ("0 3 * * *", ["hello"])
    assert set(config.cron) == {"cron", "added", "elsewhere"}
    assert config.retry_policies[config.tasks["shop.never"].retry].max_attempts == 1
    assert [config.tasks[name].limit.rate_limit.rate for name in ("shop.never", "shop.late")] == ["5/s", "7/1m"]
    assert config.tasks["other.run"].expires == 9
    for sentence in (
        "task mail: it is a class", "beat_schedule: own: shop.Sunset: it has no counterpart here", "is below 1s",
        "beat_schedule: object: an argument is not JSON", "'a-b.c' is not a dotted path",
        "task_compression: fusiond has no such setting", "CELERY_TYPO: Celery has no such setting",
        "the application does not know this task",
        "worker_pool gevent: the jobs of a child run in threads",
    ):  # fmt: skip
        assert sentence in found.comments
    assert "what the application prints" not in found.text


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            "raise ValueError('no')",
            r"shop in .* with .*python.* cannot be loaded \(ValueError: .*: no\); --directory and",
        ),
        ("import os; os._exit(3)", "was not loaded: the interpreter ended with status 3"),
    ],
)
def test_an_application_that_cannot_be_loaded_gets_a_sentence(tmp_path, code, sentence):
    """With the place and the interpreter."""
    with pytest.raises(ImportRefused, match=sentence):
        import_application("celery", tmp_path, {"shop.py": code}, "shop")
