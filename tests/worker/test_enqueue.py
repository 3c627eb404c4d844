"""Code that enqueues while it is imported: no job is made, and whoever loads it is told; in a job it may."""

import json
import os
import subprocess
import sys

import pytest

from fusiond.broker.hosts.host_records import Catalogue

SAYS = "enqueue inside a function"
PLAIN = "Client({url!r}, namespace={namespace!r}).enqueue('echo', 1)\n"
#: how a module may enqueue as it is imported
WAYS = {
    "a client": PLAIN,
    "many": "Client({url!r}, namespace={namespace!r}).enqueue_many([('echo',)])\n",
    "an async client": (
        "import asyncio\n"
        "async def main(): await AsyncClient({url!r}, namespace={namespace!r}).enqueue('echo', 1)\n"
        "asyncio.run(main())\n"
    ),
    "a thread": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\n"
        "pool.submit(Client({url!r}, namespace={namespace!r}).enqueue, 'echo', 1).result()\n"
    ),
    "a caught exception": "try: " + PLAIN + "except Exception: pass\n",
    "a caught exception in a function": "def start():\n    try: " + PLAIN + "    except Exception: pass\nstart()\n",
    "a program": (
        "import subprocess, sys\n"
        "code = \"from fusiond import Client; Client({url!r}, namespace={namespace!r}).enqueue('echo', 1)\"\n"
        "subprocess.run([sys.executable, '-c', code], stderr=subprocess.DEVNULL)\n"
    ),
    "a fork": "import os\nif os.fork() == 0:\n    try: " + PLAIN + "    finally: os._exit(0)\nos.wait()\n",
}
HEAD = "from fusiond import AsyncClient, Client\n"
BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])


@pytest.fixture
def place(place):
    tasks = {"echo": {"queue": "default", "priority": 1, "run": "jobs.echo"}}
    place.run(place.broker.publish_catalogue("test", "hash", tasks, priorities={}, queues=["default"]))
    return place


def write(place, text):
    names = {"url": place.settings.url, "namespace": place.settings.namespace}
    (place.app / "eager.py").write_text(HEAD + text.format(**names) + "def task(): ...\n")


def jobs(place):
    counts = place.run(place.broker.counts("default"))
    return counts.queued + counts.scheduled + counts.started + counts.finished + counts.failed


@pytest.mark.proof
@pytest.mark.parametrize("way", WAYS)
def test_reload_refuses_a_module_that_enqueues(place, way):
    """The new program fails with the sentence and the line, and no job was made."""
    assert isinstance(place.run(place.broker.catalogue()), Catalogue)
    write(place, WAYS[way])
    program = place.start(held=True, link=True, ready=False, tasks={"eager": {"run": "eager.task"}})
    reason = program.heard("failed")["reason"]
    assert SAYS in reason
    # The nearest code that is not the client's: of the program, or of the thread that calls the client itself.
    assert {"a program": "<string>, line 1", "a thread": "thread.py, line "}.get(way, "eager.py, line ") in reason
    assert jobs(place) == 0


@BOTH
def test_module_that_enqueues_does_not_load(place, isolation):
    """At the start, as well as in the child that loads what its fork server did not."""
    write(place, PLAIN)
    tasks = {"eager": {"run": "eager.task"}, "later": {"run": "eager.task", "queue": "other"}}
    program = place.start(isolation=isolation, tasks=tasks, queues=("default", "other"))
    program.until_said(SAYS)
    for task in tasks:
        assert place.until(place.enqueue(task), "held").last_outcome == "not loaded"
    assert place.run(place.broker.counts("default")).queued == 0


@BOTH
def test_job_may_enqueue(place, isolation):
    """What the fork server must not do its children may, and a thread of theirs."""
    write(place, "")
    text = PLAIN.format(url=place.settings.url, namespace=place.settings.namespace)
    with (place.app / "eager.py").open("a") as file:
        file.write(f"def make():\n    return {text.strip()}.name\n")
    place.start(isolation=isolation, tasks={"make": {"run": "eager.make"}})
    made = place.result(place.enqueue("make"))
    assert place.result(made.partition("/")[2]) == {"args": [1], "kwargs": {}}


@BOTH
def test_program_of_a_job_may_enqueue(place, isolation):
    """With the environment of the job, and with one that was copied while the module was loaded."""
    write(place, "import os, subprocess, sys\nCOPY = dict(os.environ)\n")
    code = "from fusiond import Client; " + PLAIN.format(url=place.settings.url, namespace=place.settings.namespace)
    with (place.app / "eager.py").open("a") as file:
        file.write(f"def make(copy):\n    words = [sys.executable, '-c', {code!r}]\n")
        file.write("    assert 'FUSION_LOADING' in COPY and 'FUSION_LOADING' not in os.environ\n")
        file.write("    subprocess.run(words, check=True, env=COPY if copy else None)\n")
    place.start(
        isolation=isolation, tasks={"make": {"run": "eager.make", "queue": "other"}}, queues=("default", "other")
    )
    for copied in (False, True):
        place.result(place.enqueue("make", copied, queue="other"), queue="other")
    assert jobs(place) == 2


@pytest.mark.parametrize("way", ["a client", "a caught exception", "a program"])
def test_each_task_of_such_a_module_is_refused(place, way):
    """Its code went on and the module is there: a second task of it, and one of what imports it, say the same."""
    write(place, WAYS[way])
    (place.app / "second.py").write_text("import eager\ndef task(): ...\n")
    runs = {"eager": "eager.task", "other": "eager.Client", "second": "second.task"}
    found = place.start(held=True, link=True, ready=False, tasks={name: {"run": run} for name, run in runs.items()})
    reason = found.heard("failed")["reason"]
    assert "task eager, other" in reason or "task other, eager" in reason
    assert jobs(place) == 0


@pytest.mark.parametrize("way", ["a client", "a caught exception", "a program"])
def test_validate_and_call_refuse(place, tmp_path, way):
    """Each with the sentence; a call of a function that enqueues works."""
    write(place, WAYS[way])
    file = tmp_path / "fusion.yaml"
    file.write_text(
        json.dumps(
            {
                "version": 1,
                "broker": {"url": place.settings.url, "namespace": place.settings.namespace},
                "tasks": {"eager": {"run": "eager.task"}},
                "workers": {"main": {"directory": str(place.app)}},
            }
        )
    )
    for words in (["validate", "--imports", str(file)], ["call", "-c", str(file), "eager"]):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "fusiond.cli", *words],
            check=False, capture_output=True, text=True, timeout=60, env={**os.environ, "NO_COLOR": "1"},
        )  # fmt: skip
        assert done.returncode == 1, done
        assert SAYS in " ".join((done.stdout + done.stderr).split())
    assert jobs(place) == 0
