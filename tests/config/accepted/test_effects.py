"""What a change would mean, as data that may leave the daemon."""

import json
from dataclasses import asdict

from fusiond.config.accepted.plan import Plan, effects
from fusiond.config.load import load
from fusiond.config.model import rebuild

BASE = """
version: 1
queues: {q: {max_length: 100}, r: {}, s: {max_running: 9}}
pools: {p: {slots: 4}}
tasks:
  a: {run: x.a}
  b: {run: x.b, queue: q}
  c: {run: x.c, queue: r}
cron:
  tick: {task: a, schedule: "0 2 * * *", kwargs: {password: hunter2}}
  tock: {task: a, every: 90s}
workers:
  main: {queues: [default, q], processes: 4, environment: {A: hunter2}}
  other: {queues: [r]}
"""


def change(*pairs):
    """From BASE to BASE with some texts replaced."""
    new = BASE
    for old, text in pairs:
        assert old in new
        new = new.replace(old, text)
    return effects(*(load("f", environ={}, data=text.encode()).config for text in (BASE, new)))


def test_a_queue_loses_its_last_group():
    """Also one that the file does not name, where a group took all, and one that a task moves to."""
    found = change(("  other: {queues: [r]}\n", ""))
    assert [queue for queue in found.queues if found.loses(queue)] == ["r"]
    assert not found.loses("unheard-of")
    everything = effects(*(load("f", environ={}, data=BASE.replace(*pair).encode()).config for pair in (
        ("[r]", '["*"]'), ("[r]", "[r]"),
    )))  # fmt: skip
    assert everything.loses("unheard-of")
    assert not everything.loses("r")
    found = change(("b: {run: x.b, queue: q}", "b: {run: x.b, queue: s}"))
    assert [queue for queue in found.queues if found.loses(queue)] == ["s"]
    assert (
        effects(*[load("f", environ={}, data=BASE.replace("queue: r", "queue: s").encode()).config] * 2).unserved == ()
    )


def test_limits_that_fall():
    """Lower processes, a lower or first max_length; higher ones bound nothing that is there."""
    found = change(
        ("processes: 4", "processes: 2"), ("max_length: 100", "max_length: 50"), ("r: {}", "r: {max_length: 7}")
    )
    assert (found.processes, found.max_length) == ({"main": 2}, {"q": 50, "r": 7})
    assert change(("max_running: 9", "max_running: 8")).max_running == {"s": 8}
    assert change(("max_running: 9", "max_running: 10")).max_running == {}
    assert change(("slots: 4", "slots: 3")).pools == {"p": 3}
    found = change(("processes: 4", "processes: 9"), ("max_length: 100", "max_length: 500"))
    assert (found.processes, found.max_length) == ({}, {})


def test_timetables_that_move():
    """Moved, suspended, new and gone; one whose arguments alone change ticks as before."""
    found = change(('"0 2 * * *"', '"0 3 * * *"'), ("every: 90s", "every: 90s, suspended: true"))
    moved = {each.name: (each.before, each.after) for each in found.timetables}
    assert [side.schedule for side in moved["tick"]] == ["0 2 * * *", "0 3 * * *"]
    assert [side.suspended for side in moved["tock"]] == [False, True]
    found = change(("  tock:", "  took:"), ("password: hunter2", "password: x"))
    assert [(each.name, each.before is None, each.after is None) for each in found.timetables] == [
        ("tock", False, True),
        ("took", True, False),
    ]


def test_what_takes_over_by_an_alias_is_neither_added_nor_removed():
    """A task, a queue and a cron entry: one phrase each, what else changes, and the ticks under the new name."""
    found = change(
        ("r: {}", "rr: {aliases: [r]}"),
        ("c: {run: x.c, queue: r}", "cc: {run: x.d, queue: rr, aliases: [c]}"),
        ('tick: {task: a, schedule: "0 2 * * *"', 'tack: {task: a, schedule: "0 3 * * *", aliases: [tick]'),
        ("queues: [r]", "queues: [rr]"),
        ("  tock: {task: a, every: 90s}\n", "  took: {task: a, every: 90s, aliases: [tock]}\n"),
    )
    assert found.plan.phrases()[1:] == (
        "queues: rr takes over from r",
        "tasks: cc takes over from c, cc.run, cc.queue changed",
        "cron: tack takes over from tick, took takes over from tock, tack.schedule changed",
    )
    [moved] = found.timetables
    assert (moved.name, moved.before.schedule, moved.after.schedule) == ("tack", "0 2 * * *", "0 3 * * *")
    assert rebuild(Plan, json.loads(json.dumps(asdict(found.plan)))) == found.plan
