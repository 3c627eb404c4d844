"""What the file demands of its own entries, such as that no task runs longer than two hours."""

from dataclasses import dataclass
from typing import Annotated, Final

from fusiond.config.kinds import Key, Kind, Line, between

_VALUE: Final = Kind({"title": "value", "type": ["string", "number"]})
_VALUES: Final = Kind({"items": {"type": ["string", "number", "boolean", "null"]}})

#: word of `every` → section of the file
SECTIONS: Final = {
    "task": "tasks", "queue": "queues", "group": "workers", "cron": "cron", "flow": "flows", "outbox": "outboxes",
    "retry_policy": "retry_policies",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policy:
    """What must hold for each entry of a kind."""

    #: The entries: `task`, `queue`, `group`, `cron`, `flow`, `outbox` or `retry_policy`.
    every: Annotated[str, Kind({"enum": [*SECTIONS]}), Key("Every", "task")]
    #: The key that is judged, such as `owner` or `timeout.hard`; its value is what counts after all defaults.
    key: Annotated[Line | None, Key("Key", "timeout.hard")] = None
    #: true: it must have a value.
    required: Annotated[bool, Key("Required", True)] = False
    #: The largest number, duration or size. A key without a value, such as `expires: null`, breaks it.
    at_most: Annotated[str | None, _VALUE, Key("At most", "2h", 10)] = None
    #: The smallest one; a key without a value breaks it, too.
    at_least: Annotated[str | None, _VALUE, Key("At least", "1d", 2)] = None
    #: The values that are allowed.
    one_of: Annotated[tuple[str, ...], _VALUES, Key("One of", ["none", "patient"])] = ()
    #: queue: so many worker groups, or more, must serve it.
    served_by_groups: Annotated[int | None, between(1, 1000), Key("Served by groups", 2)] = None
    #: The reason, for who breaks it.
    message: Annotated[Line | None, Key("Message", "no task may run longer than two hours")] = None
