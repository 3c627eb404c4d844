"""`fusiond unique`, and what other commands say of unique jobs."""

import pytest

from fusiond.broker.records import NewJob

LOCK = 'send:"ada"'


@pytest.fixture
def enqueue(desk):
    def enqueue(id_):
        job = NewJob(id_, "send", b'[["ada"],{}]', unique='ended,skip,0,"ada"')
        assert desk.run(desk.verbs.enqueue("default", [job])) == ["stored"]
        return f"default/{id_}"

    return enqueue


def test_a_lock_is_seen_and_lifted(desk, enqueue):
    """By `unique list` and `job show`; lifted, another job may be enqueued, and has the lock then."""
    name = enqueue("one")
    [line] = desk.fusiond("unique", "list").out.splitlines()[1:]
    assert line.split() == ["default", LOCK, name]
    assert f"{LOCK}, until it has ended; it holds the lock" in desk.fusiond("job", "show", name).out
    done = desk.fusiond("unique", "release", name)
    assert (done.out, done.status) == (f"{name}: 1 lock freed\n", 0)
    assert "nobody holds the lock" in desk.fusiond("job", "show", name).out
    enqueue("two")
    assert "job two holds the lock" in desk.fusiond("job", "show", name).out
    assert desk.fusiond("job", "show", name, "--json").json[0]["lock_holder"] == "two"
    done = desk.fusiond("unique", "release", "one")
    assert (done.out, done.status) == ("one: holds no lock\n", 1)
    listed = desk.fusiond("unique", "list", "--queue", "default", "--json").json
    assert listed == [{"queue": "default", "name": LOCK, "id": "two", "expires_ms": None}]
