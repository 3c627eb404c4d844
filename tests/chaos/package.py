"""
The code under test: a copy of the package, in which a few places of text are replaced.

Programs are started as `python -P -m fusiond…`; with the copy's directory as PYTHONPATH they run it, all of them.
A place must be there exactly once, so that an edit that no longer fits fails here and not in silence.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import fusiond
from fusiond.broker import script

PACKAGE = Path(fusiond.__file__).parent


class Edit(NamedTuple):
    """One replacement in a file of the package."""

    file: str
    right: str
    wrong: str


#: s; of the copy
LEASE, RENEW, MARGIN = 3.0, 1.0, 0.5

#: a wake-up that was missed is made up for by no poll; nor does a poll renew what says that a dispatcher waits for one
SELDOM_POLLS = (
    Edit("worker/dispatcher/claims/claim_planner.py", "POLL = 5.0", "POLL = 3600.0"),
    Edit("broker/lua/shared/wake.lua", "WAITS = 15000", "WAITS = 3600000"),
    Edit("broker/lua/shared/claim_on_enqueue.lua", "COUNTS, KEPT = 6000,", "COUNTS, KEPT = 3600000,"),
)
#: what comes sooner than in two minutes has waited neither for a renewal nor for the end of a lease
SELDOM_RENEWALS = Edit("worker/dispatcher/claims/leases.py", "MARGIN = 15.0, 5.0, 2.0", "MARGIN = 300.0, 120.0, 2.0")

#: a dispatcher's jobs are soon another's when it is gone
SHORT_LEASES = Edit(
    "worker/dispatcher/claims/leases.py", "MARGIN = 15.0, 5.0, 2.0", f"MARGIN = {LEASE}, {RENEW}, {MARGIN}"
)

_LOG = "redis.call('XADD', ROOT .. ':log', '*', 'verb', "
#: seconds become tenths, minutes seconds: a lease, and the pauses of what limits crash loops, which would leave nothing
#: there to kill
SHORTER = (
    SHORT_LEASES,
    Edit("worker/dispatcher/claims/leases.py", "FIRST_TRUST = 6.0, 5.0", f"FIRST_TRUST = {LEASE}, {LEASE - MARGIN}"),
    Edit("broker/lua/shared/claim_on_enqueue.lua", "LARGEST_GIVEN = 6000,", f"LARGEST_GIVEN = {LEASE * 1000:.0f},"),
    Edit("supervise/supervisord/process.py", "LONGEST_DELAY = 0.5, 30.0", "LONGEST_DELAY = 0.05, 0.4"),
    Edit("worker/pool/children.py", "SLOWEST = 30.0", "SLOWEST = 0.4"),
    # A job longer than a lease loses more of them to a kill every 0.1 s than in a life, and fails then as promised.
    Edit("worker/dispatcher/claims/lane.py", "MAX_RESCUES = 25", "MAX_RESCUES = 1000"),
    # The second lane has work where a queue has more than is asked for, and not only at thousands of jobs a second.
    Edit("worker/dispatcher/claims/lanes.py", "_WORTH, _WAIT = 128, 0.02", "_WORTH, _WAIT = 1, 0.0"),
)


def _before(file, line, words):
    """Log these words before the line, which tells where."""
    indent = " " * (len(line) - len(line.lstrip()))
    return Edit(file, line, f"{indent}{_LOG}{words})\n{line}")


def _behind(file, line, words):
    """The same, behind it."""
    indent = " " * (len(line) - len(line.lstrip()))
    return Edit(file, line, f"{line}{indent}{_LOG}{words})\n")


_CLAIM, _SETTLE, _BY_TOKEN = "broker/lua/claim.lua", "broker/lua/settle.lua", "'id', id, 'token', token"
_GIVE = "broker/lua/shared/claim_on_enqueue.lua"
_RESCUE, _BY_HELD = "broker/lua/shared/rescue.lua", "'id', id, 'token', h.token"
_CLAIMED = "'claim', 'id', id, 'token', nonce, 'by', dispatcher"
#: every step of a job, and each decision on a tick, in the order of Redis, in ns:{q}:log
LOGGED = (
    _before(_CLAIM, "  add(begun, JOB .. id, first.held .. score .. text:sub(at))\n", f"{_CLAIMED}, 'attempt', 1"),
    _before(_CLAIM, "  save_job(id, h)\n  add_decoded(id, h)\n", f"{_CLAIMED}, 'attempt', h.attempts"),
    _before(_RESCUE, "  if h.cancel then\n", "'rescue', 'id', id, 'cancel', h.cancel and 1 or 0"),
    Edit(
        _CLAIM,
        "  redis.call('SET', WAKE, can_reserve",
        "  redis.call('HSET', ROOT .. ':log:left', reservation, dispatcher)\n  redis.call('SET', WAKE, can_reserve",
    ),
    _behind(
        _GIVE,
        "  redis.call('ZADD', STARTED, now + FIRST_LEASE, id)\n",
        "'claim', 'id', id, 'token', token, 'attempt', 1, 'by', redis.call('HGET', ROOT .. ':log:left', token)",
    ),
    _behind(_RESCUE, "  register_ended(id, status, ttl, h)\n", "status, 'id', id"),
    _behind(
        _SETTLE,
        "local function finish(id, text, token, ttl, result, why, event_words, ran_with)\n",
        f"'finished', {_BY_TOKEN}",
    ),
    _behind(_SETTLE, "local function stop(id, h, status, ttl, err, why)\n", f"status, {_BY_HELD}"),
    _behind(_SETTLE, "local function retry(id, h, delay, err, why)\n", f"'retry', {_BY_HELD}"),
    _behind(_SETTLE, "local function release(id, h, delay, why, err)\n", f"'released', {_BY_HELD}"),
    _before("broker/lua/cancel.lua", "write_endings()\n", "'canceled', 'id', id"),
    _behind(
        "broker/lua/requeue.lua",
        "  if not h then return 0 end\n",
        "'requeue', 'id', id",
    ),
    _before(
        "broker/lua/tick.lua",
        "  if decision then\n    locker.store(",
        "'tick', 'id', id, 'token', 'enqueued', 'attempt', ARGV[at], 'by', '.' .. entry",
    ),
)


def copy(to: Path, edits: tuple[Edit, ...]) -> Path:
    """Make the copy under `to`; returns what PYTHONPATH must be."""
    shutil.copytree(PACKAGE, to / "fusiond")
    if (PACKAGE.parent / "schemas").exists():
        shutil.copytree(PACKAGE.parent / "schemas", to / "schemas")
    for edit in edits:
        path = to / "fusiond" / edit.file
        text = path.read_text()
        assert text.count(edit.right) == 1, f"{edit.file}: {text.count(edit.right)} times {edit.right!r}"
        path.write_text(text.replace(edit.right, edit.wrong))
    return to


@contextlib.contextmanager
def scripts_of(code: Path) -> Iterator[None]:
    """Have this process, producer and operator, speak the copy's Lua: its log, and its bugs."""
    lua = script._LUA
    script._LUA = code / "fusiond" / "broker" / "lua"
    script.script.cache_clear()
    try:
        yield
    finally:
        script._LUA = lua
        script.script.cache_clear()
