"""The judging half of `python -m benchmarks.reliability`; the runners themselves are installed by the command alone."""

import subprocess
import sys

from benchmarks.reliability.tally import tally
from benchmarks.reliability.victims import victims
from tests.support.running import until


def test_each_fate_of_a_job_is_counted_apart():
    """Lost before its run, lost within it, run to its end twice; a run that nobody acknowledged counts for nothing."""
    whole, begun = "{0} began\n{0} ended\n", "{0} began\n"
    runs = [whole.format(number) for number in (0, 1, 4, 4, 5)] + [begun.format(number) for number in (2, 5, 9)]
    found = tally("1\n2\n3\n4\n5\n", "".join(runs), 7, 1, {"waiting": 0, "failed": 2})
    assert (found.acknowledged, found.never_run, found.never_ended) == (5, 1, 1)
    assert (found.ended_again, found.begun_again, found.lost) == (1, 2, 2)
    assert found.left == {"failed": 2}


def test_a_kill_finds_the_processes_of_its_kind():
    """Children are those farthest from the root; a root without any has none."""
    nested = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", nested], stdin=subprocess.PIPE) as root:
        children = until(lambda: victims([root.pid], "child"))
        assert victims([root.pid], "root") == [root.pid]
        assert victims([root.pid], "any") == [root.pid, *children]
        assert victims(children, "child") == []
        root.stdin.close()
    assert victims([root.pid], "any") == []
