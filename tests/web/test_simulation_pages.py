"""The page of a planned change with its load, over HTTP: with a real daemon, and what it says without a result."""

import contextlib
import http.client
import json
import os
import signal
import time
from pathlib import Path

import pytest

from fusiond import paths
from fusiond.broker.call import as_is, plain
from fusiond.broker.verbs import Verbs
from fusiond.client import Client
from fusiond.web.pages import simulation_pages
from tests.support.running import Running, descendants, until

PAGE, API = "/configuration/simulation", "/api/v1/configuration/simulation"
#: what is counted of the hour before is also of the last two hours if another hour begins meanwhile
LAST = "?hours=2"
FILE = """\
broker: {url: embedded}
web: {listen: "127.0.0.1:0"}
watch: false
tasks: {send: {run: fusiond.tasks.echo}, report: {run: fusiond.tasks.echo}}
workers: {main: {queues: [default], processes: 8}}
"""


def file_beside(dashboard, processes=4):
    """Write the file of the dashboard, which no daemon runs."""
    (dashboard.directory / "fusion.yaml").write_text(
        "version: 1\ntasks: {send: {run: shop.send}, report: {run: shop.report}}\nqueues: {reports: {}}\n"
        f"workers: {{main: {{queues: [default, reports], processes: {processes}, directory: /}}}}\n"
    )


class Host:
    """A daemon with counters of the last hour, and its dashboard."""

    def __init__(self, daemon):
        self.daemon = daemon.start(FILE)
        until(paths.web_url(daemon.runtime).exists, daemon.text)

    def count(self, task, **numbers):
        key = Verbs().keys.of("default", "metrics", "hour", str(int(time.time()) // 3600 - 1))
        words = [word for name, number in numbers.items() for word in (f"{name} {task}", number)]
        with Client(self.daemon.url) as client:
            client.enqueue("report").result()
            client._connection.run(plain(as_is, "HSET", key, *words))

    def open(self, path):
        """A request whose answer is still to come."""
        url = paths.web_url(self.daemon.runtime).read_text().strip()
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=90)
        token = paths.web_token(self.daemon.state).read_text().strip()
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection

    def get(self, path):
        return self.open(path).getresponse().read().decode()

    def simulations(self):
        """The processes below the dashboard: the command, and its Redis."""
        return descendants(self.daemon.pid("web"))

    def open_a_long_one(self):
        """A request for a simulation that takes minutes, once that runs; its processes."""
        self.count("send", f=5_000_000, R3=5_000_000)
        asked = self.open(API + LAST)
        # Interrupted before its Redis has made its socket, a simulation could leave that behind.
        until(lambda: [*Path(os.environ["TMPDIR"]).glob("*/socket")] and len(self.simulations()) == 2)
        return asked, self.simulations()


@pytest.fixture
def host(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    daemon = Running()
    yield Host(daemon)
    daemon.close()
    assert not [*tmp_path.iterdir()]


def lives(process):
    return Path(f"/proc/{process[0]}").exists()


def words_of(pid):
    """Its command line; of a process that has just ended, nothing."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_both_files_stand_side_by_side(host):
    """With the same jobs; what is worse has a class and a word. What is not simulated is said first, then the notes."""
    host.count("send", f=3000, R8=3000)
    host.daemon.write(FILE.replace("processes: 8", "processes: 1"))
    found = json.loads(host.get(API + LAST))
    before, after = found["result"]["before"], found["result"]["after"]
    assert before["tasks"]["send"]["jobs"] == after["tasks"]["send"]["jobs"] > 1000
    assert list(after["hosts"].values()) == [1]
    assert (before["groups"]["main"]["slots"], after["groups"]["main"]["slots"]) == (8, 1)
    assert after["tasks"]["send"]["wait_p99"] > before["tasks"]["send"]["wait_p99"]
    page = host.get(PAGE + LAST)
    assert '<span class="tag bad">worse</span>' in page.partition("<td")[2]
    assert 'class="n bad"' in page
    order = ["Run times do not grow with load", "This load is coarse", "Before: what runs now", ">before<", ">after<"]
    assert sorted(order, key=page.index) == order


def test_it_ends_with_its_request(host):
    """Whoever leaves, or asks again, has no other wait for a simulation that nobody reads."""
    asked, processes = host.open_a_long_one()
    second = host.open(API + LAST)
    asked.close()
    until(lambda: not any(map(lives, processes)))
    until(lambda: len(host.simulations()) == 2)
    second.close()
    until(lambda: not host.simulations())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_dashboard(host, number):
    """Also where that is killed; the one that ends says so, and does not wait for it."""
    asked, processes = host.open_a_long_one()
    os.kill(host.daemon.pid("web"), number)
    if number == signal.SIGTERM:
        reply = asked.getresponse()
        assert (reply.status, "the dashboard ends" in reply.read().decode()) == (503, True)
    # By itself it would go on for minutes.
    until(lambda: not any(map(lives, processes)), timeout=30)
    assert "Traceback" not in host.daemon.text()


def test_one_that_takes_long_says_what_to_run(dashboard, desk, monkeypatch):
    """In place of a result; nothing goes on."""
    monkeypatch.setattr(simulation_pages, "PATIENCE", 2.0)
    file_beside(dashboard)
    desk.count(1, "send", f=5_000_000, R3=5_000_000)
    reason = dashboard.get(f"{API}?hours=3").json["reason"]
    assert reason.startswith("it takes more than 2 s here")
    assert f"--since 3h -o load.jsonl && fusiond simulate {dashboard.directory}/fusion.yaml --load" in reason
    assert not [pid for pid, _ in descendants(os.getpid()) if b"/dev/stdin" in words_of(pid)]


def test_what_has_no_result_is_a_sentence(dashboard, desk):
    """No counters, no job of a task of this file, a file with problems; the page that simulates later comes at once."""
    file_beside(dashboard)
    assert "take more hours" in dashboard.get(API).json["reason"]
    desk.count(1, "elsewhere", f=9, R3=9)
    assert "take more hours" in dashboard.get(API).json["reason"]
    desk.count(1, "send", f=9, R3=9)
    found = dashboard.get(API + LAST).json
    assert "left out, as this host's file does not have the task: elsewhere" in found["notes"]
    assert set(found["result"]) == {"after"}
    assert found["result"]["after"]["hosts"] == {}
    file_beside(dashboard, processes="many")
    assert dashboard.get(API).json["reason"] == f"{dashboard.directory}/fusion.yaml cannot be used"
    assert "There is no result" in dashboard.get(PAGE).text
    assert f'data-load="{PAGE}?hours=6"' in dashboard.get(f"{PAGE}?later=1&hours=6").text
    assert dashboard.get(f"{PAGE}?hours=25").status == 400
