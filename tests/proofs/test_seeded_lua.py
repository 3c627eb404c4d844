"""
The model test can fail: each bug of the protocol that is put into the Lua files is found by it.
"""

import shutil

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from fusiond.broker import script
from tests.proofs.test_queue_model import QueueMachine
from tests.support.queue_state import findings

BUGS = {
    "a settle without a fence": ("settle.lua", "text:sub(1, #mark) ~= mark then", "text:sub(1, 1) ~= 't' then"),
    "a settle that cannot be repeated": ("settle.lua", "and 4 or 2\n", "and 4 or 0\n"),
    "a release that burns an attempt": ("settle.lua", "math.max(count(h.attempts), 1) - 1", "count(h.attempts)"),
    "a release that loses its place": (
        "settle.lua",
        "return_to_ready(id, whole(finite(h.score) or 254 * BAND))",
        "return_to_ready(id, whole(now * 4000))",
    ),
    "a retry that forgets its crash": ("settle.lua", "if kind ~= 'snoozed' and extra == '1' then", "if false then"),
    "a retry of what was canceled": ("settle.lua", "elseif h.cancel then", "elseif false then"),
    "a settle that leaves the lease": ("shared/endings.lua", "call_in_batches('ZREM', STARTED, left_started)", ""),
    "a renewal of another's lease": (
        "shared/job.lua",
        "state:sub(1, #mark) == mark and",
        "state:sub(1, 1) == 't' and",
    ),
    "a rescue that knows no permit": ("shared/rescue.lua", "h.permit and h.permit == h.token\n", "false\n"),
    "a renewal that says nothing of a cancel": ("renew.lua", "state:find(' a', 1, true) and 2 or 1", "1"),
    "a claim that cannot be repeated": ("claim.lua", "+ 1) == nonce .. ' '", "+ 1) == nonce .. '?'"),
    "a repeat that takes jobs": ("claim.lua", "if is_known or IS_REPEAT then", "if is_known then"),
    "a late claim that takes jobs": ("claim.lua", "redis.call('SET', LAST_CLAIM, before, 'PX', REPEATABLE)", ""),
    "a claim from a suspended queue": ("claim.lua", "while not suspended and", "while"),
    "a rescue that the history leaves out": (
        "shared/rescue.lua",
        "  codec.add_to_history(h, h.cancel and",
        "  local _ = h.cancel and codec.add_to_history(h, h.cancel and",
    ),
    "a rescue that drops the job": ("shared/rescue.lua", "return_to_ready(id, whole(score))\n", "\n"),
    "a job that is given under another token": (
        "shared/claim_on_enqueue.lua",
        "'t' .. escape(token)",
        "'t' .. escape(token .. 'x')",
    ),
    "a rescue without an end": ("shared/rescue.lua", "rescues > max_rescues", "false"),
    "a rescue that leaves the token": (
        "shared/rescue.lua",
        "h.token, h.rescues, h.last_outcome, h.queued_at = nil,",
        "h.token, h.rescues, h.last_outcome, h.queued_at = h.token,",
    ),
    "a due job that loses its priority": ("shared/score.lua", "score - score % BAND + seq", "254 * BAND + seq"),
    "an enqueue that overwrites": ("enqueue.lua", "local all_new = not any_exists(keys)", "local all_new = true"),
    "an enqueue that ignores the body": ("enqueue.lua", "there.args == args", "true"),
    "last in, first out": ("enqueue.lua", "+ seq + i", "- seq - i + BAND / 2"),
    "a cancel that leaves the job in the queue": ("cancel.lua", "redis.call('ZREM', QUEUE, id)", ""),
    "a requeue that keeps the attempts": ("requeue.lua", "queued_at = now,", "queued_at = now, attempts = h.attempts,"),
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
