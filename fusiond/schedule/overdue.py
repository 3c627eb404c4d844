"""Cron entries with `alert_if_no_success` of which no job has finished for so long."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fusiond.broker.ticks import CronState
from fusiond.config.model import CronEntry
from fusiond.config.units import written

log = logging.getLogger(__name__)


def overdue_since(alert_if_no_success: float, state: CronState, success: int) -> int | None:
    """
    From when on, epoch ms, the entry is overdue; None: it is not.

    Args:
        alert_if_no_success: seconds that may pass without a job that finishes.
        state: of the entry; what is not first seen yet, or suspended, is never overdue.
        success: when a job of the entry finished last, in the queue of its task; 0: none has. After the task has moved
            to another queue, or the entry was suspended, the time counts from then on.
    """
    if state.first_seen is None or state.suspended:
        return None
    since = max(state.first_seen, success, state.counted_since or 0) + round(alert_if_no_success * 1000)
    return since if since <= state.now else None


class OverdueLog:
    """Logs once that an entry is overdue, and once that it is no more; an event says that it is."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self._overdue: set[str] = set()

    def note(self, entry: CronEntry, state: CronState, success: int) -> None:
        """What is known of an entry; `success` as of `overdue_since`."""
        allowed = entry.alert_if_no_success
        since = None if allowed is None or entry.suspended else overdue_since(allowed, state, success)
        fields = {"cron": entry.name, "task": entry.work}
        if since is not None and allowed is not None and entry.name not in self._overdue:
            self._overdue.add(entry.name)
            log.warning("overdue: no job of this entry has finished for %s", written(allowed), extra=fields)
            message, once = f"no job of it has finished for {written(allowed)}", (f"overdue {entry.name}", str(since))
            self._note("cron.overdue", message, about=entry.name, once=once)
        elif since is None and entry.name in self._overdue:
            self._overdue.discard(entry.name)
            log.info("overdue no more", extra=fields)
