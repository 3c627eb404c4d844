"""Schedules that enqueue tasks, and calendars of days on which they do not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from fusiond.config.kinds import Duration, Key, Line, Name, Text, meanings, text
from fusiond.config.model.on_end import Url
from fusiond.config.model.tasks import Keyword

Overlap = Annotated[
    Literal["skip", "allow", "replace", "wait"],
    meanings(
        "no job while the job of the tick before has not ended",
        "each tick is a job",
        "the job of the tick before is canceled, and the new one is enqueued once it has ended",
        "one tick waits until the job of the tick before has ended; while it does, the others are passed over",
    ),
]
Missed = Annotated[
    Literal["skip", "last", "all"],
    meanings(
        "ticks that were missed are left out",
        "one job for the last tick that was missed",
        "a job for each tick that was missed",
    ),
]


TickReference = Annotated[
    str, text("reference", r"^tick\.(date|time)$", "write tick.date or tick.time", examples=["tick.date", "tick.time"])
]


IfExcluded = Annotated[
    Literal["skip", "next_day", "previous_day"],
    meanings(
        "no tick for that day",
        "the tick is moved to the next day that is not excluded",
        "the tick is moved to the last day before that is not excluded",
    ),
]
#: 30 February is none
_DAY: Final = (
    "^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))$"
)
Day = Annotated[str, text("day", _DAY, "write a day such as 2026-12-24", examples=["2026-12-24"])]


@dataclass(frozen=True, slots=True)
class Calendar:
    """Days that a cron entry can leave out."""

    name: str
    #: The public holidays of this country: a code of ISO 3166, such as DE. Needs the extra `calendars`.
    country: Annotated[Line | None, Key("Country", "DE")] = None
    #: The part of the country whose holidays count, too.
    subdivision: Annotated[Line | None, Key("Subdivision", "BY")] = None
    #: Saturdays and Sundays; with `country` the days of its weekend.
    weekends: Annotated[bool, Key("Weekends", True)] = False
    #: Single days.
    dates: Annotated[tuple[Day, ...], Key("Dates", ["2026-12-24", "2026-12-31"])] = ()


@dataclass(frozen=True, slots=True)
class CronEntry:
    """A schedule that enqueues a task, or starts runs of a flow."""

    name: str
    #: The task that is enqueued.
    task: Annotated[Name, Key("Task", "nightly_report", either="work")] = ""
    #: The flow that is started.
    flow: Annotated[Name, Key("Flow", "nightly_etl", either="work")] = ""
    #: Five fields (minute, hour, day of month, month, weekday), or @hourly, @daily, @weekly, @monthly, @yearly.
    schedule: Annotated[Text | None, Key("Schedule", "0 2 * * *", "*/5 * * * *", "@daily", either=True)] = None
    #: The time between two ticks, at least 1s.
    every: Annotated[Duration | None, Key("Every", "90s", either=True)] = None
    #: The zone that `schedule` is read in, a name of the IANA database.
    timezone: Annotated[Text, Key("Time zone", "Europe/Berlin")] = "UTC"
    #: Positional arguments of each job.
    args: Annotated[tuple[Any, ...], Key("Arguments", ["eu"])] = ()
    #: Keyword arguments of each job.
    kwargs: Annotated[Mapping[str, Any], Key("Keyword arguments", {"region": "eu"})] = field(default_factory=dict)
    #: Keyword arguments from the tick, in the entry's time zone: `tick.date` (2026-11-23), `tick.time`
    #: (2026-11-23T02:00:00+01:00). With `flow`, these and `kwargs` are its inputs.
    inputs: Annotated[Mapping[Keyword, TickReference], Key("Inputs", {"day": "tick.date"})] = field(
        default_factory=dict
    )
    #: While the job of the previous tick has not ended: `skip` the tick, `allow` a second job, `replace` the first:
    #: cancel it, and enqueue the next one once it has ended; or have one tick `wait` for its end.
    overlap: Annotated[Overlap, Key("Overlap", "allow", "wait")] = "skip"
    #: Ticks that were due while no daemon ran: `skip` them, run the `last` one, or run `all`.
    missed: Annotated[Missed, Key("Missed ticks", "last")] = "skip"
    #: How late a tick may still run. null: 1m with `missed: skip`, else no limit.
    starting_deadline: Annotated[Duration | None, Key("Starting deadline", "6h")] = None
    #: Calendars whose days are excluded. With `schedule` only.
    not_on: Annotated[tuple[Name, ...], Key("Not on", ["de", "closed"])] = ()
    #: A tick on an excluded day: `skip` it, or move it to the `next_day` or the `previous_day` that is not excluded, at
    #: the same time. If that day has the tick already, there is one.
    if_excluded: Annotated[IfExcluded, Key("If excluded", "next_day", "previous_day")] = "skip"
    #: what `not_on` names
    calendars: tuple[Calendar, ...] = ()
    #: By how much, at most, a tick's job is delayed.
    jitter: Annotated[Duration, Key("Jitter", "30s")] = 0.0
    #: Warn if no job of the entry has finished for so long: in the log, by `fusiond status`, as a metric.
    alert_if_no_success: Annotated[Duration | None, Key("Alert if no success", "26h")] = None
    #: Who answers for its jobs, instead of the owner of their task.
    owner: Annotated[Line | None, Key("Owner", "payments")] = None
    #: The page that says what to do if they fail.
    runbook_url: Annotated[Url | None, Key("Runbook", "https://wiki.example.com/payments")] = None
    #: Former names of the entry, whose last tick and history it takes over.
    aliases: Annotated[tuple[Name, ...], Key("Aliases", ["nightly"])] = ()
    #: true: its ticks are skipped.
    suspended: Annotated[bool, Key("Suspended", True)] = False

    @property
    def work(self) -> str:
        """The name of its task, or of its flow."""
        return self.task or self.flow
