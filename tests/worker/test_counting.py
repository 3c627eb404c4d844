"""A group's program has Redis count what becomes of its jobs, once its file says so."""

from dataclasses import replace


def test_what_becomes_of_jobs_is_counted_once_the_file_says_so(place):
    """It takes the key in place, and counts by the tasks of its file, with the times that their jobs took."""
    program = place.start(processes=1, link=True)
    place.result(place.enqueue("echo", 1))
    program.apply_config(replace(place.config(processes=1), metrics=True))
    place.result(place.enqueue("echo", 2))
    place.error(place.enqueue("wrong"))

    reading = place.broker.counters(["default"])
    found = reading.read([place.run(call) for call in reading.calls])["default"].totals
    assert (found["echo"].finished, found["echo"].ended) == (1, 1)
    assert (found["wrong"].failed, found["wrong"].ended) == (1, 1)
    for tally in found.values():
        assert tally.run.count == tally.wait.count == 1
        assert 0 < tally.run.seconds < 60
