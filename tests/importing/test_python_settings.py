import pytest

from fusiond.importing.draft import Expanded, Reference, Unknown
from fusiond.importing.finished_file import SourceText
from fusiond.importing.input_files import ImportRefused
from fusiond.importing.python_settings import module_of


def names(text):
    """What a module assigns."""
    return module_of(SourceText("f.py", text)).names


def test_what_a_module_says_without_running_it(tmp_path):
    """Literals, names, sums, merged maps, later changes; nothing is executed."""
    mark = tmp_path / "ran"
    found = names(
        f"__import__('pathlib').Path({str(mark)!r}).touch()\nM = 60\nA = 30 * M + 5\nC = [1, *[2, 3]]\n"
        "D = {'a': 1, **{'b': 2}} | {'c': 3}\nD['d'] = -4\nE: int = 7\nE += 1\n"
        "if M:\n    F = 1\nelse:\n    F = 2\nG = 1 / 0\n"
    )
    assert not mark.exists()
    assert {key: found[key] for key in "ACDEF"} == {
        "A": 1805, "C": [1, 2, 3], "D": {"a": 1, "b": 2, "c": 3, "d": -4}, "E": 8, "F": 2,
    }  # fmt: skip
    assert isinstance(found["G"], Unknown)


def test_the_environment_becomes_references():
    """With a default only: without one the file would not load where the variable is not set."""
    found = names(
        "import os\nfrom os import getenv\nA = int(os.environ.get('N', 4))\nB = f\"redis://{getenv('H', 'db')}:1/$0\"\n"
        "C = os.environ['X']\nD = os.getenv('Y')\nE = getenv('Z', 'a b: {c}')\n"
    )
    assert found["A"] == Reference("N", "4")
    assert found["B"] == "redis://${H:-db}:1/$$0"
    assert isinstance(found["B"], Expanded)
    assert all(isinstance(found[name], Unknown) for name in "CDE")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = [", "line 1: it is no Python of this interpreter"),
        ("a = " + "(" * 5000, "it is no Python|nested too deeply"),
        ("a = 1" + "+1" * 100_000, "nested too deeply|it is no Python"),
        ("a = " + "-" * 100_000 + "1", "nested too deeply|it is no Python"),
        ("a = [0, 0]\n" + "a = [a, a]\n" * 60, "more than 20,000 parts"),
        ("a = [0, 0]\n" + "a = a + a\n" * 60, "more than 20,000 parts"),
        ("a = {'k': 0}\n" + "\n".join(f"a['k{n}'] = a" for n in range(60)), "more than 20,000 parts"),
        ("a = 'x'\n" + "a = a + a\n" * 60, None),
        ("a = 9\n" + "a = a * a\n" * 60, None),
        ("a = " + "9" * 5000, "it is no Python of this interpreter"),
    ],
    ids=["syntax", "brackets", "sums", "signs", "lists", "doubled", "maps", "text", "numbers", "digits"],
)
def test_hostile_text_gets_a_sentence(text, sentence):
    """Or a value that is not known; in no time and no memory."""
    if sentence is None:
        assert isinstance(names(text)["a"], Unknown)
    else:
        with pytest.raises(ImportRefused, match=sentence):
            names(text)
