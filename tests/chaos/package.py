"""
The code under test: a copy of the package, in which a few places of text are replaced.

Programs are started as `python -P -m fusiond…`; with the copy's directory as PYTHONPATH they run it, all of them.
A place must be there exactly once, so that an edit that no longer fits fails here and not in silence.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import fusiond

_PACKAGE = Path(fusiond.__file__).parent


class Edit(NamedTuple):
    """One replacement in a file of the package."""

    file: str
    right: str
    wrong: str


#: s; of the copy
LEASE, RENEW, MARGIN = 3.0, 1.0, 0.5

_LOG = "redis.call('XADD', ROOT .. ':log', '*', "
#: minutes become seconds: a lease, and the pauses of the crash-loop limiter, which would leave nothing there to kill
SHORTER = (
    Edit("worker/leases.py", "MARGIN = 15.0, 5.0, 2.0", f"MARGIN = {LEASE}, {RENEW}, {MARGIN}"),
    Edit("supervise/process.py", "LONGEST_DELAY = 0.5, 30.0", "LONGEST_DELAY = 0.05, 0.4"),
)
#: every step of a job in the order of Redis, in ns:{q}:log
LOGGED = (
    Edit(
        "broker/lua/claim.lua",
        "'attempts', attempts, 'token', nonce)\n",
        "'attempts', attempts, 'token', nonce)\n"
        f"  {_LOG}'verb', 'claim', 'id', id, 'token', nonce, 'attempt', attempts, 'by', dispatcher)\n",
    ),
    Edit(
        "broker/lua/claim.lua",
        "'last_outcome', 'rescued', 'queued_at', now)\n",
        f"'last_outcome', 'rescued', 'queued_at', now)\n    {_LOG}'verb', 'rescue', 'id', id)\n",
    ),
    Edit(
        "broker/lua/claim.lua",
        "  redis.call('ZADD', ROOT .. ':' .. status, keep_until(ttl), id)\n",
        "  redis.call('ZADD', ROOT .. ':' .. status, keep_until(ttl), id)\n"
        f"  {_LOG}'verb', status, 'id', id, 'token', '')\n",
    ),
    Edit(
        "broker/lua/settle.lua",
        "    replies[#replies + 1] = 1\n",
        f"    replies[#replies + 1] = 1\n    {_LOG}'verb', kind, 'id', id, 'token', token)\n",
    ),
)


def copy(to: Path, edits: tuple[Edit, ...]) -> Path:
    """Make the copy under `to`; returns what PYTHONPATH must be."""
    shutil.copytree(_PACKAGE, to / "fusiond", ignore=shutil.ignore_patterns("__pycache__"))
    if (_PACKAGE.parent / "schemas").exists():
        shutil.copytree(_PACKAGE.parent / "schemas", to / "schemas")
    for edit in edits:
        path = to / "fusiond" / edit.file
        text = path.read_text()
        assert text.count(edit.right) == 1, f"{edit.file}: {text.count(edit.right)} times {edit.right!r}"
        path.write_text(text.replace(edit.right, edit.wrong))
    return to
