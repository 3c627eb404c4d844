"""What becomes of files that no person wrote, and of what refers to an entry that is refused."""

import pytest

from fusiond.importing import finished_file
from fusiond.importing.input_files import ImportRefused
from tests.support.imported_file import import_application, import_text


def test_a_file_of_many_bad_lines_is_read_in_one_pass(tmp_path):
    """The first thousand are named. If each was compared with each other one, the test's time would be over."""
    lines = "".join(f"nonsense {number}\n" for number in range(30_000))
    found = import_text("crontab", tmp_path, f"{lines}1 2 * * * fine\n")
    assert set(found.config.cron) == {"fine"}
    assert found.comments.count("neither a schedule with a command") == 1000
    assert "and 29,000 more" in found.comments


def test_more_entries_than_a_file_has_room_for_are_refused(tmp_path):
    """With a sentence, soon."""
    with pytest.raises(ImportRefused, match="there are more than 5,000 entries for tasks"):
        import_text("crontab", tmp_path, "".join(f"1 2 * * * run {number}\n" for number in range(30_000)))


def test_more_errors_than_anybody_corrects_are_refused(tmp_path, monkeypatch):
    """After some rounds of the loader, each of which names 250."""
    monkeypatch.setattr(finished_file, "_ROUNDS", 1)
    with pytest.raises(ImportRefused, match="too much of it cannot be carried over"):
        import_text("crontab", tmp_path, "".join(f"61 2 * * * run{number}\n" for number in range(300)))


def test_what_refers_to_a_refused_entry_is_refused_too(tmp_path):
    """A task whose path the loader does not take, and then its schedule; the rest stays."""
    text = (
        "from rq import cron\ndef fetch(): pass\ndef send(): pass\nsend.__module__ = 'shop-x.mail'\n"
        "for function in (send, fetch):\n    cron.register(function, 'mail', interval=60)\n"
    )
    found = import_application("rq", tmp_path, {"mail.py": text}, "mail")
    assert (set(found.config.tasks), set(found.config.cron)) == ({"fetch"}, {"fetch"})
    assert "'shop-x.mail.send' is not a dotted path" in found.comments
    assert "left out: task 'send' is not declared" in found.comments
