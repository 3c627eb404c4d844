"""
Attacks, and what is promised of each: the page is docs/security.md.

The attacker with Redis write is played against the commands and the producers here, and against a worker group's real
program; the one with task code, inside a job of that program; the local account, as the user nobody.
"""

import ast
import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
import unicodedata
from pathlib import Path

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis import embedded
from fusiond.broker.redis.connection import connect
from fusiond.cli import main
from fusiond.client import Client
from fusiond.config import model
from fusiond.config.lint import machine
from fusiond.config.yaml.includes import read_tree
from fusiond.errors import BrokerError, FusionError, JobFailed
from fusiond.supervise import directories
from fusiond.supervise.server import choose_server
from fusiond.supervise.supervisord.daemon_options import DaemonOptions
from tests.support.job_text import change_job, encode
from tests.support.running import until

ROOT = Path(__file__).parent.parent
FORK_SERVER = ROOT / "fusiond/worker/pool/fork_server"
#: an interpreter that every user may run; the one of the tests may be in somebody's home
PYTHON = "/usr/bin/python3"
AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or not Path(PYTHON).exists(), reason="only root can become somebody else, for whom to be safe"
)
#: what would clear a screen, set a title, write into the clipboard, steer by C1, delete, and turn the text around
ESCAPES = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;Y3VybA==\x07\x9b31m\x7f\u202e\u2066\u2028\x00\r"


def unprintable(text):
    """The characters of an output that could steer a terminal."""
    return {ch for ch in text if unicodedata.category(ch)[0] == "C" or ch in "\u2028\u2029"} - {"\n"}


# -- Redis write: whatever is there, commands and producers stay on their feet ---------------------------------------


@pytest.fixture
def command(desk, monkeypatch, capsys, tmp_path):
    """A command of `fusiond` in this process, so that whatever it raises fails the test: status, output, errors."""
    monkeypatch.setenv("FUSION_URL", desk.settings.url)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "nobody-listens"))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = main([str(word) for word in words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def forge_job(run, id_, fields=None, *, queue="default", status="queue", place=1, namespace="fusion"):
    """A job that no producer has made; bytes as they are."""
    key = f"{namespace}:{{{queue}}}:job:".encode() + (id_ if isinstance(id_, bytes) else id_.encode())
    every = {"task": "send", "args": "[[],{}]", "created_at": 1, **(fields or {})}
    run(plain(as_is, "SET", key, encode(every)))
    run(plain(as_is, "ZADD", f"{namespace}:{{{queue}}}:{status}", place, id_))


SPOILT = {
    "a header that is a list": {"header": "[1]"},
    "a header that is a number": {"header": "7"},
    "a header that is no JSON": {"header": "{"},
    "a header of a hundred thousand brackets": {"header": "[" * 100_000},
    "a header that is not text": {"header": b"\xff\xfe"},
    "a header of other types": {"header": '{"key": [1], "log_tag": {}, "meta": 3}'},
    "a count that is a word": {"attempts": "many"},
    "a count that is infinite": {"attempts": "inf"},
    "a count of a thousand digits": {"rescues": "9" * 5000},
    "a count in other digits": {"crashes": "²"},
    "a time that overflows": {"created_at": "9" * 400, "started_at": "1e308"},
    "a time before the epoch": {"created_at": "-1"},
    "a score that is not a number": {"score": "nan"},
    "an infinite score": {"score": "inf"},
    "a task that is not text": {"task": b"\xff"},
    "arguments that are no JSON": {"args": b"\xff["},
    "arguments of a hundred thousand brackets": {"args": "[" * 100_000},
    "a result that is no JSON": {"result": b"\xff"},
    "an error of other types": {"error": '{"code": [], "type": {}, "message": 3, "traceback": 7}'},
    "an error that is a list": {"error": "[]"},
    "an outcome that is not text": {"last_outcome": b"\xff"},
    "a field that is not text": {b"\xff": "x"},
}


@pytest.mark.parametrize("status", ["queue", "scheduled", "failed"])
def test_a_spoilt_record_is_shown_as_broken(desk, command, status):
    """Each job that somebody has spoilt is listed and shown, and its good neighbour with it; no traceback."""
    for number, fields in enumerate(SPOILT.values()):
        forge_job(desk.run, f"bad{number}", fields, status=status, place="inf" if number == 0 else number)
    forge_job(desk.run, "good", status=status)
    listed = {job["id"]: job for job in json.loads(command("job", "list", "--limit", 100, "--json")[1])}
    assert set(listed) == {f"bad{number}" for number in range(len(SPOILT))} | {"good"}
    assert listed["good"]["broken"] == ""
    broken = {what: listed[f"bad{number}"]["broken"] for number, what in enumerate(SPOILT)}
    assert broken["a header that is a list"] == "header"
    assert broken["a count that is infinite"] == "attempts"
    assert broken["a time that overflows"] == "created_at started_at"
    for words in (["job", "list", "--limit", 100], ["job", "show", *listed], ["status"], ["queue", "list"]):
        _, out, err = command(*words)
        assert out
        assert not unprintable(out + err)
    assert "broken header" in " ".join(command("job", "show", "default/bad0")[1].split())


COMMANDS = [
    "job list", "job list --json", "job show default/x0", "job show default/x1", "job show --json default/x0",
    "job show nowhere/x", "job cancel default/x2", "requeue default/x1", "requeue --all", "queue list",
    "queue list --json", "status -W", "status -W --json", "enqueue nothing", "enqueue send --priority x",
    "enqueue send --queue x", "suspend x", "resume --all", "enqueue send --key k0 --wait 5",
    "enqueue send --key k1 --wait 5",
]  # fmt: skip


def test_nothing_that_is_printed_can_drive_a_terminal(desk, command):
    """
    Escapes in every field of a job, a queue, a worker and the catalogue reach no output of any command.

    On a terminal they could clear the screen, write into the clipboard, or answer in the operator's name.
    """
    error = {"code": "EXCEPTION", "type": ESCAPES, "message": ESCAPES, "traceback": f"a\n{ESCAPES}"}
    every = dict.fromkeys(("task", "last_outcome", "score", "attempts", ESCAPES), ESCAPES)
    every |= {"header": json.dumps({"key": ESCAPES, "log_tag": ESCAPES, "meta": {ESCAPES: ESCAPES}})}
    every |= {"args": json.dumps([[ESCAPES], {ESCAPES: ESCAPES}]), "error": json.dumps(error)}
    for number, (result, status) in enumerate([(json.dumps(ESCAPES), "finished"), (ESCAPES, "failed"), ("1", "queue")]):
        for id_ in (f"x{number}", ESCAPES + str(number)):
            forge_job(desk.run, id_, {**every, "result": result}, status=status, place=10**14)
    words = [word for name in ("group", "jobs", "state", ESCAPES) for word in (name, ESCAPES)]
    desk.run(plain(as_is, "SADD", "fusion:queues", f"q{ESCAPES}"))
    desk.run(plain(as_is, "SADD", "fusion:workers", f"w{ESCAPES}"))
    desk.run(plain(as_is, "HSET", f"fusion:worker:w{ESCAPES}", *words, "born", "²"))
    said = {"tasks": {ESCAPES: {"queue": "default", "priority": 1}}, "priorities": {ESCAPES: 1}, "queues": ["default"]}
    desk.run(plain(as_is, "HSET", "fusion:catalog", "forged", f"{2**50}\n{json.dumps(said)}"))
    desk.run(plain(as_is, "HSET", "fusion:daemons", f"d{ESCAPES}", f"{2**50} 99 h forged"))
    desk.run(plain(as_is, "HSET", "fusion:daemons", f"d/{ESCAPES}", f"{2**50} {ESCAPES} default"))
    # What waits for a job prints its result or its traceback, and both are of its choosing.
    desk.run(plain(as_is, "DEL", "fusion:{default}:queue"))
    for key, kind, payload in (("k0", "finished", {"result": ESCAPES}), ("k1", "failed", error)):
        command("enqueue", "send", "--key", key)
        desk.settle(kind, **payload)
    for words in COMMANDS:
        _, out, err = command(*words.split())
        assert out + err, words
        assert not unprintable(out + err), (words, out + err)


FORGED = {
    "a queue that is not text": ("SADD", "fusion:queues", b"\xff"),
    "a queue whose name breaks its keys": ("SADD", "fusion:queues", "a}:x{b"),
    "a queue of another type": ("SET", "fusion:{default}:queue", "x"),
    "settings of another type": ("SET", "fusion:{default}:conf", "x"),
    "a length that is infinite": ("HSET", "fusion:{default}:conf", "max_length", "inf"),
    "a list of queues that is none": ("SET", "fusion:queues", "x"),
    "a worker that is not text": ("SADD", "fusion:workers", b"\xff"),
    "a worker of another type": ("SET", "fusion:worker:w", "x"),
    "a catalogue of another type": ("SET", "fusion:catalog", "x"),
    "records of daemons of another type": ("SET", "fusion:daemons", "x"),
    "a daemon that is not text": ("HSET", "fusion:daemons", b"\xff", b"\xff \xff"),
    "a daemon that is alive for ever": ("HSET", "fusion:daemons", "d", "9" * 5000 + " 1 h forged"),
    "a group of no daemon": ("HSET", "fusion:daemons", "none/w", f"{2**50} a}}b default"),
    "a declaration without its head": ("HSET", "fusion:catalog", "forged", "{}"),
    "a declaration that is no JSON": ("HSET", "fusion:catalog", "forged", f"{2**50}\n{{"),
    "a declaration of brackets": ("HSET", "fusion:catalog", "forged", f"{2**50}\n" + "[" * 100_000),
    "a declaration of another shape": ("HSET", "fusion:catalog", "forged", f'{2**50}\n{{"tasks": [1]}}'),
    "a task in a queue that can be none": (
        "HSET", "fusion:catalog", "forged",
        f'{2**50}\n{{"tasks": {{"send": {{"queue": "a{{b", "priority": 1}}}}, "priorities": {{}}, "queues": []}}',
    ),
    "a task of an infinite expiry": (
        "HSET", "fusion:catalog", "forged",
        f'{2**50}\n{{"tasks": {{"send": {{"queue": "q", "priority": 1, "expires": Infinity}}}}, "queues": []}}',
    ),
    "a generation beyond counting": ("HSET", "fusion:meta", "generation", "1e400"),
    "a body among the broken that nobody has put there": ("LPUSH", "fusion:{default}:broken", b"\xff"),
    "a sequence that is not a number": ("SET", "fusion:{default}:seq", "x"),
}  # fmt: skip


@pytest.mark.parametrize("what", FORGED)
def test_no_forged_key_ends_a_command_or_a_producer_in_a_traceback(desk, command, what):
    """Whatever is overwritten, each answer is what was asked for, or one sentence."""
    verb, key, *words = FORGED[what]
    desk.run(plain(as_is, "SADD", "fusion:workers", "w"))
    desk.run(plain(as_is, "HSET", "fusion:daemons", "forged", f"{2**50} 99 h forged"))
    desk.run(plain(as_is, *(["DEL", key] if verb == "SET" else ["PING"])))
    desk.run(plain(as_is, verb, key, *words))
    for line in ("status -W", "queue list", "job list", "job show default/x", "enqueue send", "requeue --all"):
        status, out, err = command(*line.split())
        assert status in (0, 1, 3), (line, out, err)
        assert out or err.startswith("fusiond: "), line
    with Client(desk.settings.url) as client:
        try:
            client.enqueue("send")
        except FusionError as error:
            assert "\n" not in str(error)  # noqa: PT017 - whether it raises is not the promise


# -- Redis write, against a group's real program ---------------------------------------------------------------------


BOTH = pytest.mark.parametrize("isolation", ["process", "fork"])
#: paths, code, and names that differ from a task's by what a careless comparison passes over
PATHS = (
    "os.system", "jobs.note", "jobs:note", "subprocess.call", "builtins.eval", "__import__", "__import__('os').system",
    "fusiond.tasks.webhook", "../jobs.note", "note.__globals__", "note\0", "note\n", " note", "NOTE", "note.",
    "n\u043ete",
)  # fmt: skip


@BOTH
def test_no_job_chooses_what_code_runs(place, run, redis_server, isolation):
    """
    A dotted path, code, or a name that only resembles a task's is not a task: the job is held, and nothing was run.

    However it comes: as a hash, through the inbox, or under a task that a forged catalogue and forged settings declare.
    """
    marker = place.path("marker")
    arguments = json.dumps([[f"touch {marker}"], {}])
    forged = {path: {"queue": "default", "priority": 1, "run": path} for path in PATHS}
    body = json.dumps({"tasks": forged, "priorities": {}, "queues": ["default"]})
    run(plain(as_is, "HSET", "test:catalog", "forged", f"{2**50}\n{body}"))
    run(plain(as_is, "HSET", "test:daemons", "forged", f"{2**50} 99 h forged"))
    for number, path in enumerate(PATHS):
        run(plain(as_is, "HSET", "test:{default}:conf", f"task:{path}", "1 "))
        forged = {"task": path, "args": arguments, "snoozed_since": 1}
        forge_job(run, f"p{number}", forged, namespace="test")
        run(plain(as_is, "LPUSH", "test:{default}:inbox", json.dumps({"task": path, "args": [f"touch {marker}"]})))
    with Client(redis_server.url, namespace="test") as client:
        sent = client.enqueue("os.system", f"touch {marker}")
    program = place.start(isolation=isolation, tasks={"note": {}})
    assert place.result(place.enqueue("echo"))
    for number in range(len(PATHS)):
        place.until(f"p{number}", "held")
    # A newer file on another host may have it.
    place.until(sent.id, "held")
    assert not Path(marker).exists()
    assert "Traceback" not in program.text()


#: name → (id, fields, set, place): what no producer could have made
POISON = {
    "attempts beyond counting": ("b01", {"attempts": "1e300"}, "queue", 1),
    "attempts without end": ("b02", {"attempts": "inf"}, "queue", 1),
    "attempts that are not a number": ("b03", {"attempts": "nan"}, "queue", 1),
    "attempts below nothing": ("b04", {"attempts": "-5"}, "queue", 1),
    "attempts that wrap around": ("b05", {"attempts": str(2**32)}, "queue", 1),
    "crashes and rescues": ("b06", {"crashes": "-1e300", "rescues": "nan"}, "queue", 1),
    "an expiry that is a word": ("b07", {"expires_at": "never"}, "queue", 1),
    "an id beyond its field": ("b" * 70_000, {}, "queue", 1),
    "an id with a NUL": ("b\0", {}, "queue", 1),
    "an id of two lines": ("b\nb", {}, "queue", 1),
    "an id that is not text": (b"\xff\xfe", {}, "queue", 1),
    "an id that steers a terminal": ("\x1b[2J", {}, "queue", 1),
    "arguments beyond any": ("b08", {"args": '[["' + "x" * (3 << 20) + '"],{}]'}, "queue", 1),
    "a header beyond any": ("b09", {"header": '{"meta":"' + "x" * (3 << 20) + '"}'}, "queue", 1),
    "arguments of brackets": ("b10", {"args": "[" * 100_000}, "queue", 1),
    "a header of brackets": ("b11", {"header": "[" * 100_000}, "queue", 1),
    "a timeout of brackets": ("b12", {"header": '{"timeout":' + "[" * 100_000}, "queue", 1),
    "a timeout without end": ("b13", {"header": '{"timeout":{"soft":Infinity,"hard":Infinity}}'}, "queue", 1),
    "a timeout that is not a number": ("b14", {"header": '{"timeout":{"soft":NaN,"hard":NaN}}'}, "queue", 1),
    "a timeout in the past": ("b15", {"header": '{"timeout":{"soft":-1,"hard":-1}}'}, "queue", 1),
    "a place without end": ("b16", {}, "queue", "inf"),
    "a place before all": ("b17", {}, "queue", "-inf"),
    "a due job whose place is not a number": ("b18", {"score": "nan"}, "scheduled", 1),
    "a due job whose place has a blank": ("b19", {"score": " 1"}, "scheduled", 1),
    "a due job from before all": ("b20", {"score": "1"}, "scheduled", "-inf"),
    "a lease that never was": ("b21", {"score": "1", "token": "forged"}, "started", 1),
    "a lease whose place has a blank": ("b22", {"score": " 1", "token": "forged"}, "started", 1),
    "a lease whose rescues are not a number": ("b23", {"score": "1", "token": "x", "rescues": "-inf"}, "started", 1),
    "a cancel that is a word": ("b24", {"score": "1", "token": "x", "cancel": "now"}, "started", 1),
    "arguments that are a number": ("b25", {"args": "7"}, "queue", 1),
    "arguments in a wrong order": ("b26", {"args": "[{}, []]"}, "queue", 1),
    "arguments that are not text": ("b27", {"args": b"\xff"}, "queue", 1),
    "a timeout that is a word": ("b28", {"header": '{"timeout": "x"}'}, "queue", 1),
    "a timeout of a list": ("b29", {"header": '{"timeout": {"hard": []}}'}, "queue", 1),
    "a header that is a list": ("b30", {"header": '["timeout"]'}, "queue", 1),
    "an id that is not text, of an unknown task": (b"\xfe", {"task": "unknown"}, "queue", 1),
}


@BOTH
def test_forged_records_cost_themselves_alone(place, run, isolation):
    """Each ends, or is put aside as broken; dispatcher, fork server and the jobs beside them do not notice."""
    program = place.start(isolation=isolation)
    before = program.pid, program.fork_server()
    for id_, fields, status, at in POISON.values():
        forge_job(run, id_, {"task": "echo", **fields}, status=status, place=at, namespace="test")
    good = [place.enqueue("echo", number) for number in range(5)]
    run(plain(as_is, "PUBLISH", "test:{default}:wake", "ready"))
    for id_ in good:
        place.result(id_)

    def settled():
        counts = run(place.broker.counts("default"))
        return not (counts.queued or counts.started or counts.scheduled)

    until(settled, program.text)
    assert {place.error(id_)["code"] for id_ in ("b08", "b09", "b25", "b26", "b27")} == {"BAD_ARGUMENTS"}
    assert (program.pid, program.fork_server()) == before
    assert program.process.poll() is None
    assert not program.said("no jobs can be claimed")
    # A task's own failure has its traceback in the job; a program's would be in its log.
    assert not [line for line in program.text().splitlines() if not line.startswith("{")]
    assert not unprintable(program.text())


def test_wakes_without_end_keep_nobody_from_work(place, run):
    """Who floods a wake channel with wakes, cancels and garbage costs some round trips, and no job its time."""
    program = place.start(isolation="process")
    for _ in range(20):
        for _ in range(100):
            for word in (b"ready", b"cancel", b"\xff" * 1000):
                run(plain(as_is, "PUBLISH", "test:{default}:wake", word))
        assert place.result(place.enqueue("echo"))
    assert program.process.poll() is None
    assert "Traceback" not in program.text()


def test_a_forged_token_takes_the_lease_and_nothing_else(place, run):
    """Whose token is overwritten is killed and settles nothing; the dispatcher runs the next job."""
    program = place.start(isolation="process", processes=2)
    path = place.path("began")
    held = place.enqueue("work", path, 60)
    place.until_lines(path)
    change_job(run, f"test:{{default}}:job:{held}", token="forged", score=" 1")
    run(plain(as_is, "PUBLISH", "test:{default}:wake", "cancel"))
    program.until_said("its lease was lost")
    assert place.status(held) == "started"
    assert place.result(place.enqueue("echo"))


def test_an_error_in_redis_is_text_and_stays_text(desk):
    """A forged error may name any class; nothing is imported or raised but JobFailed, which carries the words."""
    for number, error in enumerate(['{"type": "os.system", "message": "touch /tmp/x"}', "[]", "7", '{"code": {}}']):
        forge_job(desk.run, f"e{number}", {"ended_at": 1, "error": error}, status="failed", place=10**14)
        with Client(desk.settings.url) as client, pytest.raises(JobFailed) as caught:
            client.job(f"default/e{number}").result(timeout=60)
        assert type(caught.value) is JobFailed
        assert all(isinstance(word, str) for word in (caught.value.code, caught.value.type, caught.value.message))
    forge_job(desk.run, "r", {"ended_at": 1, "result": b"\x80\x04."}, status="finished", place=10**14)
    with Client(desk.settings.url) as client, pytest.raises(BrokerError, match="not JSON"):
        client.job("default/r").result(timeout=60)


#: what makes objects, or code, out of bytes
MAKERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "code", "codeop"}
#: hand our own source files to an interpreter that cannot read them, or run the task that the file names
RUNS_CODE = {f"fusiond/worker/{name}.py" for name in ("pool/fork_server/bundle", "runtime/foreground", "runtime/probe")}


def test_no_module_makes_objects_or_code_out_of_data():
    """JSON only: nothing imports pickle and its like, nothing calls eval or exec but to load our own source files."""
    for path in sorted((ROOT / "fusiond").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name not in RUNS_CODE:
            found = [used for node in ast.walk(ast.parse(path.read_text())) for used in made_with(node)]
            assert not found, (name, found)


def made_with(node):
    """What at this node makes objects or code."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names} & MAKERS
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]} & MAKERS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return {node.func.id} & {"eval", "exec", "compile"}
    return {node.attr} & {"unsafe_load", "full_load", "UnsafeLoader", "FullLoader"} if hasattr(node, "attr") else set()


# -- task code --------------------------------------------------------------------------------------------------------

#: runs under the group's own interpreter, so the standard library alone; what it finds out goes home as its result
HOSTILE = """
import ctypes, errno, os, socket, subprocess

AT_IMPORT = os.getresuid() + os.getresgid()
libc = ctypes.CDLL(None, use_errno=True)


def attempt(call, *args):
    try:
        found = call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done" if found is None else found


def native(name, *args):
    found = getattr(libc, name)(*args)
    return "done" if found == 0 else errno.errorcode[ctypes.get_errno()]


def become_root(tools):
    return {
        "at_import": AT_IMPORT,
        "setuid": attempt(os.setuid, 0),
        "setresuid": attempt(os.setresuid, 0, 0, 0),
        "setgid": attempt(os.setgid, 0),
        "setgroups": attempt(os.setgroups, [0]),
        "chroot": attempt(os.chroot, "/"),
        "keep capabilities": native("prctl", 47, 2, 7, 0, 0),
        "allow new privileges": native("prctl", 38, 0, 0, 0, 0),
        "set-uid program": subprocess.run([tools + "/id", "-u"], capture_output=True, text=True).stdout.strip(),
        "program with capabilities": subprocess.run(
            [tools + "/python", "-c", "import os; os.setuid(0)"], capture_output=True, text=True
        ).returncode,
    }


def reach(pid, files, sockets):
    found = {}
    for name in ("environ", "mem", "maps", "fd", "cwd"):
        path = f"/proc/{pid}/{name}"
        found[name] = attempt(os.listdir if name == "fd" else os.readlink if name == "cwd" else peek, path)
    found["signal"] = attempt(os.kill, pid, 0)
    found["stop"] = attempt(os.kill, pid, 19)
    found["trace"] = native("ptrace", 16, pid, 0, 0)
    for path in files:
        found["read " + path] = attempt(peek, path)
        found["write " + path] = attempt(lambda: open(path, "ab").close())
        found["remove " + path] = attempt(os.unlink, path)
    for path in sockets:
        with socket.socket(socket.AF_UNIX) as sock:
            found["connect " + path] = attempt(sock.connect, path)
    return found


def peek(path):
    with open(path, "rb") as file:
        return len(file.read(16))


def descriptors():
    # less the one that lists them
    found = {int(fd): attempt(os.readlink, f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    return {str(fd): what for fd, what in found.items() if what != "ENOENT" and "/proc/" not in what}


def pages():
    with open("/proc/self/maps") as file:
        return [line.split()[5] for line in file if "memfd" in line]


def environment():
    return dict(os.environ)


def say(text):
    print(text)
    raise ValueError(text)
"""


@pytest.fixture
def hostile(place):
    """A group whose task code is an attacker's; `hostile.start(user=…)`."""
    (place.app / "hostile.py").write_text(HOSTILE)
    names = ("become_root", "reach", "descriptors", "pages", "environment", "say")
    tasks = {name: {"run": f"hostile.{name}"} for name in names}
    start = place.start
    place.start = lambda **keys: start(tasks=tasks, **keys)
    return place


@AS_ROOT
@BOTH
def test_task_code_cannot_become_root_again(hostile, isolation):
    """Not by a system call, a set-uid program or one with capabilities; at its import the user had changed already."""
    tools = hostile.directory / "tools"
    tools.mkdir()
    shutil.copy("/usr/bin/id", tools / "id")
    shutil.copy(PYTHON, tools / "python")
    (tools / "id").chmod(0o4755)
    (tools / "python").chmod(0o755)
    if shutil.which("setcap"):
        subprocess.run(["setcap", "cap_setuid+ep", tools / "python"], capture_output=True, check=True)
    hostile.start(user="nobody", python=PYTHON, isolation=isolation)
    found = hostile.result(hostile.enqueue("become_root", str(tools)))
    nobody = pwd.getpwnam("nobody")
    assert found.pop("at_import") == [nobody.pw_uid] * 3 + [nobody.pw_gid] * 3
    assert found.pop("set-uid program") == str(nobody.pw_uid)
    assert found.pop("program with capabilities") != 0
    assert found.pop("allow new privileges") == "EINVAL"
    assert set(found.values()) == {"EPERM"}, found


@AS_ROOT
def test_ambient_capabilities_do_not_survive_the_change_of_user(tmp_path):
    """A daemon that has CAP_SETUID as an ambient one, as under systemd, hands none of it down with the user."""
    code = "import os; print([line for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNew', 'Uid'))])"
    tried = f"{code}\ntry: os.setuid(0)\nexcept OSError as error: print(error.strerror)\nelse: print('is root')"
    nobody = pwd.getpwnam("nobody")
    request = {
        "uid": nobody.pw_uid,
        "gid": nobody.pw_gid,
        "groups": [],
        "argv": [PYTHON, "-c", tried],
        "environment": {},
    }
    path = tmp_path / "request"
    path.write_text(json.dumps(request))
    daemon = pwd.getpwnam("daemon")
    sets = ["--inh-caps=-all,+setuid,+setgid,+kill", "--ambient-caps=-all,+setuid,+setgid,+kill"]
    with path.open("rb") as file:
        done = subprocess.run(
            ["setpriv", "--reuid", str(daemon.pw_uid), "--regid", str(daemon.pw_gid), "--clear-groups", *sets,
             PYTHON, "-I", "-S", "-c", (FORK_SERVER / "privileges.py").read_text(), str(file.fileno())],
            capture_output=True, text=True, check=False, pass_fds=[file.fileno()], cwd="/",
        )  # fmt: skip
    status, tried = done.stdout.splitlines() or (done.stderr, "")
    held = dict(line.split(":\t") for line in ast.literal_eval(status))
    assert {int(held[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert held["NoNewPrivs"].strip() == "1"
    assert tried == "Operation not permitted"


@AS_ROOT
@BOTH
def test_task_code_of_another_user_reaches_nothing_of_the_daemon(hostile, redis_server, isolation):
    """Not its memory, environment, descriptors, files or Redis; it can neither stop it nor trace it."""
    password = hostile.directory / "password"
    password.write_text("hunter2")
    password.chmod(0o600)
    hostile.directory.chmod(0o755)  # as a state directory's parent is: the test's own is everybody's
    program = hostile.start(user="nobody", python=PYTHON, isolation=isolation)
    files = [str(path) for path in (password, program.file)]
    found = hostile.result(hostile.enqueue("reach", program.pid, files, [str(redis_server.path)]))
    assert set(found.values()) == {"EACCES", "EPERM"}, found
    assert found["stop"] == found["signal"] == "EPERM"
    assert hostile.result(hostile.enqueue("environment")).keys() >= {"PATH"}


@BOTH
def test_a_child_holds_no_descriptor_of_the_daemon(hostile, isolation):
    """/dev/null, one socket, one pipe, and what libffi opens itself: no file, no Redis, no link, no control socket."""
    hostile.start(isolation=isolation, processes=2)
    held = hostile.result(hostile.enqueue("descriptors"))
    kinds = re.compile(r"(/dev/null)|(pipe):\[\d+\]|(socket):\[\d+\]|.*/(libffi)\.so\S*")
    found = [match and next(filter(None, match.groups())) for match in map(kinds.fullmatch, held.values())]
    assert None not in found, held
    assert found.count("socket") == 1
    assert held["0"] == "/dev/null"


@BOTH
def test_a_child_holds_nothing_of_its_siblings(hostile, isolation):
    """Of all pipes and pages of its group's slots it has one pipe, as its output, and one page, in its memory alone."""
    hostile.start(isolation=isolation, processes=3)
    for _ in range(5):
        held = hostile.result(hostile.enqueue("descriptors"))
        assert {what for what in held.values() if what.startswith("pipe:")} == {held["1"]} == {held["2"]}
        page = hostile.result(hostile.enqueue("pages"))
        assert len(page) == 1
        assert re.fullmatch(r"/memfd:fusiond-page-\d+", page[0])


@BOTH
def test_what_a_job_says_cannot_forge_a_line_of_the_log(hostile, isolation):
    """Escapes and line ends that a job prints, or raises, come out escaped, each on a line with the job's id."""
    program = hostile.start(isolation=isolation)
    forged = f'\x1b[2J\r{{"level": "info", "message": "all is well"}}{ESCAPES}'
    job = hostile.enqueue("say", forged)
    hostile.error(job)
    program.until_said("ValueError")

    def said():
        return [record for record in program.records() if "all is well" in record["message"]]

    # What the job printed, and what it raised; either may come first.
    until(lambda: len(said()) >= 2, program.text)
    assert not unprintable(program.text())
    assert {record.get("job") for record in said()} == {job}


# -- a local account --------------------------------------------------------------------------------------------------


@AS_ROOT
def test_what_another_laid_into_a_directory_is_not_taken_for_the_daemons(tmp_path):
    """A state directory that was open to everybody once may hold an attacker's snapshot: the start is refused."""
    state = tmp_path / "state"
    state.mkdir(mode=0o777)
    state.chmod(0o777)
    (state / "lost+found").mkdir()
    directories.make_private(state)
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    planted = state / "current.json"
    for plant in (planted.touch, lambda: planted.symlink_to("/etc/passwd"), planted.mkdir):
        plant()
        os.lchown(planted, 65534, 65534)
        with pytest.raises(FusionError, match=r"current\.json belongs to user 65534"):
            directories.make_private(state)
        planted.rmdir() if planted.is_dir() else planted.unlink()
    directories.make_private(state)


@AS_ROOT
def test_the_owner_of_a_file_is_that_of_what_was_read(tmp_path):
    """A file of another's that is swapped for root's own right after it was read does not pass for root's."""
    file, theirs = tmp_path / "fusion.yaml", tmp_path / "theirs.yaml"
    theirs.write_text("version: 1\n")
    os.chown(theirs, 65534, 65534)
    file.symlink_to(theirs)
    tree = read_tree(file, {})
    file.unlink()
    file.write_text("version: 1\n")
    file.chmod(0o644)
    assert [problem.code for problem in machine.check_owners(tree, to_run=True)] == ["unsafe-file"]
    assert list(machine.check_owners(read_tree(file, {}), to_run=True)) == []


def test_a_socket_is_never_open_for_a_moment(tmp_path, monkeypatch):
    """Between its bind and its chmod the control socket is the user's alone, whatever the umask is."""
    (tmp_path / "run").mkdir()
    options = DaemonOptions(tmp_path / "run" / "control.sock", group=os.getgid())
    options.make_logger()
    modes = []

    def chmod(path, mode, **_):
        modes.append((stat.S_IMODE(os.stat(path).st_mode), mode))  # noqa: PTH116 - the path is any

    monkeypatch.setattr(os, "chmod", chmod)
    before = os.umask(0)
    try:
        [(_, server)] = options.make_http_servers(None)
        server.close()
    finally:
        os.umask(before)
    assert modes
    assert modes[0] == (0o600, 0o660)


@pytest.mark.parametrize(
    "words",
    [
        ("CONFIG", "SET", "dir", "/tmp"), ("CONFIG", "SET", "dbfilename", "authorized_keys"),
        ("CONFIG", "SET", "unixsocketperm", "777"), ("CONFIG", "SET", "logfile", "/tmp/x"),
        ("MODULE", "LOAD", "/tmp/x.so"), ("DEBUG", "SLEEP", "0"),
        ("CONFIG", "SET", "enable-protected-configs", "yes"), ("CONFIG", "SET", "enable-module-command", "yes"),
    ],
    ids=lambda words: " ".join(words).lower(),
)  # fmt: skip
def test_who_may_write_to_the_embedded_redis_gets_no_file_and_no_code(embedded_redis, words):
    """Not where it writes, not what it loads: who is let in by `broker.socket_group` is not the daemon's user."""
    with pytest.raises(BrokerError, match="refused"):
        embedded_redis(plain(as_is, *words))


@pytest.fixture(scope="module")
def embedded_redis():
    """Runs a command on a server that was started as the daemon starts it."""
    directory = Path(tempfile.mkdtemp(prefix="fe"))
    path = directory / "r.sock"
    words = embedded.command(choose_server().path, directory, path, None)
    server = subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL)
    try:
        until(lambda: path.exists() and embedded.answers(path))
        with connect(model.Broker(url=f"unix://{path}"), directory) as connection:
            yield connection.run
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(directory)
