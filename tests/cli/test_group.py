"""`fusiond drain`: what it says is left to do."""

from itertools import chain, repeat

from fusiond.cli import group
from tests.support.status_documents import program_status, status_document


class Daemon:
    """Its answers to `status`: the last one again and again. Each is what the one worker group says."""

    def __init__(self, *said):
        self._said = chain(said, repeat(said[-1]))

    def status(self, _timeout):
        busy, waits = next(self._said)
        drained = {"by": "somebody", "since": 7.0}
        return status_document(program_status(busy=busy, waits_for_redis=waits), drained=drained)


def left(*said):
    return str(group._wait(Daemon(*said), None))


def test_what_lasts_is_told(monkeypatch):
    """Redis does not answer, or the group does not."""
    monkeypatch.setattr(group, "_PATIENCE", 0.1)
    assert left((0, True)).startswith("no job runs, but Redis has not answered worker:main@1 yet")
    assert left((None, False)) == "a group has not said yet how many jobs it runs"
