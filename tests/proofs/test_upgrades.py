"""An older and a newer version: on one Redis, in one state directory, and one in the place of the other."""

import contextlib
import shutil

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.keys import LAYOUT
from fusiond.client import Client
from fusiond.errors import BrokerUnfit
from tests.support.fusiond_command import fusiond_here
from tests.support.running import Running, until
from tests.upgrades.play import Host, in_place, side_by_side
from tests.upgrades.versions import NEWER, NEXT, copied


@pytest.mark.parametrize("story", [side_by_side, in_place])
def test_every_job_and_tick_is_accounted_for(story, tmp_path):
    """Under load, from the old version to the new one and back, by a shutdown and by kill -9."""
    versions = copied(tmp_path / "old", "old"), copied(tmp_path / "new", "new", NEWER)
    with contextlib.ExitStack() as stack:
        assert story(stack, *versions).judge() == []


def test_a_daemon_goes_on_when_its_files_are_replaced(tmp_path):
    """Each program starts again as it was, even when the files are gone; the file is read by no other version."""
    version, runs = copied(tmp_path / "code", "old"), tmp_path / "runs"
    host = Host()
    try:
        host.begin(version, runs)
        shutil.rmtree(tmp_path / "code")
        copied(tmp_path / "code", "new", NEWER)
        outcome = host.reload()
        assert outcome["result"] == "refused"
        assert f"the daemon runs fusiond 0.0.1, and {NEXT} was installed in its place; restart" in outcome["reason"]
        assert "0.0.1; this command is of" in fusiond_here("status", "-c", host.file, cwd=tmp_path).out
        shutil.rmtree(tmp_path / "code")
        for name in ("worker:main@1", "scheduler", "redis"):
            before = host.pid(name)
            host.kill(before)
            until(lambda name=name, before=before: host.pid(name) not in (before, None), host.text)
        until(lambda: host.status()["ready"], host.text)
        with Client(host.url) as client:
            client.enqueue("plain").result(timeout=60)
        assert host.reload()["result"] == "refused"
    finally:
        host.close()


#: those that do not read the catalogue
CALLS = (
    lambda client: client.counts(),
    lambda client: client.failed("default"),
    lambda client: client.job("default/a").status(),
    lambda client: client.job("default/a").progress(),
    lambda client: client.job("default/a").cancel(),
    lambda client: client.job("default/a").requeue(),
    lambda client: client.job("default/a").discard(),
    lambda client: client.flow_run("default/a").status(),
)


def test_a_newer_layout_is_refused_by_daemon_client_and_commands(redis_server, tmp_path):
    """With the remedy, before anything is written or shown."""
    sentence = (
        f"holds layout {LAYOUT + 1} under 'fusion', this fusiond knows {LAYOUT}; "
        "upgrade fusiond or use another namespace"
    )
    with redis_server.connect() as connection:
        connection.run(plain(as_is, "HSET", "fusion:meta", "layout", LAYOUT + 1))
        with Client(redis_server.url) as client, pytest.raises(BrokerUnfit, match=sentence):
            client.enqueue("echo")
        for call in CALLS:
            with Client(redis_server.url) as client, pytest.raises(BrokerUnfit, match=sentence):
                call(client)
        for words in (["enqueue", "echo"], ["queue", "list"], ["job", "list"], ["status"]):
            done = fusiond_here(*words, cwd=tmp_path, FUSION_URL=redis_server.url)
            assert sentence in done.err, words
            assert done.status
        daemon = Running()
        try:
            daemon.start(f"broker: {{url: '{redis_server.url}'}}\ntasks: {{echo: {{run: os.getcwd}}}}\n")
            assert sentence in daemon.programs()["scheduler"]["reason"]
            assert not daemon.status()["ready"]
        finally:
            daemon.close()
        assert connection.run(plain(as_is, "KEYS", "*")) == [b"fusion:meta"]
