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

#: a wake-up that was missed is made up for by no poll
SELDOM_POLLS = Edit("worker/dispatcher/loop.py", "POLL = 5.0", "POLL = 3600.0")
#: what comes sooner than in two minutes has waited neither for a renewal nor for the end of a lease
SELDOM_RENEWALS = Edit("worker/dispatcher/leases.py", "MARGIN = 15.0, 5.0, 2.0", "MARGIN = 300.0, 120.0, 2.0")

_LOG = "redis.call('XADD', ROOT .. ':log', '*', 'verb', "
#: seconds become tenths, minutes seconds: a lease, and the pauses of what limits crash loops, which would leave nothing
#: there to kill
SHORTER = (
    Edit("worker/dispatcher/leases.py", "MARGIN = 15.0, 5.0, 2.0", f"MARGIN = {LEASE}, {RENEW}, {MARGIN}"),
    Edit("supervise/supervisord/process.py", "LONGEST_DELAY = 0.5, 30.0", "LONGEST_DELAY = 0.05, 0.4"),
    Edit("worker/pool/children.py", "SLOWEST = 30.0", "SLOWEST = 0.4"),
    # A job longer than a lease loses more of them to a kill every 0.1 s than in a life, and fails then as promised.
    Edit("worker/dispatcher/exchange.py", "MAX_RESCUES = 25", "MAX_RESCUES = 1000"),
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
_RESCUE = "broker/lua/shared/rescue.lua"
#: every step of a job, and each decision on a tick, in the order of Redis, in ns:{q}:log
LOGGED = (
    _behind(
        _CLAIM,
        "  redis.call('HSET', key, 'score', score, 'started_at', NOW, 'attempts', attempts, 'token', nonce)\n",
        "'claim', 'id', id, 'token', nonce, 'attempt', attempts, 'by', dispatcher",
    ),
    _before(_RESCUE, "  if h[4] then\n", "'rescue', 'id', id"),
    _behind(_RESCUE, "  redis.call('ZADD', ROOT .. ':' .. status, keep_until(ttl), id)\n", "status, 'id', id"),
    _behind(_SETTLE, "local function finish(key, id, token, ttl, result, why)\n", f"'finished', {_BY_TOKEN}"),
    _behind(_SETTLE, "local function stop(key, id, token, status, ttl, err, why, crashes)\n", f"status, {_BY_TOKEN}"),
    _behind(_SETTLE, "local function again(key, id, token, delay, err, why, crashes)\n", f"'retry', {_BY_TOKEN}"),
    _behind(
        _SETTLE,
        "local function release(key, id, token, delay, why, attempts, score)\n",
        f"'released', {_BY_TOKEN}",
    ),
    _before("broker/lua/cancel.lua", "trim('canceled', 10)\n", "'canceled', 'id', id"),
    _behind(
        "broker/lua/requeue.lua",
        "  redis.call('HSET', JOB .. id, 'last_outcome', 'requeued', 'queued_at', now)\n",
        "'requeue', 'id', id",
    ),
    _before(
        "broker/lua/tick.lua",
        "  store(id, task, args, (255 - ARGV[4]) * BAND + seq + place, due, fields)\n",
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
