"""`fusiond flow` and the handles of clients, over a catalogue that has a flow; the test ends the jobs."""

import asyncio
import dataclasses
import re

import pytest

from fusiond import AsyncClient, BadArguments, BrokerUnfit, Client, JobNotFound, UnknownTask
from fusiond.flows.run_control import deliver_effects
from fusiond.flows.shapes import FlowShape, Shape, StepShape
from tests.support.fusiond_desk import QUEUES, TASKS

STEPS = {
    "one": StepShape(task="send", queue="default", inputs={"day": "input.day"}),
    "two": StepShape(task="report", queue="reports", after=("one",), need=1, inputs={"x": "one"}),
}


@pytest.fixture
def flows(desk):
    """The desk, whose daemon has published a flow."""
    shape = dataclasses.asdict(Shape("etl", {"etl": FlowShape(STEPS, "reports")}))
    desk.run(desk.verbs.publish_catalogue("test", "h2", TASKS, priorities={}, queues=QUEUES, flows={"etl": shape}))
    return desk


def end(desk, queue, how="finished", **payload):
    desk.settle(how, queue, **payload)
    desk.run(deliver_effects(desk.verbs, queue))


def test_a_run_is_started_shown_and_steered(flows):
    """Each command says how the run stands then; what cannot be done is status 1."""
    flows.run(flows.verbs.keep_events("reports", "1000 0"))
    run = flows.fusiond("flow", "run", "etl", "day=monday").out.strip()
    id_ = run.partition("/")[2]
    assert flows.fusiond("flow", "suspend", run).out == f"{run}: suspended\n"
    end(flows, "default", "failed", code="EXCEPTION", message="no stock")
    assert f"flow run      {run}, step one" in flows.fusiond("job", "show", f"default/{id_}.one").out
    shown = flows.fusiond("flow", "show", id_).out
    assert 'inputs   {"day": "monday"}' in shown
    assert "failed   one: EXCEPTION: no stock" in shown
    assert re.search(r"✗ one     failed      [\d:]{8} +[\d:]{8} +\d+ms  send  EXCEPTION: no stock", shown)
    assert re.search("└─ – two  skipped +report  one did not finish", shown)
    named = flows.fusiond("flow", "show", "etl")
    assert (named.out, "the last run of flow 'etl'" in named.err) == (shown, True)
    [item] = flows.fusiond("flow", "show", id_, "--step", "one", "--json").json
    assert (item["name"], item["status"], item["why"]) == (f"default/{id_}.one", "failed", "EXCEPTION: no stock")
    assert flows.fusiond("flow", "cancel", run).status == 1
    assert flows.fusiond("flow", "requeue", id_).out == f"{run}: running\n"
    assert flows.fusiond("flow", "resume", run).status == 0
    end(flows, "default", result=[])
    assert flows.fusiond("flow", "cancel", run).out == f"{run}: canceled\n"
    [line] = flows.fusiond("flow", "list").out.splitlines()[1:]
    assert line.split()[:4] == [run, "etl", "canceled", "2/2"]
    document = flows.fusiond("flow", "show", run, "--json").json
    assert (document["status"], document["steps"]["two"]["canceled"]) == ("canceled", 1)
    told = [event.document() for event in flows.run(flows.verbs.events_behind("reports", 0, 999)).events]
    asked = [each["event"] for each in told if each.get("about") == id_ and "asked_by" in each]
    assert asked == ["flow.suspended", "flow.requeued", "flow.cancel.asked"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("run", "etl"), 1, "needs the input 'day'"),
        (("run", "etl", "day=1", "dya=2"), 1, "has no input 'dya'"),
        (("run", "elt", "day=1"), 1, "did you mean 'etl'?"),
        (("run", "etl", "monday"), 2, "write NAME=monday"),
        (("show", "none"), 1, "none: no such flow run; it may have been dropped after its ttl; fusiond flow list"),
        (("requeue", "reports/none"), 1, "ttl; fusiond flow list shows"),
    ],
)
def test_what_is_wrong_is_said(flows, words, status, said):
    """A missing or unknown input, an unknown flow or run."""
    done = flows.fusiond("flow", *words)
    assert (done.status, said in done.err) == (status, True), done.err


def test_both_clients_follow_a_run(flows):
    """The same handle, for threads and for asyncio."""
    url = flows.settings.url
    with Client(url) as client:
        run = client.run_flow("etl", day="monday")
        assert (run.status(), run.steps()) == ("running", {"one": "running", "two": "waiting"})
        end(flows, "default", result=1)
        end(flows, "reports", result={"a": []})
        assert client.flow_run(run.name).result(timeout=60) == {"two": {"a": []}}
        with pytest.raises(BadArguments):
            client.run_flow("etl")
        with pytest.raises(UnknownTask):
            client.run_flow("none")
    with Client(url, durability="fsync") as careful, pytest.raises(BrokerUnfit, match="append-only"):
        careful.run_flow("etl", day="monday")

    async def follow():
        async with AsyncClient(url) as client:
            run = await client.run_flow("etl", day="tuesday")
            assert await run.cancel()
            steps = await client.flow_run(run.name).steps()
            with pytest.raises(JobNotFound):
                await client.flow_run("reports/none").result(timeout=60)
            return await run.status(), steps

    assert asyncio.run(follow()) == ("canceled", {"one": "canceled", "two": "canceled"})
