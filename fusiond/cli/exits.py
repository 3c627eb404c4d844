"""Exit statuses, the same for every command."""

from __future__ import annotations

from typing import Final

from fusiond import errors

OK: Final = 0
#: problems were found, the request was refused, or the job failed
REFUSED: Final = 1
#: the command line is wrong, or a file that it names cannot be read
USAGE: Final = 2
#: the daemon or the broker is out of reach
AWAY: Final = 3
#: `plan --exit-code` found changes
CHANGES: Final = 4
#: the time of `--wait` is over; the job goes on
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130


class UsageError(errors.FusionError):
    """The command line is wrong, or it names a file that cannot be read."""


_BY_CLASS: Final[tuple[tuple[type[errors.FusionError], int], ...]] = (
    (UsageError, USAGE),
    (errors.ResultTimeout, TIMED_OUT),
    (errors.BrokerUnavailable, AWAY),
    (errors.BrokerUnfit, AWAY),
    (errors.ForeignDaemon, USAGE),
    (errors.ControlError, AWAY),
)


def status_of(error: errors.FusionError) -> int:
    """The exit status for an error."""
    return next((status for cls, status in _BY_CLASS if isinstance(error, cls)), REFUSED)
