"""`fusiond reload --code`: other code behind the same paths, by the transaction of a reload."""

import pytest

from tests.support.fusiond_command import fusiond
from tests.support.releases import body, release
from tests.support.running import PATIENCE, until


def reload_code(daemon, *groups):
    words = [word for group in groups for word in ("--code", group)] or ["--code"]
    return fusiond("reload", "-c", daemon.file, *words, cwd=daemon.directory)


@pytest.mark.parametrize("isolation", ["process", "fork"])
def test_a_release_is_switched_under_load(daemon, isolation):
    """Each job runs once; one that has begun ends on its own release, later imports included; the next run the new."""
    release(daemon, 41)
    daemon.start(body(daemon, f"main: {{processes: 3, isolation: {isolation}}}"))
    gate, began = daemon.directory / "gate", daemon.directory / "began"
    held = daemon.client().enqueue("late", str(gate), str(began))
    until(began.exists, daemon.text)
    daemon.enqueue_notes(150, seconds=0.01)
    release(daemon, 42)
    done = reload_code(daemon)
    assert (done.status, "1 group replaced (main, because code changed)" in done.out) == (0, True), done
    assert daemon.client().enqueue("version").result(timeout=PATIENCE) == 42
    assert daemon.client().enqueue("python").result(timeout=PATIENCE) == f"{daemon.app}/releases/42/bin/python"
    gate.touch()
    assert held.result(timeout=PATIENCE) == 41
    daemon.assert_each_ran_once()
    until(lambda: daemon.names() == {*daemon.always, "worker:main@2"}, daemon.names)


def test_the_named_groups_alone_are_replaced(daemon):
    """The others keep their pids; a group that is not there is named, with those that are."""
    release(daemon, 41)
    daemon.start(body(daemon, "main: {}\n  side: {}\n  other: {}"))
    before = daemon.programs()
    done = reload_code(daemon, "side", "other")
    assert (done.status, "2 replaced" in done.out) == (0, True), done
    assert daemon.pid("worker:main@1") == before["worker:main@1"]["pid"]
    until(lambda: {"worker:main@1", "worker:side@2", "worker:other@2"} == daemon.names() - daemon.always)
    done = reload_code(daemon, "sid")
    assert (done.status, "no group 'sid'; there are main, other, side" in done.out) == (1, True), done
