"""A group whose `processes` is a range: all of its children together are never more than `max`."""

from fusiond.config.model.worker_groups import Scaling
from tests.support.running import alive, until


def of(least, most):
    """The keys of a group with this range."""
    return {"processes": most, "scaling": Scaling(least, most)}


def test_children_that_stand_ready_are_not_beyond_the_most(place):
    """With `isolation: fork` others stand ready; while all that there may be run, none does."""
    program = place.start(isolation="fork", **of(2, 2))
    path = place.path()
    place.enqueue_many([("work", path, 60, "a"), ("work", path, 60, "b")])
    place.until_lines(path, 2)
    assert len(program.children()) == 2


def test_one_child_is_on_trial(place):
    """Before it may claim, a group that follows its load has one child, also with `isolation: fork`."""
    program = place.start(held=True, link=True, isolation="fork", **of(3, 4))
    program.heard("ready")
    assert len(program.children()) == 1
    program.tell(do="go")
    program.until_children(4)


def test_a_child_that_is_too_many_counts_until_it_has_ended(place):
    """If the group grows again before, another child begins once that one has ended."""
    keys = {"link": True, "executor": "thread", "concurrency": 2}
    program = place.start(**keys, **of(2, 2))
    path = place.path()
    ids = [place.enqueue("meet", path, 3)]
    place.until_lines(path)
    ids.append(place.enqueue("meet", path, 3))
    pids = {int(line) for line in place.until_lines(path, 2)}
    assert len(pids) == 2
    keys.pop("link")
    program.apply(**keys, **of(1, 1))
    program.apply(**keys, **of(2, 2))
    assert place.result(place.enqueue("pid")) in pids
    assert set(program.children()) == pids
    place.enqueue("meet", path, 3)
    assert [place.result(id_) for id_ in ids] == [3, 3]
    until(lambda: sum(map(alive, pids)) == 1, program.text)
    program.until_children(2)


def test_a_child_that_has_had_its_jobs_counts_until_it_has_ended(place):
    """At the most, its successor begins once it has ended."""
    program = place.start(executor="thread", concurrency=2, max_jobs=2, **of(1, 1))
    path = place.path()
    slow = place.enqueue("meet", path, 2)
    first = int(place.until_lines(path)[0])
    assert place.result(place.enqueue("pid")) == first
    until(lambda: place.enqueue("pid") and place.run(place.broker.counts("default")).queued, program.text)
    assert program.children() == [first]
    (place.app / path).write_text(f"{first}\nsecond\n")
    assert place.result(slow) == 2
    until(lambda: not place.run(place.broker.counts("default")).queued, program.text)
    assert first not in program.children()
