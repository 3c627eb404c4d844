"""
Seeded bugs: what the code would be without one of its rules. Each must be found by the verdict.

A harness that cannot fail proves nothing. The producer does not run the copy, so that no bug of enqueue is among these.
"""

from tests.chaos.package import Edit
from tests.chaos.plant import REDIS

_CLAIM, _SETTLE = "broker/lua/claim.lua", "broker/lua/settle.lua"

#: bugs that hide where anything else may explain a second run: the one kind of process that is killed for them, rarely
QUIET = {"outcomes that Redis' absence drops": REDIS}
BUGS = {
    "no renewal": [Edit("worker/leases.py", "await self.renew_once()", "pass")],
    "no fence": [Edit(_SETTLE, "if h[1] ~= token then", "if not h[1] then")],
    "rescue of the living": [
        Edit(_CLAIM, "if expiry and expiry <= now then", "if expiry then"),
        Edit(_CLAIM, "STARTED, '-inf', now, 'LIMIT'", "STARTED, '-inf', '+inf', 'LIMIT'"),
    ],
    "no rescue": [Edit(_CLAIM, "if expiry and expiry <= now then", "if false then")],
    "a rescue that drops": [Edit(_CLAIM, "ready[#ready + 1], ready[#ready + 2] = h[1], id\n", "\n")],
    "a retry that drops": [
        Edit(_SETTLE, "later_on[#later_on + 1], later_on[#later_on + 2] = now + delay, id\nend", "end")
    ],
    "a lease that a settle leaves": [Edit(_SETTLE, "many('ZREM', STARTED, gone)", "")],
    "settled before it runs": [
        Edit(
            "worker/dispatcher.py",
            "        elif self._knows(attempt):\n            self._pending.append(attempt)\n",
            "        elif self._knows(attempt):\n            self._pending.append(attempt)\n"
            '            self._settle(attempt, Outcome(attempt.id, attempt.token, "finished", 3600000, 0, b"null"))\n',
        )
    ],
    "a crash that is a success": [
        Edit(
            "worker/outcomes.py",
            "    wait = retry.after_crash(",
            '    return Outcome(attempt.id, attempt.token, "finished", ms(task.result_ttl), 0, b"null")\n'
            "    wait = retry.after_crash(",
        )
    ],
    "outcomes that Redis' absence drops": [
        Edit("worker/dispatcher.py", "request = self._unanswered or self._request()", "request = self._request()")
    ],
    "a job that was taken back and begins": [
        Edit("worker/wire.py", "return now_ns < words[_FIRST + serial % RING]", "return True")
    ],
    "a job that is handed out twice": [
        Edit(
            "worker/dispatcher.py",
            "        elif self._knows(attempt):\n            self._pending.append(attempt)\n",
            "        elif self._knows(attempt):\n            self._pending.extend([attempt] * 2)\n",
        )
    ],
    "no file behind Redis": [Edit("broker/embedded.py", '"--appendonly", "yes"', '"--appendonly", "no"')],
    "a daemon whose programs outlive it": [
        Edit("worker/group.py", 'log.error("the supervisor is gone; stopping at once")', "return")
    ],
}
