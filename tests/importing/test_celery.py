import pytest

from tests.support.imported_file import DATA, import_files, import_text


@pytest.mark.parametrize("path", sorted(DATA.glob("*.celery.txt")), ids=lambda path: path.name)
def test_each_settings_module_becomes_a_file_that_loads(path):
    """Those after public projects."""
    found = import_files("celery", path)
    assert found.config.cron
    assert set(found.warnings) <= {"short-drain", "unused-queue", "runs-as-root"}


def test_tasks_routes_and_schedules():
    """A task keeps the name that Celery has for it, which is its dotted path."""
    found = import_files("celery", DATA / "names.celery.txt")
    task = found.config.tasks["shop.sums.add"]
    assert (task.run, task.queue, task.limit.rate_limit.rate) == ("shop.sums.add", "low_priority", "10/1m")
    entry = found.config.cron["add-at-two"]
    assert (entry.schedule, entry.timezone, list(entry.args), entry.kwargs) == (
        "2 2,14 * * *", "Europe/Madrid", [2, 2], {"rounded": True},
    )  # fmt: skip
    assert "add-now-and-then" not in found.config.cron
    assert "Celery runs it when both day fields match" in found.comments


def test_a_django_project():
    """Prefixed settings, names that are assigned before, limits, annotations, a change of the schedule below."""
    found = import_files("celery", DATA / "django.celery.txt")
    tasks, group = found.config.tasks, found.config.workers["main"]
    assert (tasks["shop.tasks.pulse"].timeout.soft, tasks["shop.tasks.pulse"].timeout.hard) == (1500, 1800)
    sync = tasks["payments.tasks.sync_stock"]
    assert (sync.timeout.soft, sync.timeout.hard, sync.queue, sync.result, sync.expires) == (
        6600, 7200, "imports", "ignore", 7200,
    )  # fmt: skip
    policy = found.config.retry_policies[tasks["payments.tasks.send_receipt"].retry]
    assert (policy.max_attempts, policy.delay) == (4, 60)
    assert found.config.retry_policies["celery"].max_crashes == 2
    assert (group.processes, group.isolation, group.max_jobs, group.max_memory) == (4, "process", 1000, 200_000 * 1024)
    assert set(found.config.cron) == {"sync", "pulse", "nightly", "late"}
    assert found.config.cron["nightly"].timezone == "Europe/Berlin"
    assert found.config.broker.url == "redis://redis.example.org:6380/3"
    assert "hunter2" not in found.text
    assert "search.*: write `queue: search` into each of these tasks" in found.comments
    assert "task 'reports': it is a name of Celery's" in found.comments


def test_an_application_and_its_configuration(tmp_path):
    """`Celery(…)`, `app.conf.update(…)`, `app.conf.x = …`."""
    text = (
        "from celery import Celery\nfrom celery.schedules import crontab\n"
        "app = Celery('shop', broker='redis://db/1')\n"
        "app.conf.update(task_default_queue='work', worker_pool='gevent')\n"
        "app.conf.worker_concurrency = 100\napp.conf.timezone = 'UTC'\n"
        "app.conf.beat_schedule = {'a': {'task': 'shop.a', 'schedule': crontab(0, 3)}}\n"
        "@app.on_after_configure.connect\ndef setup(sender, **kwargs):\n"
        "    sender.add_periodic_task(10.0, test.s('hello'), name='b')\n"
    )
    found = import_text("celery", tmp_path, text)
    group = found.config.workers["main"]
    assert (group.executor, group.concurrency, found.config.broker.url) == ("thread", 100, "redis://db/1")
    assert found.config.tasks["shop.a"].queue == "work"
    assert found.config.cron["a"].schedule == "0 3 * * *"
    assert "sender.add_periodic_task" in found.comments


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        ("solar('sunset', 1, 2)", "it is known only when Python runs, or has no counterpart"),
        ("crontab(hour=HOURS)", "a field is known only when Python runs"),
        ("0.2", "is below 1s"),
        ("crontab(hour=61)", "is not a cron text"),
    ],
)
def test_a_schedule_that_cannot_be_carried_over_is_a_comment(tmp_path, schedule, sentence):
    """With the reason; the task stays."""
    found = import_text("celery", tmp_path, f"beat_schedule = {{'a': {{'task': 'shop.a', 'schedule': {schedule}}}}}\n")
    assert not found.config.cron
    assert "shop.a" in found.config.tasks
    assert sentence in found.comments
