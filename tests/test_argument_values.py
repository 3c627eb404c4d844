"""Arguments that the file names, and a caller gives by position."""

import dataclasses
import json

import pytest

from fusiond import Client
from fusiond.argument_values import by_name, names_to_bind, parameter_names
from fusiond.config import model
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.config.model.limits import Limit
from fusiond.enqueue_options import NO_OPTIONS
from fusiond.errors import BadArguments
from fusiond.masking import HIDDEN, masked_job
from fusiond.producer.new_jobs import JobMaker
from fusiond.schedule import publishing
from tests.support.running import until

RUN = f"{__name__}.sync"


def sync(account, since=None, *rest, deep=False):
    return account, since, rest, deep


@pytest.mark.parametrize(
    ("by", "args", "kwargs", "expected"),
    [
        (["kwargs.account"], ("acme",), {}, ((), {"account": "acme"})),
        (["kwargs.account"], ("acme", 3), {"deep": True}, ((), {"account": "acme", "since": 3, "deep": True})),
        (["kwargs.since"], ("acme", 3), {}, (("acme",), {"since": 3})),
        (["kwargs.account"], (), {"account": "acme"}, ((), {"account": "acme"})),
    ],
)
def test_they_are_passed_by_name(by, args, kwargs, expected):
    """With what stands behind them; the function gets the same."""
    found = by_name(names_to_bind(parameter_names(RUN), by), args, kwargs)
    assert found == expected
    assert sync(*found[0], **found[1]) == sync(*args, **kwargs)


@pytest.mark.parametrize(
    ("by", "run", "args", "kwargs"),
    [
        (["kwargs.account"], "no.such.module", ("acme",), {}),
        (["kwargs.account"], f"{__name__}.missing", ("acme",), {}),
        (["args.0", "kwargs.since"], RUN, ("acme", 3), {}),
        (["kwargs.account"], RUN, ("acme", 3, 4), {}),
        (["kwargs.account"], RUN, ("acme",), {"account": "other"}),
        (["kwargs.deep"], RUN, ("acme",), {}),
        ([], RUN, ("acme",), {}),
    ],
)
def test_where_that_cannot_be_the_call_stays_as_it_is(by, run, args, kwargs):
    """An unknown function, positions that count, more than the function names, one that is given twice."""
    assert by_name(names_to_bind(parameter_names(run), by), args, kwargs) == (args, kwargs)


def test_a_limited_job_may_be_enqueued_by_position(broker):
    """Its limit counts by the name that the function gives the argument; by an unknown function the remedy is said."""
    for path in (RUN, "elsewhere.sync"):
        tasks = {"sync": {"queue": "q", "priority": 1, "run": path, "limit_by": ["kwargs.account"]}}
        maker = JobMaker(broker)
        maker._catalogue, maker._read_at = dataclasses.replace(maker._catalogue, tasks=tasks), float("inf")
        if path == RUN:
            _, job, _ = maker._make(NO_OPTIONS, ("sync", ("acme", 3), {}))
            assert json.loads(job.args) == [[], {"account": "acme", "since": 3}]
        else:
            with pytest.raises(BadArguments, match=r"kwargs.account is missing; pass it by name"):
                maker._make(NO_OPTIONS, ("sync", ("acme", 3), {}))


CODE = """
def sync(day, account, password, deep=False): return [day, account, password, deep]
def wrapped(*args): return sync(*args)
class Mailer:
    def send(self, account, /, password): return [account, password]
send = Mailer().send
"""


def test_a_worker_group_says_how_its_functions_name_what_calls_pass_by_position(place):
    """Producers that have not imported the function name it, also while all groups restart; and it is masked."""
    (place.app / "accounts.py").write_text(CODE)
    keys = {"limit": Limit(("kwargs.account",), max_running=1), "secret": ("kwargs.password",)}
    tasks = {"sync": keys, "wrapped": keys, "send": {"secret": ("kwargs.password",)}}
    tasks = {name: {"run": f"accounts.{name}", **each} for name, each in tasks.items()}
    tasks["turn"] = {"run": "accounts.sync", "queue": "fair"}
    fair = {name: model.Queue(name, fair_by=by) for name, by in [("default", ()), ("fair", ("kwargs.day",))]}
    program = place.start(tasks=tasks, queues=[*fair], change=lambda config: dataclasses.replace(config, queues=fair))
    client, snapshot = Client(place.settings.url, namespace=place.settings.namespace), read_snapshot(program.file)

    def known():
        return place.run(place.broker.catalogue())

    def publish():
        place.run(publishing.catalogue(place.broker, snapshot, "daemon"))
        return known().positional

    names = {"sync": ",account,password,deep", "send": ",password", "turn": "day,account,password,deep"}
    assert until(publish) == names
    program.end()
    assert until(lambda: not known().serving)
    assert publish() == known().positional == names
    jobs = [client.enqueue(name, *args) for name, *args in [("sync", 1, "acme", "hunter22"), ("send", "a", "hunter22")]]
    assert [json.loads(place.job(job.id).args) for job in jobs] == [
        [[1], {"account": "acme", "password": "hunter22"}],
        [["a"], {"password": "hunter22"}],
    ]
    with pytest.raises(BadArguments, match=r"kwargs.account is missing; pass it by name"):
        client.enqueue("wrapped", 1, "acme", "hunter22")
    pushed = [place.enqueue(task, 1, "acme", "hunter22") for task in ("sync", "wrapped")]
    shown = [json.loads(masked_job(place.job(id_), known().secret()).args)[0] for id_ in pushed]
    assert shown == [[1, "acme", HIDDEN], [HIDDEN] * 3]
