"""`fusiond import --static`: the names of tasks without a run."""

import pytest

from fusiond.importing.input_files import ImportRefused
from tests.support.imported_file import import_files


def static(runner, directory, text, path="shop/mail.py"):
    """What is found in a file of this text."""
    file = directory / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return import_files(runner, file, static=True, directory=str(directory))


def test_tasks_of_celery(tmp_path):
    """Each decorator, with and without a name; nothing is executed."""
    mark = tmp_path / "ran"
    found = static(
        "celery",
        tmp_path,
        f"open({str(mark)!r}, 'w')\nimport no_such_module\n@app.task\ndef send(): pass\n"
        "@shared_task(name='reports')\ndef report(): pass\n@other.wrap\n@app.task(bind=True)\nasync def both(): pass\n"
        "@app.route('/')\ndef page(): pass\nclass Holder:\n    @get_app().task()\n    def inner(): pass\n",
    )
    assert not mark.exists()
    assert {name: task.run for name, task in found.config.tasks.items()} == {
        "shop.mail.send": "shop.mail.send", "reports": "shop.mail.report", "shop.mail.both": "shop.mail.both",
        "shop.mail.inner": "shop.mail.inner",
    }  # fmt: skip
    assert "the source was read and not run" in found.comments
    assert "import celery --static" in found.comments


def test_tasks_of_rq(tmp_path):
    """`@job` of RQ and of django-rq; a file without any is named."""
    found = static("rq", tmp_path, "@job('low')\ndef send(): pass\n", "shop/__init__.py")
    assert list(found.config.tasks) == ["shop.send"]
    assert "no function in it has a decorator" in static("rq", tmp_path, "A = 1\n").comments


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = [", "line 1: this is not Python"),
        ("a = " + "(" * 5000, "this is not Python|nested too deeply"),
        ("a = " + "-" * 100_000 + "1", "nested too deeply|this is not Python"),
    ],
    ids=["syntax", "brackets", "signs"],
)
def test_hostile_text_gets_a_sentence(tmp_path, text, sentence):
    """In no time and no memory."""
    with pytest.raises(ImportRefused, match=sentence):
        static("celery", tmp_path, text)
