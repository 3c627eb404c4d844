"""What makes two declarations differ."""

import dataclasses

from fusiond.config.model import Config, CronEntry, Task, WorkerGroup
from fusiond.schedule.drift import digest, digests


def newer(entry):
    """The same entry in a version whose class has one more field; its default is what happened before."""
    more = [("novelty", "int", dataclasses.field(default=0))]
    cls = dataclasses.make_dataclass("Newer", more, bases=(type(entry),), frozen=True, slots=True)
    return cls(**{field.name: getattr(entry, field.name) for field in dataclasses.fields(entry)})


def test_a_key_of_a_newer_version_makes_no_difference_while_it_has_its_default():
    """During an upgrade, daemons of two versions with one file declare the same."""
    task, entry = Task("a", "x.y", expires=60.0), CronEntry("c", "a", every=90.0, kwargs={"n": 1})
    group = WorkerGroup("m", environment={"A": "1"})
    old = Config(tasks={"a": task}, cron={"c": entry}, workers={"m": group})
    new = Config(tasks={"a": newer(task)}, cron={"c": newer(entry)}, workers={"m": newer(group)})
    assert digests(new) == digests(old)
    assert digest(newer(entry), newer(task)) == digest(entry, task)
    said = dataclasses.replace(newer(task), novelty=1)
    assert digests(Config(tasks={"a": said}))["tasks"] != digests(old)["tasks"]


def test_of_variables_only_the_names_count():
    """A value may be a secret, and a short digest of it could be guessed."""
    a, b, c = (
        digests(Config(workers={"m": WorkerGroup("m", environment=variables)}))["worker groups"]
        for variables in ({"A": "1"}, {"A": "2"}, {"B": "1"})
    )
    assert a == b != c
