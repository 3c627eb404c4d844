"""`reload_on`: a deployment switches the link to a release, and the code of the groups that name it is loaded again."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.fusiond_command import fusiond
from tests.support.releases import VERSION, body, make, release, switch
from tests.support.running import PATIENCE, until

ROOT = Path(__file__).parents[2]


def group(daemon, name="main", more="processes: 3"):
    return f"{name}: {{{more}, reload_on: [{daemon.app}/current]}}"


def version(daemon):
    return daemon.client().enqueue("version").result(timeout=PATIENCE)


def real(daemon, number):
    return os.path.realpath(daemon.app / "releases" / str(number))


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_release_that_does_not_load_is_refused(daemon):
    """The old code serves on, even after the death of its fork server; log, status and event say why."""
    release(daemon, 41)
    daemon.start(body(daemon, group(daemon), "events: {}\n"))
    release(daemon, 42, "def version(:\n")
    until(lambda: daemon.status()["reloads"] == {"refused": 1}, daemon.text)
    said = f"{daemon.app}/current leads to {real(daemon, 42)}, but group 'main' stays with the code that it has"
    reason = daemon.status()["reload"]["reason"]
    assert ("SyntaxError" in reason, said in reason) == (True, True)
    until(lambda: said in daemon.text(), daemon.text)
    command = ("events", "-c", daemon.file, "--only", "reload.refused")
    until(lambda: "SyntaxError" in fusiond(*command, cwd=daemon.directory).out, daemon.text)
    program = daemon.programs()["worker:main@1"]
    shown = program["release"][f"{daemon.app}/current"]
    assert shown == {"loaded": real(daemon, 41), "now": real(daemon, 42), "switched": True}
    before = children(program["pid"])
    os.kill(before[0], signal.SIGKILL)
    until(lambda: (now := children(program["pid"])) and not {*now} & {*before}, daemon.text)
    assert version(daemon) == 41
    release(daemon, 43)
    until(lambda: version(daemon) == 43, daemon.text)
    at = "-c", daemon.file
    ran_with = fusiond("job", "list", "--json", *at, cwd=daemon.directory).json[0]["ran_with"]
    assert (ran_with["generation"], ran_with["release"]) == (daemon.status()["generation"], real(daemon, 43))
    said = lambda: fusiond("events", "--only", "release.loaded", *at, cwd=daemon.directory).out  # noqa: E731
    until(lambda: f"main: {real(daemon, 43)}" in said(), said)


def test_the_deploy_script_of_the_docs_works(daemon):
    """It switches to a release and waits for it; after one that does not load it goes back and fails."""
    page = (ROOT / "docs" / "deployment.md").read_text()
    (script,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```", page, re.MULTILINE | re.DOTALL)
    script = script.replace("fusiond reload", f"{sys.executable} -m fusiond.cli reload")
    script = script.replace("/srv/shop", str(daemon.app))

    def deploy(name, source=VERSION):
        packed = make(daemon, name, source)
        archive = shutil.make_archive(str(daemon.directory / name), "gztar", packed)
        shutil.rmtree(packed)
        return subprocess.run(["sh", "-c", script, "deploy.sh", archive], capture_output=True, text=True, check=False)

    release(daemon, 41)
    daemon.file = daemon.app / "fusion.yaml"
    daemon.start(body(daemon, group(daemon)))
    done = deploy("42")
    assert done.returncode == 0, done
    assert version(daemon) == 42
    done = deploy("43", "def version(:\n")
    assert (done.returncode, "SyntaxError" in done.stdout) == (1, True), done
    assert (daemon.app / "current").readlink() == Path("releases/42")
    assert version(daemon) == 42


def test_no_switch_is_missed(daemon):
    """Neither while the daemon starts nor while a release is tried."""
    gates = {number: daemon.directory / f"gate-{number}" for number in (41, 42)}
    wait = "import pathlib, time\npathlib.Path('{0}-began').touch()\nwhile not pathlib.Path('{0}').exists():\n"
    wait += "    time.sleep(0.01)\n"
    for number, gate in gates.items():
        make(daemon, number, wait.format(gate) + VERSION)
    make(daemon, 43)
    switch(daemon, 41)
    daemon.start(body(daemon, group(daemon)), wait=False)
    for number, gate in gates.items():
        until(gate.with_name(f"{gate.name}-began").exists, daemon.text)
        switch(daemon, number + 1)
        gate.touch()
    until(lambda: daemon.control.exists() and daemon.status()["ready"], daemon.text)
    until(lambda: version(daemon) == 43, daemon.text)


def test_the_file_stays_as_it_is(daemon):
    """A rollback stays in force, and a file with a mistake keeps no release out."""
    release(daemon, 41)
    daemon.start(body(daemon, group(daemon)))
    daemon.reload(body(daemon, group(daemon, more="processes: 4")))
    assert fusiond("rollback", "-c", daemon.file, cwd=daemon.directory).status == 0
    release(daemon, 42)
    until(lambda: version(daemon) == 42, daemon.text)
    daemon.file.write_text("queues: [\n")
    until(lambda: daemon.status()["reloads"].get("refused"), daemon.text)
    release(daemon, 43)
    until(lambda: version(daemon) == 43, daemon.text)
    status = daemon.status()
    assert (status["restores"], status["file_differs"], status["generation"]) == (1, True, 5)


def test_a_file_in_the_release_is_applied_with_its_code(daemon):
    """In one reload: neither works with the other of the old release."""
    text = daemon.head() + body(daemon, group(daemon))
    (make(daemon, 41) / "fusion.yaml").write_text(text)
    renamed = make(daemon, 42, VERSION.replace("version", "fresh"))
    (renamed / "fusion.yaml").write_text(text.replace("shop.version", "shop.fresh"))
    switch(daemon, 41)
    daemon.file = daemon.app / "current" / "fusion.yaml"
    daemon.start()
    assert version(daemon) == 41
    switch(daemon, 42)
    until(lambda: version(daemon) == 42, daemon.text)
    until(lambda: daemon.status()["reloads"] == {"applied": 1}, daemon.text)
