"""From a path to a function, and from an exception to another attempt."""

import sys
import types
import uuid

import pytest

from fusiond.worker.runtime import wire
from fusiond.worker.runtime.task import TaskRow, load, load_function, what_next
from fusiond.worker.runtime.task_errors import TaskError


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module from its text; gives its name, which no other test has."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def make(text, name=None):
        name = name or f"m{uuid.uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(text)
        made.append(name)
        return name

    yield make
    for name in made:
        sys.modules.pop(name, None)


def refusal(path):
    with pytest.raises(TaskError) as caught:
        load(path)
    return caught.value.code, str(caught.value)


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("no_such.module.f", "IMPORT_ERROR", "no_such"),
        ("no_such_at_all", "IMPORT_ERROR", "no_such_at_all"),
        ("{}.f", "TASK_NOT_FOUND", "'f'"),
        ("{}.x", "TASK_NOT_FOUND", "int"),
    ],
)
def test_a_path_that_leads_to_no_function(module, path, code, words):
    """No such module, no such name in it, or a name of something else."""
    path = path.format(module("x = 1"))
    found, message = refusal(path)
    assert found == code
    assert words in message
    assert path.partition(".")[0] in message


def test_a_class_is_not_a_function(module):
    """A call would only make an object, and nothing would run."""
    name = module("class Report:\n    def run(self): ...\n")
    with pytest.raises(TaskError, match=r"Report: is a class, not a function"):
        load_function(f"{name}.Report")
    assert load_function(f"{name}.Report.run")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_need", f"no_such_need'; install it for {sys.executable}, or name another interpreter"),
        ("1 / 0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("class E(Exception):\n    def __str__(self): raise E\nraise E", "E"),
        ("def __getattr__(name): raise KeyError(name)", "KeyError"),
    ],
)
def test_the_modules_own_import_failed(module, text, words):
    """It is there, and is at fault itself: told apart from a path that is wrong, with what went wrong."""
    name = module(text)
    code, message = refusal(f"{name}.f")
    assert code == "IMPORT_ERROR"
    assert name in message
    assert words in message


# -- retries ----------------------------------------------------------------------------------------------------------


class Deep(ConnectionResetError):
    class Nested(Exception):
        pass


@pytest.fixture
def shelf(monkeypatch):
    """A loaded module that re-exports a class of another."""
    shelf = types.ModuleType("shelf")
    shelf.Again = Deep
    shelf.number = 7
    monkeypatch.setitem(sys.modules, "shelf", shelf)
    return shelf


def may_retry(error, retry_on, give_up_on, also=None):
    """What a policy without `snooze_on` says."""
    row = TaskRow("m.f", 1.0, retry_on, give_up_on, [], None, True)
    return {wire.RETRY: True, wire.GIVE_UP: False}[what_next(error, row, also)]


@pytest.mark.parametrize(
    ("retry_on", "give_up_on", "retries"),
    [
        (["ConnectionError"], [], True),
        (["OSError"], [], True),
        ([f"{__name__}.Deep"], [], True),
        (["TimeoutError", f"{__name__}.Other"], [], False),
        ([], [], True),
        ([], ["OSError"], False),
        ([f"{__name__}.Deep"], ["ConnectionError"], False),
    ],
)
def test_names_match_along_the_bases(retry_on, give_up_on, retries):
    """With none named every exception is retried; giving up wins."""
    assert may_retry(Deep(), retry_on, give_up_on) == retries


def test_a_re_exported_name_matches(shelf):
    """Under the name by which its module is known."""
    assert may_retry(Deep(), ["shelf.Again"], [])
    assert not may_retry(ValueError(), ["shelf.Again"], [])
    assert may_retry(Deep.Nested(), ["shelf.Again.Nested"], [])
    assert not may_retry(Deep(), ["shelf.number", "shelf.nothing", "shelf.number.real"], [])


def test_nothing_is_imported_for_a_name():
    """A module that is not loaded cannot have raised it."""
    sys.modules.pop("antigravity", None)
    assert not may_retry(Deep(), ["antigravity.Error"], [])
    assert "antigravity" not in sys.modules


def test_a_name_that_a_module_exports_lazily_matches(shelf):
    """So does one that a class inherits. What a module's own __getattr__ raises is not a match, and nothing else."""
    shelf.Heir = type("Heir", (Deep,), {})
    assert may_retry(Deep.Nested(), ["shelf.Heir.Nested"], [])
    shelf.__getattr__ = lambda name: Deep if name == "Lazy" else 1 / 0
    assert may_retry(Deep(), ["shelf.Lazy"], [])
    assert not may_retry(Deep(), [], ["shelf.Lazy"])
    assert not may_retry(Deep(), ["shelf.Other"], [])


def test_a_snooze_wins():
    """Over the other lists; a policy's other exceptions are as before."""
    row = TaskRow("m.f", 1.0, ["OSError"], ["ConnectionError"], ["ConnectionResetError"], None, True)
    assert [what_next(error, row) for error in (Deep(), ConnectionAbortedError(), FileNotFoundError(), KeyError())] == [
        wire.SNOOZE,
        wire.GIVE_UP,
        wire.RETRY,
        wire.GIVE_UP,
    ]
