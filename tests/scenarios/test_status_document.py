"""What a daemon says of itself, against the types of `status_document.py`."""

import pytest

from tests.support.fusiond_command import fusiond
from tests.support.running import until
from tests.support.status_documents import misfits, program_status, refused_reload, status_document


def test_a_status_with_all_its_parts_is_as_its_types_say(daemon):
    """A group with a range and a release that has died, a drained host, a refused reload, an embedded server."""
    release = daemon.directory / "release"
    release.mkdir()
    body = daemon.body(f"main: {{processes: {{min: 1, max: 2}}, reload_on: [{release}]}}")
    daemon.start(body)
    assert fusiond("drain", "-c", daemon.file, cwd="/").status == 0
    assert daemon.reload(body + "nonsense: 1\n")["result"] == "refused"
    daemon.kill(daemon.pid("worker:main@1"))
    until(lambda: daemon.programs()["worker:main@1"]["last_exit"], daemon.text)
    until(lambda: daemon.programs()["worker:main@1"]["scaled"], daemon.text)
    found = fusiond("status", "--json", "-c", daemon.file, cwd="/").json["daemon"]
    assert misfits(found) == []
    program = next(each for each in found["programs"] if each["name"] == "worker:main@1")
    assert [*program["release"]] == [str(release)]
    assert found["reload"]["problems"]
    assert found["drained"]["since"] < found["reload"]["ended_at"]
    assert (found["server"] is None) == bool(daemon.broker_url)
    assert program["last_exit"] == -9


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ready": 1}, "status.ready is 1"),
        ({"is_ready": True}, "status has is_ready, which its type has not"),
        ({"pid": None}, "status.pid is None"),
        ({"reloads": {"applied": "2"}}, "status.reloads.applied is '2'"),
        ({"reloads": {"done": 2}}, "a key of status.reloads is 'done'"),
        ({"reload": refused_reload(result="done")}, "status.reload.result is 'done'"),
        ({"programs": [{}]}, "status.programs[0] has no ready"),
        ({"programs": [program_status(scaled={"processes": 1})]}, "status.programs[0].scaled has no range"),
    ],
)
def test_what_is_not_as_the_types_say_is_found(changes, why):
    """Also far inside: every status that a test asks a daemon for is looked at so."""
    assert why in misfits(status_document() | changes)


def test_a_field_that_is_missing_is_found():
    document = status_document()
    del document["drained"]
    assert misfits(document) == ["status has no drained"]
