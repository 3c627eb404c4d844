import json

import pytest

from fusiond.importing.input_files import ImportRefused
from tests.support.imported_file import DATA, import_files, import_text

FILES = sorted([*DATA.glob("*.sidekiq.yml"), *DATA.glob("*.schedule.yml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_becomes_one_that_loads(path):
    """Those after public projects."""
    found = import_files("sidekiq", path)
    assert found.config.retry_policies["sidekiq"].max_attempts in (4, 26)
    # Which tasks use a queue is said by Ruby classes, and how long a shutdown waits by Sidekiq.
    assert set(found.warnings) <= {"short-drain", "unused-queue"}


def test_weights_and_concurrency():
    """A map of weights; each thread is a process."""
    group = import_files("sidekiq", DATA / "weights.sidekiq.yml").config.workers["sidekiq"]
    assert dict(group.weights) == {"default": 5, "texts": 1, "mailer": 1}
    assert (group.processes, group.drain_timeout) == (5, 8)


def test_a_strict_order_and_numbers_of_the_environment():
    """ERB that reads a variable with a default becomes one of ours; other Ruby is a comment."""
    path = DATA / "strict.sidekiq.yml"
    found = import_files("sidekiq", path)
    group = found.config.workers["sidekiq"]
    assert (group.order, next(iter(group.queues))) == ("strict", "urgent")
    assert (group.processes, group.drain_timeout) == (10, 120)
    other = import_files("sidekiq", path, environ={"SHOP_CONCURRENCY": "3", "SHOP_STOP_TIMEOUT": "9"})
    assert (other.config.workers["sidekiq"].processes, other.config.workers["sidekiq"].drain_timeout) == (3, 9)
    assert found.config.retry_policies["sidekiq"].max_attempts == 4
    assert "'<% if ENV[\"WITH_SEARCH\"] %>': Ruby is not run" in found.comments
    assert "staging: it is not of the environment production" in found.comments
    staging = import_files("sidekiq", path, environment="staging")
    assert staging.config.workers["sidekiq"].processes == 5
    assert "Etc.nprocessors" in staging.comments


def test_limits_of_limit_fetch():
    """They hold for all processes together, as `max_running` does."""
    found = import_files("sidekiq", DATA / "limits.sidekiq.yml")
    assert {name: queue.max_running for name, queue in found.config.queues.items() if queue.max_running} == {
        "default": 1, "exports": 2,
    }  # fmt: skip
    assert found.config.workers["sidekiq"].processes == 2
    assert "process_limits: `max_running` of a queue holds for all hosts together" in found.comments
    assert "exports" in {queue for group in found.config.workers.values() for queue in group.queues}


def test_schedules_of_sidekiq_scheduler():
    """Intervals, seconds in front, a zone behind, arguments; what runs once is a comment."""
    found = import_files("sidekiq", DATA / "limits.sidekiq.yml")
    cron = found.config.cron
    assert set(cron) == {"tidy_sessions", "report", "pulse"}
    assert (cron["tidy_sessions"].every, cron["pulse"].every, cron["pulse"].suspended) == (3600, 15, True)
    assert (cron["report"].schedule, cron["report"].timezone) == ("30 6 * * *", "Europe/Berlin")
    runner, word, code, given = found.words("report")
    assert (runner, word, code) == ("bin/rails", "runner", "ReportJob.new.perform(*JSON.parse(ARGV[0]))")
    assert json.loads(given) == ["daily", {"full": True}]


def test_schedules_of_sidekiq_cron():
    """A task for each class, in the queue of the entry."""
    found = import_files("sidekiq", DATA / "cron.schedule.yml", DATA / "arguments.schedule.yml")
    assert found.config.tasks["Internal.CheckVersionsJob"].queue == "scheduled"
    assert found.words("give_yearly_badges")[3] == '["", "yearly", ""]'
    assert found.words("send_digest")[2] == "Mails::SendDigestWorker.new.perform"
    assert found.config.tasks["ForgetPathWorker"].retry == "sidekiq"


def test_settings_and_schedules_become_one_file():
    """The queues of both, in one group."""
    found = import_files("sidekiq", DATA / "strict.sidekiq.yml", DATA / "cron.schedule.yml")
    assert list(found.config.workers) == ["sidekiq"]
    assert "scheduled" in found.config.workers["sidekiq"].queues


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("job: {cron: '* * * * *', class: 'system(\"rm -rf /\")'}", "is not the name of a class of Ruby"),
        ("job: {cron: '* * * * *', class: A, args: ['<%= secret %>']}", "an argument is known only when Ruby runs"),
        ("job: {cron: '* * * * *', class: A, rails_env: test}", "it is of the environment test"),
        ("job: {cron: 'every fortnight', class: A}", "has 2 fields, not five"),
        (":concurrency: ERB_0_VALUE", "it is not a number that is known before Ruby runs"),
        (":concurrency: many", "it is not a number that is known before Ruby runs"),
        (":concurrency: 0", "0 is below 1"),
    ],
)
def test_what_cannot_be_carried_over_is_a_comment(tmp_path, text, sentence):
    """With the reason."""
    found = import_text("sidekiq", tmp_path, text)
    assert not found.config.cron
    assert sentence in found.comments


@pytest.mark.parametrize("text", ["- a\n- b", "just text", "", "a: b: c"])
def test_what_is_no_map_is_refused(tmp_path, text):
    """One sentence, no traceback."""
    with pytest.raises(ImportRefused):
        import_text("sidekiq", tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "Cleanup: {cron: '0 1 * * *'}\nReport: {every: 2h, klass: Report}\n",
        "defaults: &d\n  Cleanup: {cron: '0 1 * * *'}\nproduction:\n  <<: *d\n  Report: {interval: 2h}\n",
    ],
    ids=["without a class", "by environment"],
)
def test_a_schedule_may_name_no_class_and_stand_below_an_environment(tmp_path, text):
    """An entry is its own class then; one such entry made all others a setting that nobody knew."""
    (tmp_path / "schedule.yml").write_text(text)
    found = import_files("sidekiq", tmp_path / "schedule.yml").config.cron
    assert (found["Cleanup"].task, found["Report"].every) == ("Cleanup", 7200)
