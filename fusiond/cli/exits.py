"""Exit statuses, the same for every command."""

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


#: a ForeignDaemon is a ControlError too: the first that fits counts
_BY_CLASSES: Final = (
    ((UsageError, errors.ForeignDaemon), USAGE),
    ((errors.BrokerUnavailable, errors.BrokerUnfit, errors.ControlError), AWAY),
    ((errors.ResultTimeout,), TIMED_OUT),
)


def status_of(error: errors.FusionError) -> int:
    """The exit status for an error."""
    return next((status for classes, status in _BY_CLASSES if isinstance(error, classes)), REFUSED)
