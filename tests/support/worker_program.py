"""A worker group's real program for a test: its file, its process, its jobs, and nothing left of it afterwards."""

import contextlib
import inspect
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from fusiond.config import model
from fusiond.config.accepted import snapshot
from fusiond.job import JobStatus, new_id
from fusiond.program import LINK
from tests.chaos.package import copy
from tests.support.running import PATIENCE, alive, until
from tests.support.standins import worker_tasks
from tests.support.warm import is_enough, warm

ROOT = Path(__file__).parents[2]
TASKS = Path(worker_tasks.__file__)
#: every function of the stand-ins; async ones too
NAMES = [name for name, value in vars(worker_tasks).items() if inspect.isfunction(value) and not name.startswith("_")]
#: stand-ins that return work in place of doing it
UNRUN = [
    "give_generator",
    "give_async_generator",
    "give_awaitable",
    "give_coroutine",
    "give_map",
    "give_future",
    "give_manager",
]
#: no exception is retried, and two crashes are forgiven
SINGLE = model.RetryPolicy(max_attempts=1, backoff="fixed", delay=0.0, jitter_share=0.0)
#: neither is retried, and yet it is not at most once: a lost lease or a shutdown has the job run again
STRICT = model.RetryPolicy(max_attempts=2, retry_on=("no_such.Error",), max_crashes=0)
#: in the environment of each process of a test, so that a stray is found wherever it went
MARK = "FUSION_TEST_MARK"


class Place:
    """A directory with task code, readable by every user, and the broker: where the groups of one test live."""

    def __init__(self, settings, broker, run):
        self.settings, self.broker, self.run = settings, broker, run
        self.directory = Path(tempfile.mkdtemp(prefix="fw"))
        self.directory.chmod(0o777)
        self.app = self.directory / "app"
        self.app.mkdir()
        shutil.copy(TASKS, self.app / "jobs.py")
        self.mark = uuid.uuid4().hex
        self.programs = []
        self._files = 0

    def config(self, *, tasks=None, policies=None, queues=("default",), **group):
        """A Config with a group `main`, and each stand-in as a task of its name; `tasks`: name → keys that differ."""
        fields = {"name": "main", "directory": str(self.app), "isolation": "process", **group}
        fields["environment"] = {MARK: self.mark, **fields.get("environment", {})}
        own = tasks or {}
        every = {
            name: model.Task(**{"name": name, "run": f"jobs.{name}", "retry": "single", **own.get(name, {})})
            for name in dict.fromkeys([*NAMES, *own])
        }
        return model.Config(
            broker=self.settings,
            retry_policies={**model.RETRY_POLICIES, "single": SINGLE, **(policies or {})},
            queues={name: model.Queue(name) for name in queues},
            tasks=every,
            workers={"main": model.WorkerGroup(**fields)},
            logging=model.Logging(format="json", level="debug"),
            runtime_directory=str(self.directory),
            state_directory=str(self.directory),
        )

    def start(self, *, held=False, link=False, ready=True, own=None, prefix=(), change=None, **keys):
        """A program for what `change` makes of `config(**keys)`, started by `prefix`; waits until it is ready."""
        config = self.config(**keys)
        config = change(config) if change else config
        program = Program(self, config, held=held, link=link, environment=own, prefix=prefix)
        self.programs.append(program)
        if ready:
            program.ready()
        return program

    def edited(self, *edits):
        """What a program gets as `own` to run a copy of the code with these edits."""
        self._files += 1
        return {"PYTHONPATH": str(copy(self.directory / f"code-{self._files}", edits))}

    def path(self, name=None):
        """A file for a task to write to."""
        self._files += 1
        return str(self.directory / f"{name or 'file'}-{self._files}")

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def enqueue(self, task, *args, queue="default", header=None, **kwargs):
        """A job; returns its id."""
        options = header or {}
        job = _new_job(task, [list(args), kwargs], **options)
        self.run(self.broker.enqueue(queue, [job]))
        return job.id

    def enqueue_many(self, calls, queue="default"):
        """(task, *args) each, in one script, so that one claim sees them all; returns the ids."""
        jobs = [_new_job(task, [args, {}]) for task, *args in calls]
        self.run(self.broker.enqueue(queue, jobs))
        return [job.id for job in jobs]

    def job(self, id_, queue="default"):
        return self.run(self.broker.job(queue, id_))

    def cancel(self, id_, queue="default"):
        return self.run(self.broker.cancel(queue, id_))

    def status(self, id_, queue="default"):
        record = self.job(id_, queue)
        return record.status if record else None

    def until(self, id_, *statuses, queue="default", timeout=PATIENCE):
        """The job's record once it has one of the statuses; without any: once it has ended."""
        wanted = statuses or [status for status in JobStatus if status.ended]

        def found():
            record = self.job(id_, queue)
            return record if record and record.status in wanted else None

        return until(found, lambda: f"{self.job(id_, queue)}\n{self.logs()}", timeout)

    def result(self, id_, queue="default"):
        """The result of a job that finishes."""
        record = self.until(id_, queue=queue)
        assert record.status == "finished", (record, self.logs())
        return json.loads(record.result)

    def error(self, id_, queue="default"):
        """The error of a job that fails."""
        record = self.until(id_, queue=queue)
        assert record.status == "failed", (record, self.logs())
        return json.loads(record.error)

    # -- files that tasks write, processes ----------------------------------------------------------------------------

    def lines(self, path):
        """The whole lines of a file; none where there is no file."""
        try:
            return [line.rstrip("\n") for line in Path(path).read_text().splitlines(keepends=True) if line[-1] == "\n"]
        except FileNotFoundError:
            return []

    def until_lines(self, path, count=1, timeout=PATIENCE):
        """The file's lines once there are so many."""
        return until(
            lambda: len(self.lines(path)) >= count and self.lines(path),
            lambda: [*self.lines(path), self.logs()],
            timeout,
        )

    def let_go(self, path):
        """A line of the test's own, by which the stand-in `meet` of one line more than began may end."""
        with Path(path).open("a") as file:
            file.write("go\n")

    def processes(self):
        """All living processes of this test but the test itself: those that carry its mark."""
        found = set()
        needle = f"{MARK}={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    marked = needle in (entry / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                if marked and alive(int(entry.name)):
                    found.add(int(entry.name))
        return found

    def logs(self):
        return "\n".join(program.text() for program in self.programs)

    def close(self):
        """End everything. Fails where a process outlives its program."""
        for program in self.programs:
            program.end()
        try:
            until(lambda: not self.processes(), lambda: f"strays: {self.processes()}\n{self.logs()}")
        finally:
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.directory, ignore_errors=True)


class Program:
    """`python -m fusiond.worker`, once, or a fork that does the same."""

    def __init__(self, place, config, *, held=False, link=False, environment=None, prefix=()):
        self.place, self.config, self.generation = place, config, 1
        self.file = place.directory / f"snapshot-{len(place.programs)}.json"
        self.log = place.directory / f"log-{len(place.programs)}"
        snapshot.write(self.file, config, generation=1)
        arguments = ["--snapshot", str(self.file), "--runtime", str(place.directory), "--group", "main"]
        arguments += ["--held"] * held
        theirs = None
        self.link = None
        if link:
            self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.link.settimeout(PATIENCE)
        self.process = self._begin(arguments, theirs, environment, prefix)
        if theirs:
            theirs.close()

    def _begin(self, arguments, link, own, prefix):
        """Start it. `own`: more variables."""
        env = {**os.environ, MARK: self.place.mark, **(own or {})}
        with self.log.open("wb") as log:
            if not prefix and is_enough(own):
                env |= {LINK: "100"} if link else {}
                entry, kept = "fusiond.worker.__main__:entry_point", [link.fileno()] if link else []
                return warm().start(
                    entry, ["fusiond.worker", *arguments], environment=env, directory=ROOT, out=log, kept=kept
                )
            env |= {LINK: str(link.fileno())} if link else {}
            return subprocess.Popen(
                [*prefix, sys.executable, "-P", "-m", "fusiond.worker", *arguments],
                env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[link.fileno()] if link else [],
            )  # fmt: skip

    @property
    def pid(self):
        return self.process.pid

    # -- its log ------------------------------------------------------------------------------------------------------

    def text(self):
        return self.log.read_text(errors="replace")

    def records(self):
        """The log's lines as objects; what is none, such as a traceback, is left out."""
        found = []
        for line in self.text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return [record for record in found if isinstance(record, dict)]

    def said(self, words):
        """Whether its log has these words."""
        return words in self.text()

    def until_said(self, words, timeout=PATIENCE):
        return until(lambda: self.said(words), lambda: f"never said: {words}\n{self.text()}", timeout)

    def printed(self, job=None):
        """What a job printed, line by line."""
        lines = [record for record in self.records() if record["logger"] == "fusiond.job"]
        return [record["message"] for record in lines if job is None or record.get("job") == job]

    def ready(self):
        def is_ready():
            assert self.process.poll() is None, self.text()
            return self.said("is ready")

        until(is_ready, self.text)

    # -- steering -----------------------------------------------------------------------------------------------------

    def tell(self, **command):
        self.link.send(json.dumps(command).encode())

    def heard(self, what):
        """The next message of this kind from the program, earlier ones dropped."""
        while True:
            packet = self.link.recv(1 << 16)
            assert packet, self.text()
            message = json.loads(packet)
            if message["is"] == what:
                return message

    def apply(self, **keys):
        """Change its file in place, and wait until it has followed."""
        self.apply_config(self.place.config(**keys))

    def apply_config(self, config):
        self.generation += 1
        self.config = config
        snapshot.write(self.file, self.config, generation=self.generation)
        self.tell(do="apply", snapshot=str(self.file), generation=self.generation)
        assert self.heard("applied")["generation"] == self.generation

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=PATIENCE):
        """Its exit status."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end\n{self.text()}") from None

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.terminate()
            try:
                self.process.wait(0.3)
            except subprocess.TimeoutExpired:
                self.process.terminate()
                try:
                    self.process.wait(15)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
        if self.link:
            self.link.close()

    # -- its processes ------------------------------------------------------------------------------------------------

    def fork_server(self):
        """The pid of the fork server, once there is one that has replaced the program that dropped privileges."""

        def found():
            for pid in children_of(self.pid):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if b"privileges.py" not in line and line:
                        return pid
            return None

        return until(found, self.text)

    def fork_servers(self):
        """The pids of all fork servers."""
        return children_of(self.pid)

    def children(self):
        """The pids of the fork server's children, adopted ones too."""
        return children_of(self.fork_server())

    def until_children(self, count, *, other_than=()):
        return until(
            lambda: len(now := set(self.children()) - set(other_than)) == count and now,
            lambda: f"{self.children()}\n{self.text()}",
        )


def children_of(pid):
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [child for child in map(int, text.split()) if alive(child)]


def _new_job(task, arguments, **options):
    from fusiond.broker.records import NewJob

    return NewJob(new_id(), task, json.dumps(arguments).encode(), **options)


def pythons():
    """Other versions on this machine: version → path."""
    found = {}
    for version in ("3.9", "3.10", "3.12", "3.13", "3.14", "3.15"):
        paths = [
            *Path("/root/.pyenv/versions").glob(f"{version}.*/bin/python{version}"),
            shutil.which(f"python{version}"),
        ]
        for path in filter(None, paths):
            if (
                version not in found
                and not subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode
            ):
                found[version] = str(path)
    return found
