"""Where a daemon's things lie, which daemon a command means, and `fusiond dev` beside production."""

import json
import os
import subprocess
import sys

import pytest

from fusiond import paths
from fusiond.locate.control import ask
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, STANDIN, Running, until

#: prints the broker of a producer
FIND = "from fusiond.locate.find_broker import find_broker; broker, _ = find_broker(None, None); print(broker.url)"
#: programs that are stand-ins: no broker, so that a daemon starts quickly
BODY = 'broker: {url: "redis://localhost:1/"}\ndefaults: {workers: {directory: /}}\nworkers: {main: {}}\n'
OTHER = BODY.replace("{main: {}}", "{main: {processes: 2}}")


class Unplaced(Running):
    """A daemon whose file says nothing of directories: they are below this test's own home."""

    def __init__(self, command=STANDIN, name="fusion.yaml"):
        super().__init__(command)
        self.file = self.directory / name
        self.home = {"XDG_STATE_HOME": str(self.directory / "home"), "XDG_RUNTIME_DIR": str(self.directory)}

    def head(self):
        return "version: 1\n"

    @property
    def sockets(self):
        base = self.directory / "fusiond" / paths.own_name(self.file)
        return base / "dev" if self.verb == "dev" else base

    def start(self, body=BODY, *arguments, wait=True, environment=None):
        return super().start(body, *arguments, wait=wait, environment={**self.home, **(environment or {})})

    def fusiond(self, *words, **environment):
        return fusiond(*words, "-c", self.file, cwd=self.directory, **self.home, **environment)

    def producer(self):
        """What a producer's program says of its broker."""
        variables = {**os.environ, **self.home, "FUSION_CONFIG": str(self.file)}
        variables.pop("FUSION_URL", None)
        return subprocess.run([sys.executable, "-c", FIND], env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def make():
    made = []

    def make(*arguments, **more):
        made.append(Unplaced(*arguments, **more))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture
def daemon(make):
    return make()


def test_each_file_has_directories_of_its_own(daemon):
    """Named by `fusiond status`; the state directory says whose it is."""
    daemon.start()
    seen = daemon.fusiond("status", "--json").json["daemon"]
    state = daemon.directory / "home" / "fusiond" / paths.own_name(daemon.file)
    assert (seen["state_directory"], seen["runtime_directory"]) == (str(state), str(daemon.sockets))
    assert json.loads((state / "owner.json").read_text()) == {"file": str(daemon.file)}
    assert str(state) in daemon.fusiond("status").out
    assert not seen["development"]


def test_a_command_finds_the_daemon_whatever_its_file_holds(daemon):
    """A file that is broken, that names other directories, that was moved or removed."""
    daemon.start()
    daemon.reload(OTHER)
    moved = daemon.directory / "moved.yaml"
    for text in ("queues: [\n", f"version: 1\nruntime_directory: {daemon.directory}/elsewhere\nqueus: {{}}\n"):
        daemon.file.write_text(text)
        assert daemon.fusiond("status", "--json").json["daemon"]["pid"] == daemon.process.pid
    daemon.file.replace(moved)
    assert "rollback to generation 1" in daemon.fusiond("rollback").out
    # Its new name is another file's, which nothing runs.
    done = fusiond("rollback", "-c", moved, cwd=daemon.directory, **daemon.home)
    assert (done.status, "no daemon listens" in done.err) == (3, True)


def test_a_producer_keeps_its_broker_while_the_file_is_wrong(daemon):
    """A mistake in the file stops no application that enqueues: what the daemon runs on says where the broker is."""
    daemon.start()
    for text in ("queues: [\n", "version: 1\nqueus: {}\n"):
        daemon.file.write_text(text)
        done = daemon.producer()
        assert done.stdout == "redis://localhost:1/\n", done.stderr
        assert "has problems; jobs go to the broker of the configuration that was accepted last" in done.stderr
    (daemon.directory / "home").rename(daemon.directory / "gone")
    daemon.stop()
    assert "has problems, `fusiond validate" in daemon.producer().stderr


def test_a_producer_finds_a_broker_whose_file_has_lost_its_directories(daemon):
    """The file sets its own, and cannot be read now: the daemon's pointer says where they are."""
    daemon.start(f"state_directory: {daemon.directory / 'elsewhere'}\n" + BODY)
    daemon.file.write_text("queues: [\n")
    done = daemon.producer()
    assert done.stdout == "redis://localhost:1/\n", done.stderr


def test_the_broker_is_the_daemons_until_it_is_restarted(daemon):
    """A file with another broker is refused at its reload, so commands and producers stay where its jobs are."""

    def asked():
        listed = daemon.fusiond("queue", "list").err
        run = daemon.producer()
        return listed, run.stdout, run.stderr

    daemon.start()
    command, producer, warned = asked()
    assert ("localhost:1" in command, producer) == (True, "redis://localhost:1/\n")
    assert "use the old values" not in command
    assert "another broker" not in warned
    daemon.file.write_text(f"version: 1\n{BODY}".replace('1/"', '1/", password_file: /no'))
    assert "broker.password_file of" in asked()[0]
    assert daemon.reload(BODY.replace("localhost:1", "localhost:2"))["result"] == "refused"
    command, producer, warned = asked()
    assert ("localhost:1" in command, producer) == (True, "redis://localhost:1/\n")
    assert "broker.url of" in command
    assert "changed; daemon and commands use the old values until a restart" in command
    assert "names another broker than its daemon uses" in warned
    daemon.stop()
    command, producer, warned = asked()
    assert ("localhost:2" in command, producer) == (True, "redis://localhost:2/\n")
    assert "use the old values" not in command
    assert "another broker" not in warned


def test_a_release_that_is_switched_keeps_its_daemon_and_data(daemon):
    """`current/fusion.yaml` is one file for ever; what it leads to now is it, too, what it led to before is not."""
    releases = [daemon.directory / "releases" / number for number in ("1", "2")]
    for release in releases:
        release.mkdir(parents=True)
        (release / "fusion.yaml").write_text(f"version: 1\n{BODY}")
    current = daemon.directory / "current"
    current.symlink_to(releases[0])
    daemon.file = current / "fusion.yaml"
    daemon.start(None)
    assert fusiond("reload", "-c", releases[0] / "fusion.yaml", cwd="/", **daemon.home).status == 0
    fresh = daemon.directory / "fresh"
    fresh.symlink_to(releases[1])
    fresh.replace(current)
    assert fusiond("reload", "-c", releases[1] / "fusion.yaml", cwd="/", **daemon.home).status == 0
    assert fusiond("reload", "-c", releases[0] / "fusion.yaml", cwd="/", **daemon.home).status == 3
    state = daemon.status()["state_directory"]
    daemon.stop()
    daemon.start(None)
    assert (daemon.status()["state_directory"], daemon.status()["generation"]) == (state, 1)


def test_a_given_directory_is_taken_over_and_what_was_anothers_is_not_gone_back_to(make):
    """It is said at the start; generations count on, and a rollback knows those of this file alone."""
    first, second = make(), make(name="other.yaml")
    given = {"STATE_DIRECTORY": str(first.directory / "given")}
    first.start(environment=given)
    first.reload(OTHER)
    second.start(wait=False, environment=given)
    assert second.process.wait(PATIENCE) == 1
    assert f"(pid {first.process.pid}, which runs {first.file})" in second.text()
    first.stop()
    second.start(environment=given)
    assert f"given was the state directory of {first.file}; it is that of {second.file} from now on" in second.text()
    assert second.status()["generation"] == 3
    assert [entry["generation"] for entry in ask(second.control, "history")["entries"]] == [3]
    assert "no earlier generation is kept" in second.fusiond("rollback").out
    second.stop()
    second.start(BODY, "--last-good", wait=False, environment=given)
    assert second.process.wait(PATIENCE) == 78
    assert f"is of {first.file}, not of {second.file}" in second.text()


def test_a_directory_that_nobody_gave_is_never_taken_over(daemon):
    """Its name should be this file's alone; a daemon refuses what says otherwise."""
    daemon.start()
    record = paths.owner_record(daemon.directory / "home" / "fusiond" / paths.own_name(daemon.file))
    daemon.stop()
    record.write_text('{"file": "/srv/other.yaml"}')
    daemon.start(wait=False)
    assert daemon.process.wait(PATIENCE) == 1
    assert "is the state directory of /srv/other.yaml; set state_directory" in daemon.text()


def test_a_daemon_that_can_leave_no_pointer_serves_all_the_same(daemon):
    """The directory is another user's; commands find it by the file and its path."""
    daemon.start(environment={"PATH": os.environ["PATH"]})
    until(lambda: list(paths.pointers(os.geteuid()).glob(f"{paths.own_name(daemon.file)}-*.json")))
    for pointer in paths.pointers(os.geteuid()).glob(f"{paths.own_name(daemon.file)}-*.json"):
        pointer.unlink()
    assert daemon.fusiond("reload").status == 0


def test_dev_beside_production(make):
    """Both alive: production unless --dev; dev alone: dev; each said. systemd's reload means its own daemon."""
    production, dev = make(), make(command=(sys.executable, "-P", "-m", "fusiond.cli"))
    dev.verb, dev.file = "dev", production.file
    dev.home = {**production.home, "XDG_RUNTIME_DIR": str(dev.directory)}
    production.start(f"{BODY}tasks: {{echo: {{run: fusiond.tasks.echo}}}}\n")
    dev.start(None)

    def pid(*words, **environment):
        done = production.fusiond("status", "--json", *words, **environment)
        return done.json["daemon"] and done.json["daemon"]["pid"], done.err

    seen, note = pid()
    assert (seen, "uses the production daemon" in note) == (production.process.pid, True)
    seen, note = pid("--dev")
    assert (seen, "note" in note) == (dev.process.pid, False)
    done = production.fusiond("enqueue", "--dev", "echo", "1", "--wait", "20")
    assert (done.status, json.loads(done.out)["args"]) == (0, ["1"])
    seen, note = pid(MAINPID=str(production.process.pid))
    assert (seen, "note" in note) == (production.process.pid, False)
    assert production.fusiond("reload", "--dev", "--url", "x").status == 2

    production.stop()
    seen, note = pid()
    assert (seen, "only fusiond dev runs" in note) == (dev.process.pid, True)
    until(lambda: production.fusiond("enqueue", "echo", "2", "--wait", "20").status == 0)
    # The production daemon's own ExecReload, in a moment in which it does not answer.
    assert production.fusiond("reload", MAINPID=str(production.process.pid)).status == 3
    url = next(word for word in dev.text().split() if word.startswith("FUSION_URL="))
    assert url == f"FUSION_URL='unix://{paths.redis_socket(dev.sockets)}?namespace=fusion'"
    dev.stop()
    assert production.fusiond("rollback").status == 3


def test_a_name_that_leads_to_the_same_file_is_not_another_daemons(make):
    """Two links to one file, whose variables differ, each with a daemon: a command means the one of its own name."""
    first, second = make(name="first.yaml"), make(name="second.yaml")
    common = first.directory / "common.yaml"
    common.write_text(f"version: 1\n{BODY}")
    for daemon in (first, second):
        daemon.file.symlink_to(common)
        daemon.start(None)
    for daemon in (first, second):
        assert daemon.fusiond("status", "--json").json["daemon"]["source"] == str(daemon.file)
    done = fusiond("rollback", "-c", common, cwd="/", **first.home)
    names = " and ".join(sorted((str(first.file), str(second.file))))
    assert (done.status, f"names, {names}; name one" in done.err) == (2, True)
    second.stop()
    done = second.fusiond("status", "--json")
    assert done.json["daemon"]["source"] == str(first.file)
    assert f"the daemon runs {second.file} by another name, {first.file}; this command uses it" in done.err
