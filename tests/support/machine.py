"""
What this machine lacks and how quick it is, said before the first test; a plugin of pytest.

Each test that needs such a thing is skipped where it is missing, with a reason of its own.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import calibration
from tests.support.postgres import missing as missing_of_postgres
from tests.support.worker_program import pythons

#: program → what the tests do not show without it
SHOWS = {
    "gcc": "a Redis whose clock changes",
    "openssl": "TLS",
    "npm": "the schema in an editor's language server",
    "redis-server": "an embedded server that is Debian's Redis",
    "systemd-analyze": "the unit files, read by systemd",
    "promtool": "the alert rules, evaluated by Prometheus",
    "groff": "the manual page",
    "dpkg-buildpackage": "the Debian package",
    "bash": "the completion of bash",
    "zsh": "the completion of zsh",
    "fish": "the completion of fish",
}


def pytest_sessionstart(session):
    config = session.config
    # Not for one module, which a person runs.
    if not hasattr(config, "workerinput") and config.args == config.getini("testpaths"):
        print(*_missing(), _speed(), sep="\n", flush=True)


def _missing():
    for program, what in SHOWS.items():
        if not shutil.which(program):
            yield f"this machine has no {program}: not shown is {what}"
    if why := missing_of_postgres():
        yield f"{why}: not shown are outboxes in PostgreSQL"
    if not pythons():
        yield "this machine has no other Python: not shown are groups with an interpreter of their own version"
    if os.geteuid():
        yield "the tests do not run as root: not shown are groups that change their user"


def _speed():
    """What docs/benchmarks.md calls the calibration of the suite; its figures say how long the tests may take."""
    fork, load, sync = (statistics.median(measure() for _ in range(3)) * 1e3 for measure in (_fork, _load, _sync))
    return f"this machine: fork {fork:.2f} ms · import {load:.0f} ms · fsync {sync:.2f} ms"


def _fork():
    return calibration.fork(100)


def _load():
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import asyncio, json, logging, ssl"], check=True)
    return time.perf_counter() - began


def _sync(count=20):
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        began = time.perf_counter()
        for _ in range(count):
            file.write(b"x" * 100)
            file.flush()
            os.fsync(file.fileno())
        return (time.perf_counter() - began) / count
