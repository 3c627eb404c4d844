"""fusiond simulate, and plan --load: what they print, compare and refuse."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from fusiond.broker.call import plain
from fusiond.broker.redis.connection import connect
from fusiond.config.model import Broker
from fusiond.errors import BrokerError
from fusiond.simulation.variants import NO_POOLS
from tests.support.fusiond_command import fusiond_here
from tests.support.running import until

FILE = """\
version: 1
tasks: {send: {run: shop.send}, report: {run: shop.report}}
workers: {main: {queues: [default], processes: 4, directory: /}}
"""
LOAD = [{"task": "send", "rate": "60/1m", "takes": "2s"}, {"task": "report", "rate": "1/1m", "takes": "5s"}]


@pytest.fixture
def desk(tmp_path):
    """Run fusiond beside old.yaml, new.yaml with half as many children, and load.jsonl."""
    (tmp_path / "old.yaml").write_text(FILE)
    (tmp_path / "new.yaml").write_text(FILE.replace("processes: 4", "processes: 2"))
    (tmp_path / "load.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LOAD))
    return lambda *words: fusiond_here(*words, cwd=tmp_path, RUNTIME_DIRECTORY=str(tmp_path / "run"))


def simulate(*words):
    return ("simulate", *words, "--load", "load.jsonl", "--for", "2m")


def test_one_file(desk):
    """A table of waits for each task, of backlogs and of how busy the groups are; first what is not simulated."""
    done = desk(*simulate("old.yaml"))
    assert done.status == 0
    assert done.out.startswith("Run times do not grow with load")
    assert [line.split()[0] for line in done.out.splitlines() if line][3:6] == ["TASK", "report", "send"]
    found = desk(*simulate("old.yaml", "--json")).json
    assert set(found) == {"after"}
    assert found["after"]["groups"]["main"]["busy"] == pytest.approx(0.55, abs=0.15)


def test_two_files_side_by_side(desk):
    """With the same jobs; what is worse than before has a mark."""
    done = desk(*simulate("new.yaml", "--against", "old.yaml"))
    rows = [line.split() for line in done.out.splitlines() if line.startswith("send ")]
    assert [row[1] for row in rows] == ["before", "after"]
    assert rows[0][2] == rows[1][2]
    assert ["!" in row for row in rows] == [False, True]


def test_a_plan_with_its_load(desk):
    """The changes, and below them both files under the load; JSON has both."""
    words = ("plan", "new.yaml", "--against", "old.yaml", "--load", "load.jsonl", "--for", "1m")
    assert "1 group resized (main, 4 → 2 processes)" in desk(*words).out.partition("Run times do not grow")[0]
    found = desk(*words, "--json").json
    assert found["changes"]
    assert set(found["simulation"]) == {"before", "after"}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--load", "load.jsonl", "--hosts", "web"), 2, "'web' is not a host and a number such as web=3"),
        (("--load", "load.jsonl", "--hosts", "web=1,web=2"), 2, "'web=2' is not"),
        (("--load", "load.jsonl", "--scale", "0"), 2, "'0' is not a number above 0"),
        (("--load", "load.jsonl", "--clock", "soon"), 2, "'soon' is not a time"),
        (("--load", "none.jsonl"), 1, "none.jsonl: No such file or directory; give the file of a load"),
        (("--load", "load.jsonl", "--scale", "1000", "--for", "200d"), 1, "a simulation takes at most"),
        ((), 2, "--load"),
    ],
)  # fmt: skip
def test_what_is_refused(desk, words, status, message):
    """Each with a sentence that says what to write."""
    done = desk("simulate", "old.yaml", *words)
    assert done.status == status
    assert message in done.err


def test_a_task_that_the_file_does_not_have(desk, tmp_path):
    """The nearest one is named."""
    (tmp_path / "load.jsonl").write_text('{"task": "sent", "rate": "1/s"}\n')
    done = desk(*simulate("old.yaml"))
    assert done.status == 1
    assert "jobs of task 'sent', which the file does not have; did you mean 'send'?" in done.err


def test_what_a_result_does_not_have_is_said(desk, tmp_path):
    """Pools, and jobs that would arrive after the end; ticks of which none was due are counted all the same."""
    pools = "pools: {licence: {slots: 1}}\ncron: {yearly: {task: send, schedule: '@yearly', timezone: Europe/Berlin}}\n"
    (tmp_path / "old.yaml").write_text(f"{FILE}{pools}")
    late = {"task": "send", "rate": "1/s", "from": "3h"}
    (tmp_path / "load.jsonl").write_text(json.dumps(late) + "\n" + json.dumps(LOAD[0]) + "\n")
    lines = desk(*simulate("old.yaml")).out.splitlines()
    assert [line for line in lines if line.startswith("note: `pools`")] == [f"note: {NO_POOLS}"]
    assert any("'send' begin to arrive at 3h, when the simulation has ended; make it longer" in line for line in lines)
    assert ["CRON", "ENTRY", "RAN", "WHY"] in [line.split() for line in lines]


def _simulated_jobs(directory):
    """How many jobs the simulation has stored so far."""
    for socket in directory.glob("fusiond-simulation-*/socket"):
        with contextlib.suppress(BrokerError), connect(Broker(f"unix://{socket}"), directory) as connection:
            return connection.run(plain(lambda reply: int(reply or 0), "GET", "sim:{default}:seq"))
    return 0


def test_an_interruption_prints_what_there_is(desk, tmp_path):
    """After Ctrl-C the result of the time that was simulated; the status is 130."""
    (tmp_path / "load.jsonl").write_text('{"task": "send", "rate": "100/s", "takes": "10ms"}\n')
    command = [sys.executable, "-m", "fusiond.cli", "simulate", "old.yaml", "--load", "load.jsonl", "--for", "24h"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    running = subprocess.Popen([*command, "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment)
    until(lambda: _simulated_jobs(tmp_path) > 100)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    found = json.loads(out)["after"]
    assert 0 < found["interrupted"] < 86_400
    assert found["tasks"]["send"]["jobs"] > 0
