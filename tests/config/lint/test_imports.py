"""`fusiond validate --imports`: what the group's own interpreter says of the tasks."""

import os
import pwd
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.fusiond_command import fusiond_here
from tests.support.running import PATIENCE, until

HEAD = "version: 1\nworkers: {m: {directory: .}}\n"


@pytest.fixture
def app(tmp_path):
    """Writes modules and a file; answers with the problems as path → (code, what the caret underlines, problem)."""

    def validate(text, *words, status=None, patience="1m", **modules):
        for name, content in modules.items():
            path = tmp_path / f"{name.replace('__', '/') if '/' not in name else name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)
        (tmp_path / "fusion.yaml").write_text(text)
        done = fusiond_here("validate", "--imports", "--json", "--import-timeout", patience, *words, cwd=tmp_path)
        assert status in (None, done.status)
        return [problem for problem in done.json if problem["code"] != "runs-as-root"]

    return validate


def underlined(problem):
    start = problem["column"] - 1
    return problem["code"], problem["excerpt"][start : start + problem["width"]]


def test_the_four_ways_in_which_a_path_leads_nowhere_are_told_apart(app):
    """Module missing, name missing, no function, and a module that fails: each at its `run:`, all in one go."""
    found = app(
        HEAD + "tasks:\n  a: {run: shpo.send}\n  b: {run: shop.sned}\n  c: {run: shop.N}\n  d: {run: bad.f}\n"
        "  ok: {run: shop.send}\n",
        status=1,
        shop="N = 1\ndef send(): ...\n",
        bad="def f(): ...\n\ndef inner():\n    return {}['missing']\n\ninner()\n",
    )
    assert list(map(underlined, found)) == [
        ("missing-module", "shpo.send"),
        ("missing-attribute", "shop.sned"),
        ("not-callable", "shop.N"),
        ("broken-module", "bad.f"),
    ]
    assert [problem["remedy"] for problem in found[:2]] == ["did you mean 'shop.send'?"] * 2


def test_a_command_is_not_loaded(app):
    """Beside functions, and in a file that has no function at all."""
    command = "  b: {command: [sh, -c, 'echo \"$1\"', sh, $(day)], parameters: {day: {enum: [mon]}}}\n"
    assert app(f"{HEAD}tasks:\n{command}", status=0) == []
    policy = "retry_policies: {p: {snooze_on: [ProgramFailed], retry_on: [fusiond.ProgramFailed]}}\n"
    assert app(f"{HEAD}{policy}tasks:\n  b: {{command: [cat], retry: p}}\n", status=0) == []
    found = app(f"{HEAD}tasks:\n  a: {{run: shop.sned}}\n{command}", shop="def send(): ...\n")
    assert list(map(underlined, found)) == [("missing-attribute", "shop.sned")]


def test_a_failing_import_shows_the_users_traceback_and_nothing_of_ours(app):
    """Its own frames, innermost last, once for all tasks of the module; a missing need is not a missing module."""
    found = app(
        HEAD + "tasks: {a: {run: shop.f}, b: {run: shop.g}}\n",
        shop="import helper\n",
        helper="import no_such_need\n",
    )
    assert [problem["code"] for problem in found] == ["broken-module"] * 2
    first, second = (problem["detail"] for problem in found)
    assert second == ""
    frames = [line for line in first.splitlines() if line.startswith("  File")]
    assert [Path(line.split('"')[1]).name for line in frames] == ["shop.py", "helper.py"]
    assert first.splitlines()[-1] == "ModuleNotFoundError: No module named 'no_such_need'"


@pytest.mark.parametrize(
    ("entry", "underlines"),
    [
        ("args: [x], kwargs: {cod: 1}", "cod"),
        ("args: [x, y, z]", "y"),
        ("args: [x], kwargs: {to: x}", "kwargs"),
        ("kwargs: {code: 1}", "kwargs"),
        ("args: []", "args"),
        ("suspended: false", "task"),
    ],
)
def test_arguments_of_cron_bind_to_the_signature(app, entry, underlines):
    """Too many, too few, a strange name: at the argument itself where there is one."""
    (problem,) = app(
        HEAD + f"tasks: {{a: {{run: shop.send}}}}\ncron: {{c: {{task: a, every: 1h, {entry}}}}}\n",
        shop="def send(to, *, code=0): ...\n",
    )
    assert underlined(problem) == ("bad-arguments", underlines)
    assert "send(to, *, code=…)" in problem["message"]


@pytest.mark.parametrize(
    "function",
    [
        "def f(to, code=0): ...",
        "def f(*args, **kwargs): ...",
        "async def f(to, *, code): ...",
        "import functools\nf = functools.partial(lambda a, to, code: 0, 1)",
        "class C:\n    def __call__(self, to, code): ...\nf = C()",
        "import functools as t\nd = lambda g: t.wraps(g)(lambda *a, **k: g(*a, **k))\nf = d(lambda to, code: 0)",
        "f = dict.fromkeys",
    ],
)
def test_whatever_can_be_called_is_taken(app, function):
    """Coroutines, partials, objects, decorated functions, built-ins that tell no signature."""
    text = "tasks: {a: {run: shop.f}}\ncron: {c: {task: a, every: 1h, args: [x], kwargs: {code: 1}}}\n"
    found = app(HEAD + text, shop=function + "\n")
    assert found == [] or ("dict.fromkeys" in function and found[0]["code"] == "bad-arguments")


def test_what_hangs_dies_or_prints_costs_the_others_nothing(app):
    """A hang ends after the deadline and says where; a crash says how; the tasks behind them are still checked."""
    found = app(
        HEAD + "tasks: {a: {run: hang.f}, b: {run: hang.g}, c: {run: dies.f}, d: {run: loud.f}, e: {run: loud.nope}}\n",
        hang="import time\nprint('so far')\ntime.sleep(600)\n",
        dies="import os\nprint('bye', flush=True)\nos.abort()\n",
        loud="print('x' * 300_000)\ndef f(): ...\n",
        patience="10s",  # in which an interpreter starts on a busy machine, too
    )
    assert [problem["code"] for problem in found] == [
        "import-timeout", "import-timeout", "import-crash", "missing-attribute",
    ]  # fmt: skip
    assert 'hang.py", line 3' in found[0]["detail"]
    assert "SIGABRT" in found[2]["message"]
    assert "bye" in found[2]["detail"]


def test_each_group_is_asked_with_its_own_interpreter_and_environment(app, tmp_path):
    """A task of two groups that only one can load is told with the group; one that starts nothing is told as such."""
    found = app(
        "version: 1\nqueues: {q: {}}\ntasks: {a: {run: shop.f}, b: {run: shop.f, queue: q}}\nworkers:\n"
        "  good: {directory: ., queues: [default, q], environment: {NEEDED: x}}\n"
        "  bare: {directory: ., queues: [q]}\n  none: {directory: ., python: /bin/false}\n",
        shop="import os\nos.environ['NEEDED']\ndef f(): ...\n",
    )
    assert [underlined(problem) for problem in found] == [
        ("broken-module", "shop.f"),
        ("imports-unchecked", "/bin/false"),
    ]
    assert "(group 'bare')" in found[0]["message"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="no interpreter that everyone may run")
def test_the_code_is_loaded_as_the_groups_user():
    """Never as root: what an import may do is what the group's user may do."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        (directory / "shop.py").write_text("import os\nraise OSError(os.popen('id -un; id -G').read())\n")
        (directory / "fusion.yaml").write_text(
            "version: 1\ntasks: {a: {run: shop.f}}\n"
            "workers: {m: {directory: ., user: nobody, python: /usr/bin/python3}}\n"
        )
        found = fusiond_here("validate", "--imports", "--json", cwd=directory).json
    nobody = pwd.getpwnam("nobody")
    assert [problem["code"] for problem in found] == ["broken-module"]
    assert f"OSError: nobody\\n{nobody.pw_gid}\n" in found[0]["message"].replace("\n", "\\n", 1)


def test_a_file_with_errors_loads_nothing(app, tmp_path):
    """Code is run only for a file that says clearly what it wants."""
    found = app(HEAD + "tasks: {a: {run: shop.f, timeout: 5}}\n", shop="open('ran', 'w')\n")
    assert [problem["code"] for problem in found] == ["missing-unit"]
    assert not (tmp_path / "ran").exists()


def test_an_interrupted_check_leaves_no_probe(tmp_path):
    """Ctrl-C ends the command and the import that hangs."""
    (tmp_path / "shop.py").write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    (tmp_path / "fusion.yaml").write_text(HEAD + "tasks: {a: {run: shop.f}}\n")
    command = [sys.executable, "-P", "-m", "fusiond.cli", "validate", "--imports"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        pid = tmp_path / "pid"
        until(lambda: pid.exists() and pid.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert not Path(f"/proc/{pid.read_text()}").exists()


def test_the_steps_of_a_flow_fit_their_functions(app):
    """Inputs, literals and the item of `for_each` together; what only groups of other hosts serve is not loaded."""
    text = (
        "version: 1\nworkers:\n  m: {directory: ., queues: [default]}\n"
        "  far: {directory: ., queues: [far], hosts: [none]}\nqueues: {far: {}}\n"
        "tasks:\n  list: {run: shop.list_all}\n  load: {run: shop.load, pass_job: job}\n"
        "  far: {run: not_here.far, queue: far}\nflows:\n  etl:\n    steps:\n"
        "      list: {task: list, inputs: {dya: input.day}}\n"
        "      good: {task: load, after: [list], for_each: list, as: file, args: [], inputs: {day: input.day}}\n"
        "      odd: {task: load, after: [list], for_each: list, as: fiel, inputs: {day: input.day}}\n"
        "      few: {task: load, after: [list], for_each: list, as: file}\n"
    )
    shop = "def list_all(day): ...\ndef load(file, day, mode=1, *, job): ...\n"
    found = app(text, status=1, shop=shop)
    assert list(map(underlined, found)) == [("bad-arguments", word) for word in ("dya", "as", "task")]
    assert found[0]["message"].startswith("flows.etl.steps.list: ")
    assert [problem["remedy"] for problem in found[:2]] == ["did you mean 'day'?", "did you mean 'file'?"]
    assert underlined(app(text, "--elsewhere")[0]) == ("missing-module", "not_here.far")


def test_the_inputs_of_a_cron_entry_fit_its_function(app):
    """What comes from the tick is given by name, as `kwargs` are."""
    text = (
        "version: 1\nworkers: {m: {directory: .}}\ntasks: {dump: {run: shop.dump}}\ncron:\n"
        "  good: {task: dump, every: 1h, kwargs: {to: disk}, inputs: {day: tick.date}}\n"
        "  odd: {task: dump, every: 1h, kwargs: {to: disk}, inputs: {dya: tick.date}}\n"
    )
    [found] = app(text, status=1, shop="def dump(day, to): ...\n")
    assert (underlined(found), found["remedy"]) == (("bad-arguments", "dya"), "did you mean 'day'?")
    assert found["message"].startswith("cron.odd: ")


def test_a_generator_and_a_class_are_no_functions(app):
    """A call of either runs nothing, though it raises nothing; the same holds for `on_start`."""
    found = app(
        "version: 1\ntasks:\n  a: {run: shop.gen}\n  b: {run: shop.agen}\n  c: {run: shop.Report}\n  d: {run: shop.f}\n"
        "workers: {m: {directory: ., on_start: shop.gen}}\n",
        shop="def gen(): yield\nasync def agen(): yield\nclass Report: ...\ndef f(): ...\n",
    )
    assert [underlined(problem) for problem in found] == [
        ("not-callable", "shop.gen"), ("not-callable", "shop.agen"), ("not-callable", "shop.Report"),
        ("not-callable", "shop.gen"),
    ]  # fmt: skip


def test_exceptions_that_snooze_and_namesakes_are_looked_at(app):
    """`snooze_on` is checked like the other two, and a package's exception is not the built-in one of its name."""
    found = app(
        HEAD + "retry_policies:\n  p: {snooze_on: [shop.Late, shop.Lat], retry_on: [ConnectionError]}\n"
        "tasks: {a: {run: shop.f, retry: p}}\n",
        shop="class Late(Exception): ...\nclass ConnectionError(Exception): ...\ndef f(): ...\n",
    )
    assert sorted(underlined(problem) for problem in found) == [
        ("namesake-exception", "ConnectionError"), ("not-an-exception", "shop.Lat"),
    ]  # fmt: skip
    assert "shop.ConnectionError" in next(each["message"] for each in found if each["code"] == "namesake-exception")
