"""Mistakes that are put into the relays' code, one at a time: the verdict must find each."""

from typing import NamedTuple

from tests.chaos.package import Edit


class Mistake(NamedTuple):
    """One of them."""

    #: in what it is, and what it does
    where: str
    what: str
    #: the name in STORIES
    story: str
    edits: tuple


_CARRIER, _HANDED, _END = "outbox/row_carrier.py", "broker/lua/shared/handed.lua", "broker/lua/end_handed.lua"
_HAND_OVER = "        handed = await self._ways.connection.run(self._hand_over.hand_over(queue, jobs, read_at))\n"
_DELETE_FIRST = "        await self._ways.in_table(self._table.delete, [job.id for job in jobs])\n"
_NEW_ROWS = "            return self._rows(connection, \"queue = ''\", {}, limit)\n"
_BEHIND = """\
            at = getattr(self, "_at", None)
            where = "queue = ''" + (" AND created_at > :at" if at else "")
            rows = self._rows(connection, where, {"at": at} if at else {}, limit)
            self._at = rows[-1].created_at if rows else at
            return rows
"""

MISTAKES = {
    "no marker": Mistake(
        "enqueue", "does not look whether a row was handed over", "relays killed",
        (Edit(_HANDED, "return redis.call('ZSCORE', HANDED, id) end", "return false end"),),
    ),
    "no deadline": Mistake(
        "enqueue", "stores the jobs of rows whenever they were read", "relays frozen for long",
        (Edit(_HANDED, "if now > deadline then return 'late' end\n", ""),),
    ),
    "a marker that is gone at once": Mistake(
        "enqueue", "keeps no marker once the row is deleted", "relays frozen",
        (Edit(_END, "whole(now + KEPT), ARGV[i] end", "whole(now), ARGV[i] end"),),
    ),
    "a row that is deleted first": Mistake(
        "relay", "deletes a row, then enqueues its job", "relays killed",
        (Edit(_CARRIER, _HAND_OVER, _DELETE_FIRST + _HAND_OVER),),
    ),
    "a row that waits for no disk": Mistake(
        "relay", "deletes a row before Redis has synced its job", "Redis cut back",
        (
            Edit(
                _CARRIER, "for queue, ids, kept in await self._confirm(group):",
                "for queue, ids, kept in [(queue, ids, ids) for queue, ids in group]:",
            ),
        ),
    ),
    "a position in the table": Mistake(
        "relay", "reads behind the newest row that it has read", "late commits",
        (Edit("outbox/table.py", _NEW_ROWS, _BEHIND),),
    ),
}  # fmt: skip
