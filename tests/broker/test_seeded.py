"""
The model test can fail: each bug of the protocol that is put into the Lua files is found by it.
"""

import shutil

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from fusiond.broker import script
from tests.broker.test_model import QueueMachine
from tests.support.queue_state import findings

BUGS = {
    "a settle without a fence": ("settle.lua", "if h[1] ~= token then", "if not h[1] then"),
    "a settle that cannot be repeated": ("settle.lua", "== token and 2 or 0", "== token and 0 or 0"),
    "a release that burns an attempt": ("settle.lua", "'attempts', attempts - 1", "'attempts', attempts"),
    "a release that loses its place": (
        "settle.lua",
        "add(ready, finite(score) or 254 * BAND, id)",
        "add(ready, now * 4000, id)",
    ),
    "a retry that forgets its crash": ("settle.lua", "crashed and count", "false and count"),
    "a retry of what was canceled": ("settle.lua", "elseif h[4] then", "elseif false then"),
    "a settle that leaves the lease": ("settle.lua", "many('ZREM', STARTED, gone)", ""),
    "a renewal of another's lease": ("renew.lua", "if h[1] == ARGV[i + 1] then", "if h[1] then"),
    "a rescue that knows no permit": ("shared/rescue.lua", "h[6] and h[6] == h[5] and", "false and"),
    "a renewal that says nothing of a cancel": ("renew.lua", "h[2] and 2 or 1", "1"),
    "a claim that cannot be repeated": ("claim.lua", "nonce .. ' ' then", "nonce .. '?' then"),
    "a claim from a suspended queue": ("claim.lua", "while not suspended and", "while"),
    "a rescue that drops the job": ("shared/rescue.lua", "add(ready, score, id)\n", "\n"),
    "a rescue without an end": ("shared/rescue.lua", "rescues > max_rescues", "false"),
    "a rescue that leaves the token": ("shared/rescue.lua", "'token', '', 'rescues', rescues", "'rescues', rescues"),
    "a due job that loses its priority": ("shared/score.lua", "score - score % BAND + seq", "254 * BAND + seq"),
    "an enqueue that overwrites": ("enqueue.lua", "redis.call('EXISTS', JOB .. id) == 1", "false"),
    "an enqueue that ignores the body": ("enqueue.lua", "there[2] == args", "true"),
    "last in, first out": ("enqueue.lua", "+ seq + i", "- seq - i + BAND / 2"),
    "a cancel that leaves the job in the queue": ("cancel.lua", "redis.call('ZREM', QUEUE, id)", ""),
    "a requeue that keeps the attempts": ("requeue.lua", "'attempts', 'crashes',", "'crashes',"),
    "an inbox that ignores the priority": ("shared/inbox.lua", "job.priority or tonumber(priority) or 1", "1"),
}


class Brisk(QueueMachine):
    """It is looked for damage at its end only, which leaves time for twice as many."""

    def fsck_is_clean(self):
        """No invariant here."""

    def teardown(self):
        assert self.run(findings(self.broker, "q")) == []
        super().teardown()


@pytest.mark.parametrize(("file", "right", "wrong"), BUGS.values(), ids=BUGS.keys())
def test_a_seeded_bug_is_found(redis_server, tmp_path, monkeypatch, file, right, wrong):
    """A protocol with this bug does not pass the model test."""
    lua = tmp_path / "lua"
    shutil.copytree(script._LUA, lua)
    text = (lua / file).read_text()
    assert text.count(right) == 1
    (lua / file).write_text(text.replace(right, wrong))
    monkeypatch.setattr(script, "_LUA", lua)
    script.script.cache_clear()
    try:
        with pytest.raises(Exception):  # noqa: B017 - a wrong reply, an invariant, or an error of Redis
            run_state_machine_as_test(
                lambda: Brisk(redis_server),
                settings=settings(
                    # It ends with the first that finds the bug: some tens, as a rule.
                    max_examples=2500,
                    stateful_step_count=40,
                    deadline=None,
                    database=None,
                    print_blob=False,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
    finally:
        script.script.cache_clear()
