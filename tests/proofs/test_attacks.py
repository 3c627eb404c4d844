"""A daemon with everything running, and who is not meant to reach it."""

import http.client
import json
import os
import pwd
import re
import socket
import stat
import subprocess
import xmlrpc.client
from pathlib import Path

import pytest

from fusiond import paths
from fusiond.broker.call import as_is, plain
from fusiond.client import Client
from fusiond.errors import JobFailed
from fusiond.locate.control import ask
from fusiond.supervise.supervisord.rpc import VERBS
from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, alive, descendants, until
from tests.test_security import AS_ROOT, ESCAPES, PYTHON, unprintable

GROUP = "{{queues: [default], directory: {app}, user: nobody, python: {python}}}"

#: what a local account tries; runs as nobody, under an interpreter that everybody may run
LOOK = """
import errno, json, os, socket, sys

def attempt(call, *args):
    try:
        call(*args)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"

def connect(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)

asked = json.load(sys.stdin)
found = {}
for path in asked["directories"]:
    found["list " + path] = attempt(os.listdir, path)
    found["add to " + path] = attempt(os.symlink, "/etc/passwd", path + "/planted")
for path in asked["files"]:
    found["read " + path] = attempt(open, path, "rb")
    found["write " + path] = attempt(open, path, "ab")
    found["replace " + path] = attempt(os.rename, path, path + ".old")
for path in asked["sockets"]:
    found["connect " + path] = attempt(connect, path)
for pid in asked["pids"]:
    for name in ("environ", "mem", "maps"):
        found[f"read {pid}/{name}"] = attempt(lambda: open(f"/proc/{pid}/{name}", "rb").read(1))
    found[f"signal {pid}"] = attempt(os.kill, pid, 0)
print(json.dumps(found))
"""


def as_nobody(script, **asked):
    nobody = pwd.getpwnam("nobody")
    done = subprocess.run(
        [PYTHON, "-c", script], input=json.dumps(asked), capture_output=True, text=True, check=False, cwd="/",
        user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "null")


@AS_ROOT
@pytest.mark.parametrize("control", ["", "control: {group: daemon}\n"], ids=["alone", "with a group"])
def test_a_local_account_reaches_nothing(daemon, control):
    """It lists, reads, adds and replaces nothing of state and runtime, opens no socket, and sees into no process."""
    daemon.directory.chmod(0o755)
    daemon.start(daemon.body("main: {}", more=control))
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) is None
    below = [path for top in (daemon.state, daemon.runtime) for path in [top, *top.rglob("*")]]
    kinds = {path: path.lstat().st_mode for path in below}
    asked = {
        "directories": [str(path) for path, mode in kinds.items() if stat.S_ISDIR(mode)],
        "files": [str(path) for path, mode in kinds.items() if stat.S_ISREG(mode)],
        "sockets": [str(path) for path, mode in kinds.items() if stat.S_ISSOCK(mode)],
        "pids": [daemon.process.pid, *(pid for pid, _ in descendants(daemon.process.pid))],
    }
    assert len(asked["sockets"]) == 2
    assert len(asked["pids"]) > 4
    assert str(paths.current_snapshot(daemon.state)) in asked["files"]
    found = as_nobody(LOOK, **asked)
    ended = {what for what, how in found.items() if how in ("ESRCH", "ENOENT") and not alive(_pid(what))}
    assert {what: how for what, how in found.items() if how not in ("EACCES", "EPERM") and what not in ended} == {}


def _pid(what):
    """Of what was tried, where that was a process: a child may have been replaced meanwhile."""
    return int(re.sub(r"^(read|signal) (\d+).*|.*", r"\2", what) or os.getpid())


@AS_ROOT
def test_a_file_that_another_has_put_in_place_is_not_run(daemon):
    """Who can write the directory swaps the file: root's daemon refuses it, says whose it is, and runs on as it did."""
    daemon.directory.chmod(0o755)
    daemon.start(daemon.body("main: {}"))
    os.chown(daemon.directory, 65534, 65534)
    theirs = daemon.body("main: {}", tasks=f"  owned: {{run: os.system}}\n  # {ESCAPES[-4:-2]}\n").replace("\u2028", "")
    as_nobody(
        "import json, os, sys; asked = json.load(sys.stdin); fresh = asked['file'] + '.new'\n"
        "open(fresh, 'w').write(asked['text']); os.rename(fresh, asked['file']); print('null')",
        file=str(daemon.file), text=daemon.head() + theirs.replace("\u2066", ""),
    )  # fmt: skip
    outcome = ask(daemon.control, "reload", timeout=60)
    assert (outcome["result"], outcome["generation"]) == ("refused", 1)
    assert [problem["code"] for problem in outcome["problems"] if problem["severity"] == "error"] == ["unsafe-file"]
    assert "belongs to user nobody" in outcome["summary"]
    assert daemon.client().enqueue("colour").result(timeout=PATIENCE) is None
    daemon.stop()
    daemon.start(wait=False)
    assert daemon.process.wait(PATIENCE) == 78


def test_no_secret_is_anywhere_but_where_it_was_asked_for(daemon, redis_server):
    """Not in an argument, a log, a tail, an answer of the daemon, a key of Redis, or another group's environment."""
    secrets = {"REDIS_PASSWORD": "hunter2-of-redis", "API_TOKEN": "hunter2-of-the-api", "OTHER": "hunter2-of-nobody"}
    with redis_server.connect() as connection:
        setup = ["ACL", "SETUSER", "app", "on", f">{secrets['REDIS_PASSWORD']}", "~*", "&*", "+@all"]
        connection.run(plain(as_is, *setup))
    (daemon.app / "secret_code.py").write_text("import os\ndef environment():\n    return dict(os.environ)\n")
    daemon.start(
        f"broker: {{url: 'unix://app:${{REDIS_PASSWORD}}@{redis_server.path}'}}\n"
        "queues: {default: {}, aside: {}}\n"
        "tasks:\n  told: {run: secret_code.environment}\n"
        "  untold: {run: secret_code.environment, queue: aside}\n"
        f"defaults: {{workers: {{directory: {daemon.app}}}}}\n"
        "workers:\n  main: {queues: [default], environment: {API_TOKEN: '${API_TOKEN}'}}\n  aside: {queues: [aside]}\n"
        "logging: {level: debug}\n",
        environment=secrets,
    )
    url = f"unix://app:{secrets['REDIS_PASSWORD']}@{redis_server.path}"
    with Client(url) as client:
        told, untold = (client.enqueue(task).result(timeout=PATIENCE) for task in ("told", "untold"))
    assert (told["API_TOKEN"], told.get("REDIS_PASSWORD"), told.get("OTHER")) == (secrets["API_TOKEN"], None, None)
    assert not untold.keys() & secrets.keys()

    pids = [daemon.process.pid, *(pid for pid, _ in descendants(daemon.process.pid))]
    seen = {f"arguments of {pid}": arguments(pid) for pid in pids}
    answers = {verb: json.dumps(ask(daemon.control, verb, timeout=20)) for verb in ("status", "history", "plan")}
    known = {"FUSION_CONFIG": str(daemon.file), **secrets}
    commands = ("status -W --json", "explain group main")
    said = {line: fusiond(*line.split(), cwd="/", **known) for line in commands}
    seen |= answers | {line: each.out + each.err for line, each in said.items()}
    seen |= {str(path): path.read_text() for path in [daemon.log, *(daemon.state / "tail").iterdir()]}
    with redis_server.connect() as connection:
        keys = connection.run(plain(as_is, "KEYS", "*"))
        # The jobs' own results hold what the tasks have been asked to tell.
        for key in (key for key in keys if b":job:" not in key):
            seen[key.decode()] = str(connection.run(plain(as_is, "DUMP", key)))
    assert len(seen) > 12
    assert [where for where, text in seen.items() if "hunter2" in text] == []
    assert "***" in said["explain group main"].out
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in daemon.state.rglob("*") if path.is_file()}
    assert {path.name: mode for path, mode in modes.items() if mode & 0o077 and "hunter2" in path.read_text()} == {}


def arguments(pid):
    """Its command line; empty where the process has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def rpc(control, method, *arguments):
    """One XML-RPC call as any program may make it; its fault, or the HTTP status of what was not a call at all."""
    body = xmlrpc.client.dumps(arguments, method).encode()
    status, answer = post(control, body)
    if status != 200:
        return status
    try:
        return xmlrpc.client.loads(answer)[0][0]
    except xmlrpc.client.Fault as fault:
        return fault


def post(control, body, path="/RPC2", verb="POST"):
    """Status and answer of a request as any program may make it; 0 where the daemon hangs up on it."""
    connection = http.client.HTTPConnection("localhost", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(20)
    connection.sock.connect(str(control))
    try:
        connection.request(verb, path, body, {"Content-Type": "text/xml"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (http.client.HTTPException, ConnectionError):
        return 0, b""
    finally:
        connection.close()


#: verbs of a stock supervisord, and ways from a verb to what is around it
NOT_A_VERB = (
    "supervisor.addProcessGroup", "supervisor.removeProcessGroup", "supervisor.reloadConfig", "supervisor.restart",
    "supervisor.clearLog", "supervisor.sendProcessStdin", "supervisor.signalProcess", "supervisor.clearProcessLogs",
    "supervisor.sendRemoteCommEvent", "supervisor.supervisord", "supervisor.supervisord.options", "supervisor._update",
    "fusion._processes", "fusion._state", "fusion.__init__", "fusion.__class__", "fusion.reload.__globals__",
    "fusion.reload.__func__", "system.namespaces", "system.__init__", "os.system", "twiddler.addProgramToGroup", "",
    "fusion", "fusion.", ".reload", "__class__.__mro__",
)  # fmt: skip
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "'
    + "x" * 1000
    + '">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 50}">' for n in range(5))
    + "]><methodCall><methodName>&f;</methodName></methodCall>"
)


def test_the_control_face_is_a_table_of_verbs(daemon):
    """Who may speak to the socket has these verbs and no others, no files and no pages; garbage ends no daemon."""
    daemon.start(daemon.body("main: {}"))
    verbs = ("reload", "rollback", "plan", "history", "identity", "status", "drain", "logs")
    fusion = {f"fusion.{verb}" for verb in verbs}
    system = {f"system.{verb}" for verb in ("listMethods", "methodHelp", "methodSignature", "multicall")}
    listed = set(rpc(daemon.control, "system.listMethods"))
    assert fusion | system <= listed <= fusion | system | {f"supervisor.{verb}" for verb in VERBS}
    for method in NOT_A_VERB:
        answer = rpc(daemon.control, method)
        assert answer == 400 or answer.faultCode == 1, (method, answer)  # UNKNOWN_METHOD
    nested = rpc(daemon.control, "system.multicall", [{"methodName": name, "params": []} for name in NOT_A_VERB])
    assert {each["faultCode"] for each in nested} == {1}
    for path in ("/", "/index.html", "/stylesheets/supervisor.css", "/tail.html", "/../../etc/passwd"):
        assert post(daemon.control, None, path, "GET")[0] in (400, 404), path
    for path in ("/logtail/../../../etc/passwd", "/logtail/worker:main/../../..", "/mainlogtail", "/logtail/"):
        status, answer = post(daemon.control, None, path, "GET")
        assert (status, b"root:" in answer) != (200, True), path
        assert status in (400, 404, 410), (path, status)
    for body in (b"", b"\xff" * 1000, b"<a>" * 100_000, BOMB.encode(), b"<methodCall><methodName>"):
        assert post(daemon.control, body)[0] in (0, 400)
    until(lambda: daemon.status()["ready"], daemon.text)
    assert daemon.process.poll() is None
    assert daemon.names() == {*daemon.always, "worker:main@1"}


def test_an_import_cannot_drive_the_operators_terminal(daemon):
    """What a module raises at its import reaches who asks for a reload, legible and no more than that."""
    daemon.start(daemon.body("main: {}"))
    (daemon.app / "rude.py").write_text(f"print({ESCAPES!r})\nraise ImportError({ESCAPES!r} + 'so rude')\n")
    daemon.write(daemon.body("main: {umask: '0027'}", tasks="  rude: {run: rude.task}\n"))
    done = fusiond("reload", "-c", daemon.file, cwd="/")
    assert done.status == 1
    assert "so rude" in done.out
    status = fusiond("status", "-c", daemon.file, cwd="/")
    assert "so rude" in status.out
    assert not unprintable(done.out + done.err + status.out + status.err + daemon.text())


@AS_ROOT
def test_who_is_not_root_runs_groups_of_others_by_capabilities(daemon):
    """A group becomes its user, keeps nothing of the daemon's own, and is killed when it must be."""
    # The last one is for this test alone: the interpreter may be where only root can search.
    own, capabilities = pwd.getpwnam("games"), "+setuid,+setgid,+kill,+dac_read_search"
    daemon.command = (
        "setpriv", f"--reuid={own.pw_uid}", f"--regid={own.pw_gid}", "--clear-groups", "--no-new-privs",
        f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}", f"--bounding-set=-all,{capabilities}",
        *daemon.command,
    )  # fmt: skip
    (daemon.app / "whose.py").write_text(
        "import os, signal, time\n"
        "def mine(): return os.getuid(), [line for line in open('/proc/self/status') if line.startswith('Cap')"
        " and not line.startswith('CapBnd') and int(line.split()[1], 16)]\n"
        "def deaf():\n    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n    time.sleep(60)\n"
    )
    os.chown(daemon.directory, own.pw_uid, own.pw_gid)
    daemon.directory.chmod(0o755)
    tasks = "  mine: {run: whose.mine}\n  deaf: {run: whose.deaf, timeout: {soft: 200ms, hard: 300ms}}\n"
    daemon.start(daemon.body("main: " + GROUP.format(app=daemon.app, python=PYTHON), tasks=tasks))
    assert daemon.client().enqueue("mine").result(timeout=PATIENCE) == [pwd.getpwnam("nobody").pw_uid, []]
    with pytest.raises(JobFailed, match="TIMEOUT"):
        daemon.client().enqueue("deaf").result(timeout=PATIENCE)
