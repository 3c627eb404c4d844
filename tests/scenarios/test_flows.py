"""Flows over two daemons on one Redis: kills, a reload, a schedule, the commands."""

import os
import signal

from tests.support.fusiond_command import fusiond
from tests.support.running import PATIENCE, until

TASKS = """
import pathlib, time

def items(count):
    return {"items": list(range(count))}

def square(n, gate):
    while n == 3 and not pathlib.Path(gate).exists():
        time.sleep(0.02)
    return n * n

def total(values, day=None):
    return [day, sum(values)]
"""
FILE = """
queues: {other: {}}
tasks:
  items: {run: jobs.items}
  square: {run: jobs.square, queue: other}
  total: {run: jobs.total}
flows:
  sums:
    steps:
      items: {task: items, inputs: {count: input.count}}
      each: {task: square, after: [items], for_each: items.items, as: n, kwargs: {gate: {gate}}}
      total: {task: total, after: [each], inputs: {values: each, day: input.day}}
cron:
  daily: {flow: sums, every: 1d, inputs: {day: tick.date}, kwargs: {count: 2}}
workers: {main: {queues: '*', directory: {app}, processes: 2}}
"""


def test_a_run_survives_a_kill_and_a_reload_and_keeps_its_shape(daemons, tmp_path):
    """While a step runs, a daemon is killed and the other one gets a file with another last step."""
    client, gate = daemons.client(), tmp_path / "gate"
    first, second = (daemons.start(FILE.replace("{gate}", str(gate)), TASKS) for _ in range(2))
    run = client.run_flow("sums", count=6, day="monday")
    until(lambda: run.steps()["each"] == "running", "the second step runs")
    second.reload(second.body.replace("      total: {task", "      sum: {task"))
    os.kill(first.process.pid, signal.SIGKILL)
    gate.touch()
    assert run.result(timeout=60) == {"total": ["monday", 55]}
    assert run.status() == "finished"
    shown = fusiond("flow", "show", run.id, "-c", second.file, cwd=second.directory).out
    assert "● each" in shown
    assert "6/6" in shown
    started = fusiond("cron", "run", "daily", "-c", second.file, cwd=second.directory).out
    [[_, total]] = client.flow_run(started.strip()).result(timeout=PATIENCE).values()
    assert total == 1
