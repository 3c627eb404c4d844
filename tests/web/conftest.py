"""A dashboard over a broker with a catalogue."""

import dataclasses

import pytest

from fusiond.config import model
from fusiond.config.model import CronEntry, Flow, Outbox, Queue, Task, WorkerGroup
from fusiond.config.model.flow_steps import FlowStep
from fusiond.web import backend, site
from tests.support.dashboard import Dashboard

CONFIG = {
    "queues": {"default": Queue("default"), "reports": Queue("reports")},
    "tasks": {"send": Task("send", "shop.send", "default"), "report": Task("report", "shop.report", "reports")},
    "cron": {"nightly": CronEntry("nightly", "report", schedule="0 2 * * *")},
    "flows": {
        "etl": Flow("etl", {"extract": FlowStep("send"), "load": FlowStep("report", after=("extract",))}, "reports")
    },
    "outboxes": {"shop": Outbox(("send",), "sqlite:////srv/shop.db")},
    "workers": {"main": WorkerGroup("main", {"default": 1, "reports": 1})},
}


@pytest.fixture
def open_dashboard(desk, tmp_path, monkeypatch):
    """A dashboard over the desk's Redis, with these keys of `web`; it sees at once what a test does there."""
    for name in ("KEPT", "CATALOGUE", "RATES"):
        monkeypatch.setattr(backend, name, 0.0)
    monkeypatch.setattr(site, "SLOW", 0.0)

    def opened(secret=(), **web):
        """`secret`: of both tasks."""
        tasks = {name: dataclasses.replace(task, secret=secret) for name, task in CONFIG["tasks"].items()}
        return Dashboard(desk.settings, tmp_path, web=web, **CONFIG | {"tasks": tasks})

    assert isinstance(desk.settings, model.Broker)
    return opened


@pytest.fixture
def dashboard(open_dashboard):
    """One with every default."""
    with open_dashboard() as found:
        yield found
