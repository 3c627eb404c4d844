"""A slice of `python -m tests.chaos.moving`: cron entries while their task moves between queues, files and hosts."""

from tests.chaos import moving


def test_each_tick_has_one_run_wherever_the_task_moves():
    """I12: over two daemons whose files differ, with reloads, a scheduler that is killed and one that is stopped."""
    assert moving.violations() == []


def test_ticks_that_are_missing_or_come_twice_are_seen():
    """The judge can fail."""
    second = 1000
    runs = {f"cron:{name}:{tick}": [object()] for name in ("moving", "resting") for tick in (second, 3 * second)}
    runs["cron:moving:1000"] = [object()] * 2
    found = moving.judge(runs, suspended=2 * second)
    assert [sentence.partition(" ")[2].partition(" between")[0] for sentence in found] == [
        "job cron:moving:1000 ran 2 times",
        "no tick of entry moving had a run",
        "no tick of entry resting had a run",
        "entry resting ticked at 3000, suspended",
    ]
