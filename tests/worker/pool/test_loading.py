"""Tasks that do not load: their jobs wait and lose nothing, the others run, and capacity returns by itself."""

import os
import signal
from datetime import datetime

import pytest

from tests.chaos.package import Edit, copy
from tests.support.running import until

#: fails to import for as long as the file is there
FLAKY = """
import os
if os.path.exists({flag!r}):
    raise ConnectionError("no route to the database")
def echo(*args): return list(args)
def pid(): return os.getppid()
"""
BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])


@pytest.fixture
def flag(place):
    """A file: while it is there the module `flaky` does not import, and nothing does that imports it."""
    flag = place.directory / "flag"
    flag.touch()
    (place.app / "flaky.py").write_text(FLAKY.format(flag=str(flag)))
    return flag


#: tasks of a configuration whose only module is `flaky`
def only_flaky(config):
    from dataclasses import replace

    tasks = {name: task for name, task in config.tasks.items() if task.run.startswith("flaky.")}
    return replace(config, tasks=tasks)


def flaky_tasks(*names, **keys):
    return {f"flaky_{name}": {"run": f"flaky.{name}", **keys} for name in names}


@BOTH
def test_jobs_wait_while_nothing_loads(place, flag, isolation):
    """A fork server that is started again while every import fails: no job fails, all run once the imports work."""
    flag.unlink()
    program = place.start(isolation=isolation, tasks=flaky_tasks("echo", "pid"), change=only_flaky)
    server = place.result(place.enqueue("flaky_pid"))
    flag.touch()
    ids = [place.enqueue("flaky_echo", n) for n in range(2)]
    os.kill(server, signal.SIGKILL)
    program.until_said("no task loads: module 'flaky' failed to import at ")
    program.until_said("flaky.py, line 4: ConnectionError: no route to the database")
    ids += [place.enqueue("flaky_echo", n) for n in range(2, 100)]
    assert {place.job(id_).attempts for id_ in ids[50:]} == {0}
    flag.unlink()
    assert [place.result(id_) for id_ in ids] == [[n] for n in range(100)]
    assert {place.job(id_).attempts for id_ in ids[2:]} == {1}


def test_group_of_which_nothing_loads_starts_when_it_can(place, flag):
    """At the start as well: it is not ready, claims nothing, and serves as soon as a module imports."""
    program = place.start(link=True, ready=False, tasks=flaky_tasks("echo"), change=only_flaky)
    assert "line 4: ConnectionError" in program.heard("unloaded")["reason"]
    program.heard("ready")
    id_ = place.enqueue("flaky_echo", 1)
    assert not program.said("is ready")
    assert place.job(id_).last_outcome == ""
    flag.unlink()
    assert place.result(id_) == [1]
    assert program.heard("unloaded")["reason"] == ""


@pytest.mark.proof
@BOTH
def test_others_run_while_some_do_not_load(place, flag, isolation):
    """Jobs of what does not load are held, with no attempt burnt; the module is imported again in a fresh process."""
    path = place.path()
    program = place.start(link=True, isolation=isolation, processes=2, tasks=flaky_tasks("echo"))
    assert "flaky.py, line 4" in program.heard("unloaded")["reason"]
    long = place.enqueue("work", path, 6.0)
    waits = place.enqueue("flaky_echo", 7)
    assert place.result(place.enqueue("echo"))
    record = place.until(waits, "held")
    assert (record.attempts, record.last_outcome) == (0, "not loaded")
    place.until_lines(path)
    flag.unlink()
    assert place.result(waits) == [7]
    assert program.heard("unloaded")["reason"] == ""
    # what ran meanwhile ran to its end, in a child of the replaced fork server
    assert place.until(long).attempts == 1
    assert place.result(place.enqueue("flaky_echo", 8)) == [8]
    until(lambda: len(program.fork_servers()) == 1, program.text)


def test_what_loads_and_cannot_run_is_tried_again_after_longer_pauses(place):
    """A program for another processor, say: the fork server finds it, and no child can start it."""
    (place.app / "strange").write_bytes(b"\x7fELF\0")
    (place.app / "strange").chmod(0o755)
    sooner = Edit("worker/pool/fork_servers.py", "RETRY, LONGEST_RETRY = 2.0,", "RETRY, LONGEST_RETRY = 0.1,")
    tasks = {"work": {"run": "", "command": ("./strange",)}}
    program = place.start(own={"PYTHONPATH": str(copy(place.directory / "code", (sooner,)))}, tasks=tasks)
    place.enqueue("work")

    def told():
        said = [record for record in program.records() if "can run again" in record["message"]]
        return [datetime.fromisoformat(record["time"]).timestamp() for record in said]

    until(lambda: len(told()) >= 5, program.text)
    assert told()[4] - told()[3] > 0.8


def test_what_the_file_corrects_is_tried_again_at_once(place):
    """Not after the pause, which is of minutes after some tries."""
    later = Edit("worker/pool/fork_servers.py", "RETRY, LONGEST_RETRY = 2.0, 300.0", "RETRY = LONGEST_RETRY = 3600.0")
    tasks = {"work": {"run": "", "command": ("no-such-program",)}}
    code = copy(place.directory / "code", (later,))
    program = place.start(link=True, own={"PYTHONPATH": str(code)}, tasks=tasks)
    id_ = place.enqueue("work")
    place.until(id_, "held")
    program.apply(tasks={"work": {"run": "", "command": ("true",)}})
    assert place.until(id_).status == "finished"


@BOTH
def test_import_error_inside_a_function_is_a_failure(place, isolation):
    """It is the job's own: its policy says what follows, and its error has a type and a traceback."""
    (place.app / "lazy.py").write_text("def late():\n    import no_such_module\n")
    place.start(isolation=isolation, tasks={"late": {"run": "lazy.late"}})
    error = place.error(place.enqueue("late"))
    assert (error["code"], error["type"]) == ("EXCEPTION", "ModuleNotFoundError")
    assert "lazy.py" in error["traceback"]


@pytest.mark.proof
def test_a_job_of_a_replaced_fork_server_can_be_canceled_while_no_other_can_be_started(place, flag):
    """And so for a hard timeout and a lost lease: its own fork server kills it."""
    path = place.path()
    program = place.start(isolation="process", processes=2, tasks=flaky_tasks("echo"))
    former = program.fork_server()
    long = place.enqueue("work", path, 60.0)
    place.until_lines(path)
    flag.unlink()
    program.until_said("can run again")
    place.app.rename(place.directory / "away")
    (new,) = set(program.fork_servers()) - {former}
    os.kill(new, signal.SIGKILL)
    program.until_said("its fork server cannot be started")
    place.cancel(long)
    place.until(long, "canceled")
    (place.directory / "away").rename(place.app)
    assert place.result(place.enqueue("echo", 1))
