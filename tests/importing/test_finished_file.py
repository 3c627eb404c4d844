"""What becomes of files that no person wrote, and of what refers to an entry that is refused."""

from tests.support.imported_file import import_text


def test_a_file_of_many_bad_lines_is_read_in_one_pass(tmp_path):
    """The first thousand are named. If each was compared with each other one, the test's time would be over."""
    lines = "".join(f"nonsense {number}\n" for number in range(30_000))
    found = import_text("crontab", tmp_path, f"{lines}1 2 * * * fine\n")
    assert set(found.config.cron) == {"fine"}
    assert found.comments.count("neither a schedule with a command") == 1000
    assert "and 29,000 more" in found.comments


def test_what_refers_to_a_refused_entry_is_refused_too(tmp_path):
    """A task whose path the loader does not take, and then its schedule; the rest stays."""
    text = (
        "from rq import cron\ncron.register('shop-x.mail.send', 'mail', interval=60)\n"
        "cron.register('shop.mail.fetch', 'mail', interval=60)\n"
    )
    found = import_text("rq", tmp_path, text)
    assert (set(found.config.tasks), set(found.config.cron)) == ({"fetch"}, {"fetch"})
    assert "'shop-x.mail.send' is not a dotted path" in found.comments
    assert "left out: task 'send' is not declared" in found.comments
