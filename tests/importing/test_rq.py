import pytest

from tests.support.imported_file import DATA, import_files, import_text


@pytest.mark.parametrize("path", sorted(DATA.glob("*.rq.txt")), ids=lambda path: path.name)
def test_each_file_becomes_one_that_loads(path):
    """Those after public projects."""
    found = import_files("rq", path)
    assert found.config.workers
    assert set(found.warnings) <= {"unused-queue", "runs-as-root", "short-drain"}


def test_schedules_of_rq_cron():
    """Functions by where they were imported from; what another module defines is a comment."""
    found = import_files("rq", DATA / "cron.rq.txt")
    cron, tasks = found.config.cron, found.config.tasks
    assert (tasks["fill_cache"].run, tasks["fill_cache"].queue, tasks["fill_cache"].failure_ttl) == (
        "atlas.logic.score.fill_cache", "score-cache", 86400,
    )  # fmt: skip
    assert (cron["fill_cache"].schedule, cron["ping"].every, list(cron["ping"].args)) == ("0 12 * * *", 30, ["all"])
    assert (tasks["ping"].result_ttl, tasks["enqueue_all"].timeout.soft, tasks["ping"].retry) == (600, 3600, "none")
    assert "job_timeout atlas.constants.JOB_TIMEOUT: it is known only when Python runs" in found.comments
    assert "cron.register(local, 'upkeep', interval=60): name the function's module" in found.comments


def test_settings_of_a_worker():
    """Queues in their order; an address of the environment."""
    found = import_files("rq", DATA / "worker.rq.txt", environ={"REDIS_URL": "redis://db:1/2"})
    group = found.config.workers["main"]
    assert (list(group.queues), group.order, found.config.broker.url) == (
        ["urgent", "pages"],
        "strict",
        "redis://db:1/2",
    )
    assert "prefix" in found.comments or "QUEUE_PREFIX" in found.comments
    assert "secret@example" not in found.text


def test_an_address_with_a_password_is_not_printed(tmp_path):
    """Neither one that is written down nor a default."""
    found = import_text("rq", tmp_path, "REDIS_URL = 'redis://u:hunter2@db/1'\nQUEUES = ['a']\n")
    assert found.config.broker.url == "redis://u@db/1"
    assert "hunter2" not in found.text
    text = "import os\nREDIS_URL = os.getenv('REDIS_URL', 'redis://:hunter2@db/1')\nQUEUES = ['a']\n"
    assert "hunter2" not in import_text("rq", tmp_path, text).text
