import json

import pytest

from fusiond.importing.input_files import ImportRefused
from tests.support.imported_file import DATA, import_files, import_text

FILES = sorted([*DATA.glob("*.queue.yml"), *DATA.glob("*.recurring.yml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_becomes_one_that_loads(path):
    """Those after public projects."""
    found = import_files("solid-queue", path)
    assert found.config.cron or found.config.workers
    assert set(found.warnings) <= {"short-drain", "unused-queue"}


def test_phrases_become_schedules():
    """Where they mean the same; the phrase stands above."""
    found = import_files("solid-queue", DATA / "board.recurring.yml")
    cron = found.config.cron
    assert {name: entry.schedule or entry.every for name, entry in cron.items()} == {
        "send_bundles": "*/30 * * * *",
        "weekly_highlights": "0 12 * * 0",
        "postpone_due": "0 * * * *",
        "delete_unused_labels": "0 4 * * *",
        "clear_finished_jobs": "12 * * * *",
        "clean_deliveries": "0 */4 * * *",
        "measure": 60,
    }
    assert found.words("send_bundles") == ["bin/rails", "runner", "Notice::Bundle.send_all_later"]
    assert found.words("postpone_due") == ["bin/rails", "runner", "Note::PostponeDueJob.perform_now"]
    assert "weekly_highlights: every sunday at noon" in found.comments


def test_merge_keys_and_environments():
    """The section of the environment, whatever it is merged of."""
    path = DATA / "merged.recurring.yml"
    assert set(import_files("solid-queue", path, environment="staging").config.cron) == {"periodic_read_shops"}
    found = import_files("solid-queue", path)
    cron = found.config.cron
    assert set(cron) == {"periodic_read_shops", "periodic_clear_shops", "periodic_sitemap"}
    assert json.loads(found.words("periodic_sitemap")[3]) == ["sitemap:refresh"]


def test_arguments_queues_and_what_is_not_known():
    """A map behind the arguments is keywords, as in Active Job."""
    found = import_files("solid-queue", DATA / "scans.recurring.yml")
    assert set(found.config.cron) == {"start_scans", "retry_lost_scans", "clean_log", "clean_pictures"}
    assert found.config.tasks["CleanPicturesJob"].command[2].endswith("CleanPicturesJob.perform_now(*a, **k)")
    assert found.config.tasks["CleanLogJob"].queue == "low_priority"
    assert "by_setting: it has no schedule that is known before Ruby runs" in found.comments
    assert "'every other tuesday'" in found.comments


def test_workers_become_groups():
    """Each thread is a process; patterns of queues and Ruby are comments."""
    found = import_files("solid-queue", DATA / "board.queue.yml")
    groups = list(found.config.workers.values())
    assert [group.processes for group in groups] == [3, 2]
    assert groups[0].order == "strict"
    assert "mail*: a group names each queue" in found.comments
    assert "Rails.env.local?" in found.comments
    other = import_files("solid-queue", DATA / "board.queue.yml", environ={"OTHER_PROCESSES": "6"})
    assert [group.processes for group in other.config.workers.values()] == [3, 6]


def test_a_section_that_is_not_there_is_named(tmp_path):
    """With those that are."""
    with pytest.raises(ImportRefused, match="has no section production; it has development, test: name one"):
        import_text("solid-queue", tmp_path, "test: {}\ndevelopment: {}\n")
