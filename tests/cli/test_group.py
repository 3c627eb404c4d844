"""`fusiond drain`: what it says is left to do."""

from itertools import chain, repeat

from fusiond.cli import group


class Daemon:
    """Its answers to `status`: the last one again and again. Each is what the one worker group says."""

    def __init__(self, *said):
        self._said = chain(said, repeat(said[-1]))

    def ask(self, _verb, **_):
        busy, waits = next(self._said)
        program = {"name": "worker:main@1", "part": "worker:main", "pid": 1, "busy": busy, "waits_for_redis": waits}
        return {"drained": {}, "programs": [program]}


def left(*said):
    return str(group._wait(Daemon(*said), None))


def test_what_lasts_is_told(monkeypatch):
    """Redis does not answer, or the group does not."""
    monkeypatch.setattr(group, "_PATIENCE", 0.1)
    assert left((0, True)).startswith("no job runs, but Redis has not answered worker:main@1 yet")
    assert left((None, False)) == "a group has not said yet how many jobs it runs"
