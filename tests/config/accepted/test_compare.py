"""What a reload would do."""

import dataclasses
import os

import pytest

from fusiond.config.accepted.plan import compare
from fusiond.config.load import load

BASE = """
version: 1
queues: {q: {}, r: {}}
tasks:
  a: {run: x.a}
  b: {run: x.b, queue: q, timeout: 5s}
  c: {run: x.c, queue: r}
cron: {tick: {task: a, every: 5s}}
workers:
  main: {queues: [default, q], environment: {A: "1", B: "2"}, drain_timeout: 4m}
  other: {queues: [r]}
  all: {drain_timeout: 4m}
"""


def config_of(text):
    """The Config of a text."""
    loaded = load("fusion.yaml", environ=os.environ, data=text.encode())
    assert loaded.config is not None, loaded.problems
    return loaded.config


def change(old, new):
    """The plan from BASE to BASE with one text in place of another."""
    assert old in BASE
    return compare(config_of(BASE), config_of(BASE.replace(old, new)))


def test_a_range_of_processes_changes_in_place():
    """Each of its keys is named; the environment of a group may have a variable of the model's name."""
    text = BASE.replace('B: "2"}', 'scaling: "2"}, processes: {min: 2, max: 4}')
    other = text.replace("{min: 2, max: 4}", "{min: 3, max: 5, target_latency: 9s}")
    found = compare(config_of(text), config_of(other))
    [group] = [group for group in found.groups if group.name == "main"]
    assert (group.action, group.resized) == ("changed", None)
    assert set(group.because) == {"processes", "processes.min", "processes.max", "processes.target_latency"}
    changed = compare(config_of(text), config_of(text.replace('scaling: "2"', 'scaling: "3"')))
    assert "environment.scaling" in next(group.because for group in changed.groups if group.name == "main")


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("queues: [r]", "queues: [r], processes: 3", ("processes",)),
        ("queues: [r]", "queues: [r], processes: {min: 2, max: 4}", ("processes",)),
        ("queues: [r]", "queues: [r], max_jobs: 3, max_memory: 1GiB", ("max_jobs", "max_memory")),
        ("queues: [r]", "queues: [r], drain_timeout: 1h", ("drain_timeout",)),
        ("queues: [r]", "queues: [r], order: strict", ("order",)),
        ("queues: [r]", "queues: {r: 2}", ("order", "weights.r")),
    ],
)
def test_a_group_changes_in_place(old, new, keys):
    """What its running dispatcher can take in costs no process, and no other group notices."""
    found = change(old, new)
    assert found.names("changed") == ("other",)
    assert found.names("kept") == ("all", "main")
    assert next(group for group in found.groups if group.name == "other").because == keys


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("queues: [r]", "queues: [r], isolation: process", "isolation"),
        ("queues: [r]", "queues: [r], user: nobody", "user"),
        ("queues: [r]", "queues: [r], directory: /tmp", "directory"),
        ("queues: [r]", "queues: [r], python: /usr/bin/python3", "python"),
        ("queues: [r]", "queues: [r], environment: {A: '1'}", "environment.A"),
        ("queues: [r]", "queues: [r], environment_file: [x]", "environment_file"),
        ("queues: [r]", "queues: [r], pass_environment: [X]", "pass_environment"),
        ("queues: [r]", "queues: [r], umask: '022'", "umask"),
    ],
)
def test_a_group_is_replaced(old, new, key):
    """What is fixed when its processes start needs new ones, of that group alone."""
    found = change(old, new)
    assert found.names("replaced") == ("other",)
    assert found.names("kept") == ("all", "main")
    assert next(group for group in found.groups if group.name == "other").because == (key,)


def test_what_changes_with_that_which_replaces_a_group_is_named_too():
    """The keys that would change in place, and a second cause."""
    found = change("queues: [r]", "queues: [r], user: nobody, processes: 3, drain_timeout: 1h")
    assert str(found) == "2 groups kept, 1 replaced (other, because user changed, along with processes, drain_timeout)"
    assert "because user, code changed" in str(found.replacing(["other"], "code"))
    resized = change("queues: [r]", "queues: [r], processes: 3").replacing(["other"], "code")
    assert "replaced (other, because code changed, along with processes)" in str(resized)


def test_only_keys_are_named_never_values():
    """A value may be a secret."""
    found = change('A: "1"', "A: hunter2")
    assert "hunter2" not in str(found) + str(dataclasses.asdict(found))
    assert str(found) == "2 groups kept, 1 replaced (main, because environment.A changed)"


@pytest.mark.parametrize(
    ("old", "new", "replaced"),
    [
        ("run: x.c", "run: x.d", ("all", "other")),
        ("run: x.a", "run: x.d", ("all", "main")),
        ("cron:", "  d: {run: x.d, queue: r}\ncron:", ("all", "other")),
        ("run: x.b, queue: q", "run: x.b, queue: r", ("other",)),
        ("  c: {run: x.c, queue: r}\n", "", ()),
    ],
)
def test_code_that_must_be_loaded_replaces_the_groups_that_serve_it(old, new, replaced):
    """A run that is changed, added or moved; one that is removed concerns nobody."""
    assert change(old, new).names("replaced") == replaced


def test_a_command_changes_in_place():
    """Nothing is loaded for it: a new one, another one, and one in place of a function; a function in its place is."""
    command = BASE.replace("run: x.c", "command: [c]")
    for old, new, sentence in (
        (BASE, command, "3 groups kept; tasks: c.run, c.command changed"),
        (command, command.replace("[c]", "[d]"), "3 groups kept; tasks: c.command changed"),
        (command, command.replace("cron:", "  d: {command: [d], queue: r}\ncron:"), "3 groups kept; tasks: d added"),
        (command, command.replace("queue: r}", "queue: q}"), "3 groups kept; tasks: c.queue changed"),
    ):
        assert str(compare(config_of(old), config_of(new))) == sentence
    back = compare(config_of(command), config_of(BASE))
    assert [(group.name, group.because) for group in back.groups if group.action == "replaced"] == [
        ("all", ("tasks.c.run",)),
        ("other", ("tasks.c.run",)),
    ]


def test_an_outbox_is_added_changed_and_removed_in_place():
    """The sentence names the outbox and its keys; no address, which may hold a password, is in the plan."""
    before = BASE + "outboxes: {shop: {url: 'postgresql://u:hunter2@h/d', tasks: [a]}}\n"
    after = before.replace("hunter2", "hunter3").replace("tasks: [a]", "tasks: [b], poll: 2s")
    for old, new, sentence in (
        (BASE, before, "outboxes: shop added"),
        (before, after, "outboxes: shop.tasks, shop.url, shop.poll changed"),
        (after, BASE, "outboxes: shop removed"),
    ):
        found = compare(config_of(old), config_of(new))
        assert str(found) == f"3 groups kept; {sentence}"
        assert "hunter" not in str(dataclasses.asdict(found))


def test_policies_change_in_place_for_all():
    """Tasks, cron, queues, retry policies and priorities leave every group as it is."""
    found = compare(
        config_of(BASE),
        config_of(
            BASE.replace("timeout: 5s", "timeout: {soft: 5s, hard: 9s}, priority: high").replace(
                "every: 5s", "every: 6s"
            )
            + "retry_policies: {p: {}}\npriorities: {high: 9, moderate: 1, low: 0}\n"
        ),
    )
    assert found.names("kept") == ("all", "main", "other")
    changed = {section.section: (section.added, section.changed, section.removed) for section in found.sections}
    assert changed == {
        "tasks": ((), ("b.priority", "b.timeout.hard"), ()),
        "cron": ((), ("tick.every",), ()),
        "retry_policies": (("p",), (), ()),
        "priorities": ((), ("high",), ()),
    }
    assert not found.is_empty


def test_groups_come_and_go():
    """Added and removed groups are named, with one sentence for people."""
    found = change("other: {queues: [r]}", "new: {queues: [r]}")
    assert (found.names("added"), found.names("removed")) == (("new",), ("other",))
    assert str(found) == "2 groups kept, 1 added (new), 1 removed (other)"


@pytest.mark.parametrize(
    "line",
    [
        "broker: {url: 'redis://h'}", "broker: {namespace: x}", "control: {group: root}", "logging: {format: json}",
        "state_directory: /x", "runtime_directory: /x",
    ],
)  # fmt: skip
def test_what_is_opened_at_start_is_refused(line):
    """The remedy is in the sentence, and the level alone of logging can be told."""
    old = config_of(BASE)
    found = compare(old, config_of(BASE + line + "\n"))
    assert len(found.refused) == 1
    assert "restart" in str(found)
    told = compare(old, dataclasses.replace(old, logging=dataclasses.replace(old.logging, level="debug")))
    assert (told.told, told.refused) == (("logging.level",), ())
    assert str(told) == "3 groups kept; logging.level changed"
