"""A daemon with a sink: what happens is in its file, over a kill of the sink and a reload that takes it away."""

import json
from pathlib import Path

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.redis.connection import connect
from fusiond.broker.verbs import Verbs
from fusiond.config.model import Broker
from tests.support.running import until


def test_events_reach_a_file_over_a_kill_and_a_reload(daemon):
    """Each event once by its id, also what happened while the sink was dead; the daemon tells of its reloads."""
    path = daemon.directory / "events.jsonl"
    sink = f"events: {{sinks: {{audit: {{kind: file, path: {path}}}}}}}\n"
    daemon.start(daemon.body("main: {queues: ['*']}", more=sink))

    def told():
        """Job → its events."""
        # Whole lines alone: the last may be in the writing.
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        found = {}
        for said in {line["id"]: line for line in map(json.loads, lines)}.values():
            found.setdefault(said.get("job_id"), []).append(said["event"])
        return found

    with daemon.client() as client:
        first = client.enqueue("note", 1, log=str(daemon.runs))
        until(lambda: told().get(first.id) == ["enqueued", "claimed", "finished"], told)
        daemon.kill(daemon.pid("sink:audit"))
        second = client.enqueue("note", 2, log=str(daemon.runs))
        until(lambda: told().get(second.id) == ["enqueued", "claimed", "finished"], told)
    assert told()[first.id] == ["enqueued", "claimed", "finished"]
    daemon.reload(daemon.body("main: {queues: ['*']}", more="events: {}\n"))
    until(lambda: "sink:audit" not in daemon.names(), daemon.names)
    daemon.reload("no: file\n")

    def of_reloads():
        verbs = Verbs()
        with connect(Broker(url=daemon.url), Path("/")) as connection:
            events = connection.run(verbs.events_behind(DAEMONS, 0, 99)).events
        return [event.name for event in events if event.document().get("asked_by")]

    until(lambda: {"reload.applied", "reload.refused"} <= {*of_reloads()}, of_reloads)
