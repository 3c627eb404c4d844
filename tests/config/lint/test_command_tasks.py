"""Commands of tasks, and the calls that the file has of them: what `fusiond validate` says, and where it is silent."""

import contextlib
import dataclasses
import time

import pytest
import yaml

from fusiond.config.lint.reports import as_text
from fusiond.config.load import load
from fusiond.worker.runtime import command, payload

RULE = "{pattern: '[a-z]+'}"


def problems(text, **more):
    """(code, what the caret underlines) of each problem."""
    found = load("f.yaml", environ={}, data=text.encode(), **more).problems
    told = [each for each in found if each.code != "runs-as-root"]
    return [(each.code, each.excerpt[each.column - 1 :][: each.width]) for each in told], as_text(told)


def of_task(text, rest=""):
    found, shown = problems(f"version: 1\ntasks: {{t: {text}}}\nworkers: {{m: {{}}}}\n{rest}", elsewhere=True)
    return found if not found or isinstance(found[0], tuple) else shown


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("[echo, $(p)]", []),
        ("[echo, a$(p)b$(p)]", []),
        ("[echo, $$(p), $(p)]", []),
        ("[echo, $p, $(p)]", []),
        ("[echo, $(q), $(p)]", [("unknown-parameter", "$(q)")]),
        ("[echo, $(p]", [("unused-parameter", "p"), ("broken-placeholder", "$(p")]),
        ("[echo, $(p), $()]", [("broken-placeholder", "$()")]),
        ("[echo, $(p), $(date +%F)]", [("broken-placeholder", "$(date +%F)")]),
        ("[echo, $(p), $((1+2))]", [("broken-placeholder", "$((1+2))")]),
        ("[$(p)]", [("placeholder-in-program", "$(p)")]),
        ("[./bin/$(p), a]", [("placeholder-in-program", "./bin/$(p)")]),
        ("[echo, a]", [("unused-parameter", "p")]),
        ("['', $(p)]", [("empty", "''")]),
        ("[echo, '', $(p)]", []),
    ],
)  # fmt: skip
def test_the_words_of_a_command(words, found):
    """A placeholder has a parameter, fills no program, and is told from a `$(` that was meant for a shell."""
    assert sorted(of_task(f"{{command: {words}, parameters: {{p: {RULE}}}}}")) == sorted(found)


@pytest.mark.parametrize(
    ("words", "is_code"),
    [
        ("sh, -c, $(p)", True), ("/bin/bash, -ec, $(p)", True), ("bash, -xc, $(p)", True), ("sh, -c, -e, $(p)", True),
        ("bash, -euo, pipefail, -c, $(p)", True), ("bash, -o, errexit, -c, a $(p)", True), ("sh, -c, --, $(p)", True),
        ("env, A=b, sh, -c, $(p)", True), ("timeout, 5, /usr/bin/python3.12, -Ic, 'f($(p))'", True),
        ("python, -c$(p)", True), ("perl, -ne, $(p)", True), ("perl, '-eprint $(p)'", True), ("ruby, -e, $(p)", True),
        ("node, -e, $(p)", True), ("node, --eval, $(p)", True), ("node, --eval=$(p)", True), ("dash, -c, $(p)", True),
        ("sh, -c, 'echo \"$1\"', sh, $(p)", False), ("python3, -c, 'pass', $(p)", False), ("perl, -ne, 1, $(p)", False),
        ("bash, job.sh, -c, $(p)", False), ("python3, -m, tool, -c, $(p)", False), ("node, sync.js, -e, $(p)", False),
        ("node, --max-old-space-size=$(p), sync.js", False), ("grep, -c, $(p)", False), ("push, -c, $(p)", False),
        ("bash, $(p)", False), ("csh, -c, $(p)", True), ("tcsh, -fc, $(p)", True), ("rbash, -c, $(p)", True),
        ("/bin/ksh93, -c, $(p)", True), ("node, -p, $(p)", True), ("node, --print, $(p)", True),
        ("node, -pe, $(p)", True), ("node, -r, m, -e, $(p)", True), ("php, -r, $(p)", True),
        ("php, -d, a=b, -r, $(p)", True), ("bash, -O, extglob, -c, $(p)", True), ("bash, -co, pipefail, $(p)", True),
        ("bash, -c, -o, pipefail, $(p)", True), ("bash, -co, pipefail, 'f \"$1\"', f, $(p)", False),
        ("php, job.php, -r, $(p)", False), ("php, -r, f();, $(p)", False), ("python3, -O, job.py, -c, $(p)", False),
        ("node, --print-bytecode, $(p)", False), ("ruby, -r, json, job.rb, $(p)", False),
        ("psql, -c, 'select 1', -v, p=$(p)", False),
    ],
)  # fmt: skip
def test_no_argument_becomes_code(words, is_code):
    """Behind `-c` or `-e` of an interpreter no placeholder may be, whatever options stand between; elsewhere it may."""
    found = of_task(f"{{command: [{words}], parameters: {{p: {RULE}}}}}")
    assert [code for code, _ in found] == ["placeholder-in-code"] * is_code


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("pg_dump, shop, '>', a", [("no-shell", "'>'")]), ("make, '&&', make", [("no-shell", "'&&'")]),
        ("nice, a, '|', b, '&'", [("no-shell", "'|'"), ("no-shell", "'&'")]), ("sh, -c, 'a | b'", []),
        ("echo, a>b", []),
        ("env, /bin/bash, job.sh, '|'", []), ("cut, -d, '|', a", []), ("find, ., -exec, rm, '{}', ;", []),
        ("expr, 1, '|', 2", []), ("ssh, host, a, '|', b", []), ("git, push, ;", [("no-shell", ";")]),
    ],
)  # fmt: skip
def test_a_word_that_only_a_shell_would_read(words, found):
    """Where no shell is started, and neither the program nor an option has such a sign of its own."""
    assert of_task(f"{{command: [{words}]}}") == found


def test_a_command_is_a_list_of_words():
    """Who writes a text is told what to write in its place."""
    assert (
        "write a list of words, such as [pg_dump, shop]"
        in problems("version: 1\ntasks: {t: {command: pg_dump shop}}\nworkers: {m: {}}\n", elsewhere=True)[1]
    )


def test_policies_name_the_failure_of_a_program():
    """As no exception that Python lacks; its class is an Exception."""
    policy = "retry_policies: {p: {give_up_on: [%s], retry_on: [%s]}}\n"
    task = "{command: [cat], retry: p}"
    assert of_task(task, policy % ("ProgramFailed", "Exception")) == []
    assert of_task(task, policy % ("ValueError", "ProgramFailed, fusiond.ProgramFailed")) == []
    assert of_task(task, policy % ("Exception", "ProgramFailed")) == [("never-retried", "ProgramFailed")]


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("exit_status: {success: [0, 3], retry: [75], snooze: [99]}", []),
        ("exit_status: {success: [1], retry: [0]}", []),
        ("exit_status: {retry: [0]}", [("two-meanings", "exit_status")]),
        ("exit_status: {success: [3], snooze: [3]}", [("two-meanings", "exit_status")]),
        ("parameters: {p: {pattern: '(?u)[0-9]+'}}, stdin: arguments", [("broken-pattern", "'(?u)[0-9]+'")]),
        ("parameters: {p: {pattern: 'a{99999999999}'}}, stdin: arguments", [("broken-pattern", "'a{99999999999}'")]),
        ("exit_status: {snooze: [99]}, retry: none", [("snooze-once", "exit_status")]),
        ("exit_status: {retry: [75]}, retry: none", [("ignored-key", "exit_status")]),
        ("exit_status: {retry: [75]}", []),
        ("parameters: {p: {enum: [-v, a, -1]}}, stdin: arguments", [("bad-value", "-v"), ("bad-value", "-1")]),
        ("parameters: {p: {enum: [-v, a], leading_dash: true}}, stdin: arguments", []),
        ("secret: [args.0]", [("unknown-parameter", "args.0")]),
        ("limit: {max_running: 1, by: [kwargs.x]}", [("unknown-parameter", "kwargs.x")]),
        ("unique: {until: ended, by: [kwargs.x]}", [("unknown-parameter", "kwargs.x")]),
        ("stdin: arguments, secret: [args.0, kwargs.x], unique: {until: ended, by: [args.1]}", []),
        ("pass_job: job", [("command-key", "pass_job")]),
        ("pass_job: null", []),
        ("result: stdout_json, directory: /srv, progress: false", []),
    ],
)
def test_the_keys_of_a_command(keys, found):
    """A status means one thing, a pattern is one of ASCII, and what only functions have is refused."""
    assert of_task(f"{{command: [cat], {keys}}}") == found


@pytest.mark.parametrize(
    "key", [f"parameters: {{p: {RULE}}}", "exit_status: {retry: [75]}", "directory: /srv", "stdin: arguments",
            "progress: false", "result: stdout", "result: stdout_json"],
)  # fmt: skip
def test_a_function_has_no_keys_of_commands(key):
    """At the task itself they are refused; as defaults they are for the commands among the tasks."""
    assert of_task(f"{{run: x.y, {key}}}") == [("command-key", key.partition(":")[0])]
    assert of_task("{run: x.y, parameters: {}, exit_status: {}, directory: null, progress: true}") == []
    if "parameters" not in key:
        assert of_task("{run: x.y}", f"defaults: {{tasks: {{{key}}}}}\n") == []


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("kwargs: {p: abc}", []),
        ("inputs: {p: tick.date}", []),
        ("kwargs: {p: ABC}", [("bad-arguments", "ABC")]),
        ("kwargs: {p: abc1}", [("bad-arguments", "abc1")]),
        ('kwargs: {p: "abc\\n"}', [("bad-arguments", '"abc\\n"')]),
        ("kwargs: {p: [abc]}", [("bad-arguments", "p")]),
        ("kwargs: {p: true}", [("bad-arguments", "true")]),
        ("kwargs: {p: abc, q: 1}", [("bad-arguments", "q")]),
        ("kwargs: {p: abc}, args: [1]", [("bad-arguments", "args")]),
        ("kwargs: {}", [("bad-arguments", "kwargs")]),
    ],
)  # fmt: skip
def test_a_call_of_the_file_fits_its_command(call, found):
    """A cron entry and a step give each parameter a value that it accepts, by name, and nothing else."""
    task = f"{{command: [echo, $(p)], parameters: {{p: {RULE}}}}}"
    assert of_task(task, f"cron: {{c: {{task: t, every: 1h, {call}}}}}\n") == found
    if "tick" not in call:
        assert of_task(task, f"flows: {{f: {{steps: {{s: {{task: t, {call}}}}}}}}}\n") == found


@pytest.mark.parametrize(
    ("rule", "value", "fits"),
    [
        ("{enum: [shop, 3, 1.10]}", "3", True), ("{enum: [shop, 3]}", "'3'", True), ("{enum: [shop]}", "sho", False),
        ("{enum: [a.b]}", "axb", False), ("{enum: [a]}", "-a", False),
        ("{enum: [-a], leading_dash: true}", "-a", True),
        (r"{pattern: '\d+'}", "'٣'", False), (r"{pattern: '\d+'}", "7", True), ("{pattern: '.*'}", "-rf", False),
        ("{pattern: '.*', leading_dash: true}", "-1", True), ("{pattern: 'a|ab'}", "ab", True),
    ],
)  # fmt: skip
def test_what_a_parameter_accepts(rule, value, fits):
    """The whole value, with the classes of ASCII, a dash first only where the parameter says so; the worker agrees."""
    task = f"{{command: [echo, $(p)], parameters: {{p: {rule}}}}}"
    found = of_task(task, f"cron: {{c: {{task: t, every: 1h, kwargs: {{p: {value}}}}}}}\n")
    assert found == ([] if fits else [("bad-arguments", value)])
    # what the program's side says
    loaded = load("f.yaml", environ={}, data=f"version: 1\ntasks: {{t: {task}}}\n".encode())
    given = (dataclasses.astuple(loaded.config.tasks["t"].parameters["p"]), yaml.safe_load(value))
    with contextlib.nullcontext() if fits else pytest.raises(payload.TaskFailed):
        command._value("p", given[1], *given[0])


def test_a_command_that_reads_its_arguments_takes_any():
    """With `stdin: arguments` calls may have more arguments than placeholders; those of placeholders are checked."""
    task = f"{{command: [cat], stdin: arguments, parameters: {{p: {RULE}}}}}"
    assert of_task(task, "cron: {c: {task: t, every: 1h, args: [1], kwargs: {p: a, more: [2]}}}\n") == []
    assert of_task(task, "cron: {c: {task: t, every: 1h, kwargs: {p: A}}}\n") == [("bad-arguments", "A")]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("[cat], stdin: arguments", []),
        ("[cat]", [("bad-arguments", "on_failure")]),
        (f"[echo, $(event)], stdin: arguments, parameters: {{event: {RULE}}}", [("bad-arguments", "on_failure")]),
    ],
)
def test_a_callback_that_is_a_command_reads_the_event(command, found):
    """The event is a map, so it comes on standard input or not at all."""
    text = f"version: 1\ntasks: {{t: {{run: x.y, on_failure: {{task: u}}}}, u: {{command: {command}}}}}\n"
    assert problems(text + "workers: {m: {}}\n", elsewhere=True)[0] == found


def test_a_step_gets_no_result_of_a_command_that_keeps_none():
    """A command keeps what it prints only where the file says so."""
    flow = "flows: {f: {steps: {a: {task: t}, b: {task: t, after: [a], inputs: {x: a}}}}}\n"
    assert of_task("{command: [cat], stdin: arguments}", flow) == [("ignored-result", "a")]
    assert of_task("{command: [cat], stdin: arguments, result: stdout}", flow) == []


@pytest.mark.parametrize(
    ("task", "found"),
    [
        ("{command: [sh]}", ""), ("{command: [./there]}", ""), ("{command: [own]}", ""), ("{command: [from_file]}", ""),
        ("{command: [ls -l]}", "write each word for itself"),
        ("{command: [bare]}", "nowhere in the PATH"), ("{command: [./there], directory: bin}", ""),
        ("{command: [./no]}", "there is no program"), ("{command: [./data]}", "not executable"),
        ("{command: [./bare]}", "without #!"), ("{command: [./lost]}", "names '/no/sh', which cannot be executed"),
        ("{command: [./crlf]}", r"names '/bin/sh\r'"), ("{command: [./spaced]}", ""),
        ("{command: [./bin]}", "is a directory"),
        ("{command: [sh], directory: no}", "the directory"), ("{command: [./no], queue: elsewhere}", ""),
    ],
)  # fmt: skip
def test_what_this_machine_lacks_is_warned_of(task, found, tmp_path):
    """Program, mode, `#!`, directory: as the first group that runs the task here would find it; never an error."""
    (tmp_path / "bin").mkdir()
    for name, text, mode in (
        ("there", "#!/bin/sh\n", 0o755), ("bin/there", "#!/bin/sh\n", 0o755), ("bin/own", "#!/bin/sh\n", 0o755),
        ("data", "x\n", 0o644), ("bare", "echo\n", 0o755), ("lost", "#!/no/sh\n", 0o755),
        ("crlf", "#!/bin/sh\r\n", 0o755), ("spaced", "#! /bin/sh -e\n", 0o755),
        ("more/from_file", "#!/bin/sh\n", 0o755),
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    (tmp_path / "env").write_text(f"PATH={tmp_path}/more:/usr/bin:/bin\n")
    group = f"environment: {{PATH: '{tmp_path}/bin:/usr/bin:/bin'}}"
    group = "environment_file: [env]" if "from_file" in task else group
    path = tmp_path / "fusion.yaml"
    path.write_text(
        f"version: 1\nqueues: {{elsewhere: {{}}}}\ntasks: {{t: {task}, u: {{run: x.y, queue: elsewhere}}}}\n"
        f"workers: {{m: {{directory: ., queues: [default], {group}}}, n: {{queues: [elsewhere], hosts: [no]}}}}\n"
    )
    loaded = load(path, environ={}, to_run=True)
    told = [each for each in loaded.problems if each.code == "missing-program"]
    assert [each.severity for each in told] == ["warning"] * bool(found), as_text(loaded.problems)
    assert not told or found in f"{told[0].message} {told[0].remedy}"


def test_a_hostile_command_is_read_in_no_time():
    """A megabyte of what looks like options costs no more than any other megabyte."""
    words = ["sh", *["-" + "c" * 100_000, "-" + "o" * 100_000] * 4, "x", *["$(p)"] * 500, "/sh" * 30_000, "$(p)"]
    started = time.process_time()
    assert of_task(f"{{command: [{', '.join(words)}], parameters: {{p: {RULE}}}}}") == []
    assert time.process_time() - started < 5
