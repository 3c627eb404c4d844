"""Cron is pure, so it is compared with a walk through each minute of a clock, and with itself."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusiond.broker.ticks import CronState
from fusiond.config import calendar_days
from fusiond.config.model import Config, CronEntry, Task
from fusiond.config.model.cron_entries import Calendar
from fusiond.schedule import cron, decision, drift
from fusiond.schedule.decision import Decision

#: north, south, half an hour, a negative winter time, midnight changes, Ramadan, and zones that gave it up
ZONES = [
    "Africa/Cairo", "Africa/Casablanca", "America/Asuncion", "America/Havana", "America/Los_Angeles",
    "America/New_York", "America/Nuuk", "America/Santiago", "America/Sao_Paulo", "America/St_Johns",
    "Antarctica/Troll", "Asia/Beirut", "Asia/Gaza", "Asia/Jerusalem", "Atlantic/Azores", "Australia/Lord_Howe",
    "Europe/Berlin", "Europe/Dublin", "Pacific/Auckland", "Pacific/Chatham",
]  # fmt: skip
SCHEDULES = [
    "* * * * *", "*/7 * * * *", "30 * * * *", "0 0-23 * * *", "15 2 * * *", "30 1,2,3 * * *", "*/20 0-4 * * *",
    "0 */2 * * *", "59 23 * * *", "0 0 * * *", "10 0 * * 0", "5 1 1-7,25-31 * *", "40 2 10 * 6", "0 0-5 * 3,10 *",
]  # fmt: skip
MINUTE = 60
HOUR = 3600
JAN_2026 = 1_767_225_600_000
#: a tick of `every: 60s`
T = 1_000_000 * 60_000


def entry(schedule: str | None = None, **more) -> CronEntry:
    return CronEntry("e", "t", schedule=schedule, **more)


def epoch(text: str, zone: str = "UTC", fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


# --- a second implementation, as plain as can be


def numbers(field: str, low: int, high: int) -> set[int]:
    found = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or first) + 1, int(step or 1)))
    return found


class Matcher:
    """Whether a wall-clock minute is in a schedule."""

    def __init__(self, schedule: str) -> None:
        minute, hour, day, month, weekday = schedule.split()
        self.minutes, self.hours, self.months = numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(month, 1, 12)
        self.days, self.weekdays = numbers(day, 1, 31), {n % 7 for n in numbers(weekday, 0, 7)}
        self.either = day != "*" and weekday != "*"

    @property
    def each_hour(self) -> bool:
        return len(self.hours) == 24

    def __call__(self, wall: datetime) -> bool:
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and (day or weekday if self.either else day and weekday)
        )


def wall_at(zone: ZoneInfo, at: int) -> datetime:
    return datetime.fromtimestamp(at, zone).replace(tzinfo=None, fold=0)


def brute_force(schedule: str, walls: list[tuple[int, datetime]]) -> list[int]:
    """Ticks among (moment, what the clocks show), by looking at each minute; the first is far from any change."""
    matches, found, shown = Matcher(schedule), [], walls[0][1] - timedelta(minutes=1)
    for at, wall in walls:
        if matches.each_hour:
            found += [at] if matches(wall) else []
            continue
        news = []  # the minutes that the clock has passed, or jumped over, since the latest that it has shown
        while shown < wall:
            shown += timedelta(minutes=1)
            news.append(shown)
        found += [at] if any(map(matches, news)) else []
    return found


def changes(zone: ZoneInfo, first_year: int, last_year: int) -> list[int]:
    """Epoch seconds of each change of the UTC offset, to the minute."""
    found = []
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (first_year, last_year + 1))
    for at in range(start, end, 6 * HOUR):
        before = datetime.fromtimestamp(at, zone).utcoffset()
        if datetime.fromtimestamp(at + 6 * HOUR, zone).utcoffset() != before:
            low, high = at, at + 6 * HOUR
            while high - low > MINUTE:
                middle = (low + high) // 2 // MINUTE * MINUTE
                low, high = (
                    (middle, high) if datetime.fromtimestamp(middle, zone).utcoffset() == before else (low, middle)
                )
            found.append(high)
    return found


@pytest.mark.proof
@pytest.mark.parametrize("name", ZONES)
def test_ticks_around_each_change_of_the_clocks_are_those_of_a_minute_by_minute_walk(name):
    """Over every DST change of 20 zones from 2016 to 2027, each schedule ticks as the two rules say."""
    zone = ZoneInfo(name)
    found = changes(zone, 2016, 2027)
    assert found, f"{name} has no change to test"
    for at in found:
        start, end = at - 8 * HOUR, at + 8 * HOUR
        walls = [(moment, wall_at(zone, moment)) for moment in range(start, end, MINUTE)]
        for schedule in SCHEDULES:
            got = cron.ticks(entry(schedule, timezone=name), start * 1000 - 1, end * 1000 - 1, 10_000)
            expected = brute_force(schedule, walls)
            assert got == [tick * 1000 for tick in expected], f"{schedule} at {wall_at(zone, at)} in {name}"


def test_a_whole_day_that_a_zone_skipped_runs_at_its_end():
    """Samoa had no 30 December 2011: that day's noon job runs at the first moment of the 31st."""
    got = cron.ticks(
        entry("0 12 30 12 *", timezone="Pacific/Apia"), epoch("2011-12-01T00:00"), epoch("2012-02-01T00:00"), 9
    )
    assert got == [epoch("2011-12-31T00:00", "Pacific/Apia")]


# --- the two rules, by example


def test_a_time_that_the_clocks_skip_runs_once_at_the_end_of_the_gap():
    """02:30 does not exist on 29 March 2026 in Berlin: it runs at 03:00, and 02:15 does not make it two."""
    for schedule in ("30 2 * * *", "15,30 2 * * *"):
        got = cron.next_tick(entry(schedule, timezone="Europe/Berlin"), epoch("2026-03-29T00:00", "Europe/Berlin"))
        assert got == epoch("2026-03-29T03:00", "Europe/Berlin")


def test_a_time_that_comes_twice_runs_the_first_time():
    """02:30 comes twice on 25 October 2026 in Berlin: the job runs in summer time only."""
    got = cron.ticks(
        entry("30 2 * * *", timezone="Europe/Berlin"), epoch("2026-10-25T00:00"), epoch("2026-10-26T00:00"), 9
    )
    assert got == [epoch("2026-10-25T02:30", "Europe/Berlin", fold=0)]


def test_explain_says_what_daylight_saving_does():
    """`cron explain` notes the tick that moved, the one that comes once of two, and the second of an interval."""
    berlin = {"timezone": "Europe/Berlin"}
    spring = cron.explain(entry("30 2 * * *", **berlin), epoch("2026-03-28T12:00"), 2)
    assert spring[0].note == "02:30 does not exist on this day: runs when the clocks have moved on"
    assert spring[0].local.isoformat() == "2026-03-29T03:00:00+02:00"
    assert spring[1].note == ""
    autumn = cron.explain(entry("30 2 * * *", **berlin), epoch("2026-10-24T12:00"), 2)
    assert [tick.note for tick in autumn] == ["02:30 comes twice on this day: runs the first time only", ""]
    hourly = cron.explain(entry("@hourly", **berlin), epoch("2026-10-24T23:30"), 3)
    assert [tick.note for tick in hourly] == [
        "02:00 comes twice on this day: this is the first",
        "02:00 comes twice on this day: this is the second",
        "",
    ]
    assert cron.explain(entry("0 3 * * *", **berlin), epoch("2026-03-28T12:00"), 1)[0].note == ""
    assert [tick.at for tick in cron.explain(entry(every=90.0), 0, 3)] == [90_000, 180_000, 270_000]


@pytest.mark.parametrize(
    ("text", "days"),
    [("0 2 L * *", ["01-31", "02-28", "03-31"]), ("0 2 30-L * *", ["01-30", "01-31", "03-30"]),
     ("0 2 15W * *", ["01-15", "02-16", "03-16"]), ("0 2 * * fri#2", ["01-09", "02-13", "03-13"]),
     ("0 2 * * L5", ["01-30", "02-27", "03-27"]), ("0 2 ? * 1", ["01-05", "01-12", "01-19"])],
)  # fmt: skip
def test_a_day_of_the_month_may_be_written_in_other_ways(text, days):
    """The last one, the nearest from Monday to Friday, and one weekday of the month, as docs/cron.md says."""
    assert [f"{tick.local:%m-%d}" for tick in cron.explain(entry(text), JAN_2026, 3)] == days


def test_a_date_that_never_comes_has_no_tick():
    """30 February: no tick, no endless search."""
    assert cron.next_tick(entry("0 0 30 2 *"), JAN_2026) is None
    assert cron.next_tick(entry("0 * 30 2 *", timezone="Europe/Berlin"), JAN_2026) is None
    assert decision.due(entry("0 0 30 2 *"), None, 0, JAN_2026) == ((), None)
    assert cron.explain(entry("0 0 30 2 *"), JAN_2026, 10) == []


# --- calendars

WEEKENDS = Calendar("rest", weekends=True)
CLOSED = Calendar("closed", dates=("2026-12-24", "2026-12-31"))
BAVARIA = Calendar("de", country="DE", subdivision="BY", weekends=True)


def days(item: CronEntry, after: str, count: int) -> list[str]:
    """The coming ticks in the entry's zone, as `12-24 02:00`."""
    found = cron.explain(item, epoch(after, item.timezone), count)
    assert cron.ticks(item, epoch(after, item.timezone), found[-1].at, 99) == [tick.at for tick in found]
    return [f"{tick.local:%m-%d %H:%M}" for tick in found]


def test_a_tick_on_an_excluded_day_is_left_out_or_moved():
    """To the nearest day that is not excluded; a day that has the tick already has one."""
    daily = entry("0 2 * * *", timezone="Europe/Berlin", calendars=(BAVARIA, CLOSED))
    assert days(daily, "2026-12-23T03:00", 3) == ["12-28 02:00", "12-29 02:00", "12-30 02:00"]
    assert days(replace(daily, if_excluded="next_day"), "2026-12-23T03:00", 2) == ["12-28 02:00", "12-29 02:00"]
    weekly = replace(daily, schedule="0 2,14 * * thu")
    assert days(weekly, "2026-12-18T00:00", 2) == ["01-07 02:00", "01-07 14:00"]
    later = replace(weekly, if_excluded="next_day")
    assert days(later, "2026-12-18T00:00", 4) == ["12-28 02:00", "12-28 14:00", "01-04 02:00", "01-04 14:00"]
    assert days(later, "2026-12-28T02:00", 1) == ["12-28 14:00"]
    earlier = replace(weekly, if_excluded="previous_day")
    assert days(earlier, "2026-12-18T00:00", 4) == ["12-23 02:00", "12-23 14:00", "12-30 02:00", "12-30 14:00"]
    assert days(replace(weekly, schedule="@yearly", if_excluded="next_day"), "2026-12-18T00:00", 1) == ["01-04 00:00"]


def test_a_moved_tick_follows_the_clocks_of_the_day_on_which_it_runs():
    """29 March 2026 has no 02:30 in Berlin, and is a Sunday: moved to the days beside it, the time is there."""
    sunday = entry("30 2 29 3 *", timezone="Europe/Berlin", calendars=(WEEKENDS,))
    assert days(replace(sunday, if_excluded="next_day"), "2026-03-01T00:00", 1) == ["03-30 02:30"]
    assert days(replace(sunday, if_excluded="previous_day"), "2026-03-01T00:00", 1) == ["03-27 02:30"]
    saturday = replace(sunday, schedule="30 2 28 3 *", calendars=(Calendar("c", dates=("2026-03-28",)),))
    assert days(replace(saturday, if_excluded="next_day"), "2026-03-01T00:00", 1) == ["03-29 03:00"]


def test_explain_names_the_holiday():
    """Of a day that is left out, at the next tick; of one that is moved, at the tick that stands for it."""
    item = entry("0 2 * * *", timezone="Europe/Berlin", calendars=(BAVARIA, CLOSED))
    [tick] = cron.explain(item, epoch("2026-12-23T12:00"), 1)
    # The package has names in several languages, and chooses one by the interpreter and its environment.
    first, second = (calendar_days.holidays_of("DE", "BY")[f"2026-12-{day}"] for day in (25, 26))
    named = f"2026-12-24 (closed), 2026-12-25 ({first}), 2026-12-26 ({second}), …"
    assert tick.note == f"not on {named}"
    for rule, after in (("next_day", "2026-12-24T12:00"), ("previous_day", "2026-12-22T12:00")):
        item = entry("0 2 25 12 *", calendars=(BAVARIA, CLOSED), if_excluded=rule)
        assert cron.explain(item, epoch(after), 1)[0].note == f"also for 2026-12-25 ({first})"


def test_the_weekend_is_that_of_the_country():
    """Friday and Saturday in Israel."""
    item = entry("0 2 * * *", calendars=(Calendar("il", country="IL", weekends=True),))
    assert days(item, "2026-11-05T03:00", 2) == ["11-08 02:00", "11-09 02:00"]


def test_holidays_that_this_host_lacks_are_said(monkeypatch):
    """The file was checked where they are known: nobody must end by it."""
    item = entry("0 2 * * *", calendars=(Calendar("x", country="Atlantis"),))
    assert cron.problem_here(item) == "the package holidays says: Country Atlantis not available"
    calendar_days.holidays_of.cache_clear()
    monkeypatch.setitem(sys.modules, "holidays", None)
    assert "pip install 'fusiond[calendars]'" in cron.problem_here(replace(item, calendars=(BAVARIA,)))
    assert cron.problem_here(replace(item, calendars=(WEEKENDS, CLOSED))) is None


def test_hosts_that_compute_other_days_differ(monkeypatch):
    """Another version of the package, or none; a calendar of another name with the same days is no difference."""
    task, item = Task("t", "a.b"), entry("0 2 * * *", calendars=(BAVARIA,))
    here = drift.digest(item, task)
    assert drift.digest(replace(item, calendars=(replace(BAVARIA, name="bavaria"),)), task) == here
    assert drift.digest(replace(item, calendars=(replace(BAVARIA, subdivision="BE"),)), task) != here
    before = drift.digests(Config(calendars={"de": BAVARIA}))
    calendar_days.holidays_of.cache_clear()
    calendar_days.dates_of.cache_clear()
    monkeypatch.setitem(sys.modules, "holidays", None)
    assert drift.digest(item, task) != here
    assert drift.digests(Config(calendars={"de": BAVARIA}))["calendars"] != before["calendars"]
    calendar_days.dates_of.cache_clear()


def test_a_day_that_is_no_longer_excluded_is_not_made_up_for():
    """Whoever changes a calendar begins anew with it; another year does not."""
    item = entry("0 2 * * *", timezone="Europe/Berlin", calendars=(BAVARIA, CLOSED))
    said = drift.timetable(item)
    assert said != drift.timetable(replace(item, calendars=(BAVARIA,)))
    assert said != drift.timetable(replace(item, if_excluded="next_day"))
    state = CronState("e", T, first_seen=1, timetable=said, counted="q")
    assert drift.in_force(replace(item, schedule="@daily"), state) == item
    assert drift.timetable(replace(item, calendars=())) == "0 2 * * * Europe/Berlin"


# --- properties

schedules = st.sampled_from(SCHEDULES)
moments = st.integers(epoch("2015-01-01T00:00"), epoch("2035-01-01T00:00"))
entries = st.builds(entry, schedules, timezone=st.sampled_from(ZONES)) | st.builds(
    entry, every=st.sampled_from([0.5, 1.0, 7.0, 90.0, 3600.0, 100_000.0])
)


@given(
    st.sampled_from([*SCHEDULES, "0 2 * * 6", "30 1,2 10,11 * *"]), st.sampled_from(ZONES), moments, st.booleans(),
    st.sampled_from(["skip", "next_day", "previous_day"]), st.lists(st.integers(-3, 9), max_size=9, unique=True),
)  # fmt: skip
def test_calendars_move_days_which_then_have_their_own_ticks(schedule, name, after, weekends, rule, offsets):
    """Against a walk through the days; the ticks are one set, from whatever moment they are asked for."""
    zone, matches = ZoneInfo(name), Matcher(schedule)
    today = wall_at(zone, after // 1000).date()
    dates = tuple(str(today + timedelta(offset)) for offset in offsets)

    def target(day):
        while str(day) in dates or (weekends and day.weekday() > 4):
            if rule == "skip":
                return None
            day += timedelta(1 if rule == "next_day" else -1)
        return day

    a_time = f"{min(matches.hours):02}:{min(matches.minutes):02}"
    around = [today + timedelta(n) for n in range(-20, 50)]
    left = {target(day) for day in around if matches(datetime.fromisoformat(f"{day}T{a_time}"))}
    daily = entry(f"{' '.join(schedule.split()[:2])} * * *", timezone=name)
    times = cron.ticks(daily, after, after + 20 * 86_400_000, 200)
    wanted = [tick for tick in times if wall_at(zone, tick // 1000).date() in left]
    calendars = (Calendar("c", weekends=weekends, dates=dates),)
    item = entry(schedule, timezone=name, calendars=calendars, if_excluded=rule)
    assert cron.ticks(item, after, times[-1], 200) == wanted
    assert cron.latest_tick(item, after, times[-1]) == (wanted[-1] if wanted else None)


@given(entries, moments)
def test_a_tick_is_later_and_nothing_lies_between(item, after):
    """The next tick is later than the moment, and it is the next one from any moment in between as well."""
    tick = cron.next_tick(item, after)
    assert tick is not None
    assert tick > after
    assert cron.next_tick(item, (after + tick) // 2) == tick
    assert cron.next_tick(item, tick - 1) == tick


@given(st.integers(0, 10**6), st.sampled_from([1.0, 90.0, 3600.0]), moments)
def test_every_counts_from_the_epoch(offset, every, moment):
    """All daemons agree on the ticks of `every:`, whenever they were started."""
    tick = cron.next_tick(entry(every=every), moment + offset)
    assert tick is not None
    assert tick % round(every * 1000) == 0


@given(entries, moments, st.floats(0, 600))
def test_jitter_is_bounded_and_the_same_for_everyone(item, tick, jitter):
    """The delay is drawn from the tick's id."""
    item = replace(item, jitter=jitter)
    assert 0 <= decision.jitter(item, tick) <= round(jitter * 1000)
    assert decision.jitter(item, tick) == decision.jitter(replace(item), tick)


# --- overlap: wait


def wait(waiting=None, last=0, *, now=T, **more):
    """What is decided about an entry with `every: 60s`, and what becomes of it while the last job has not ended."""
    item, seen = (
        entry(every=60.0, overlap="wait", **more),
        CronState("e", now, last=last, waiting=waiting, first_seen=1),
    )
    found = decision.decide(item, seen)
    return found, found and decision.put_off(item, seen, found)


def test_one_tick_waits_and_the_next_ones_are_passed_over():
    """However long; once the job has ended that tick is decided on alone, so that the next one may wait for its job."""
    found, put_off = wait(last=T - 60_000)
    assert (found.ticks, put_off.ticks, put_off.waiting, put_off.last) == ((T,), (), T, T)
    assert wait(T, T) == (Decision(T, "decided", (T,)), None)
    found, put_off = wait(T, T, now=T + 7_200_000)
    assert (found.last, found.ticks) == (T, (T,))
    assert put_off == Decision(T + 7_200_000, "overlap", waiting=T)


def test_a_tick_no_longer_waits_if_it_is_too_late_or_suspended():
    """Its deadline counts from the tick."""
    assert wait(T, T, now=T + 30_000, starting_deadline=30.0)[0].ticks == (T,)
    assert wait(T, T, now=T + 30_001, starting_deadline=30.0)[0] == Decision(T, "missed", missed=T)
    assert wait(T, T, now=T + 61_000, suspended=True)[0] == Decision(T + 60_000, "suspended", missed=T)


# --- missed ticks


def due(*, last=None, seen=0, now, limit=100, **more):
    found = decision.due(entry(every=60.0, **more), last, seen, now, limit)
    return [(tick - T) // 60_000 for tick in found[0]], None if found[1] is None else (found[1] - T) // 60_000


def test_skip_forgives_one_minute():
    """`missed: skip`: a restart of up to a minute does not cost the tick; a longer one does."""
    item = entry(every=3600.0)
    tick = cron.next_tick(item, T)
    assert tick is not None
    assert decision.due(item, T, 0, tick + decision.ON_TIME)[0] == (tick,)
    assert decision.due(item, T, 0, tick + decision.ON_TIME + 1) == ((), tick)


def test_all_runs_each_in_order_and_in_portions():
    """`missed: all`: each tick that was missed, oldest first, at most `limit` at once; the rest follows."""
    assert due(last=T - 300_000, now=T, missed="all") == ([-4, -3, -2, -1, 0], None)
    assert due(last=T - 300_000, now=T, missed="all", limit=2) == ([-4, -3], None)
    assert due(last=T - 180_000, now=T, missed="all", limit=2) == ([-2, -1], None)


def test_starting_deadline_gives_up_what_is_too_late():
    """A tick later than starting_deadline is missed and gone, under each rule; one within it runs."""
    late = {"last": T - 600_000, "now": T + 30_000}
    assert due(**late, missed="all", starting_deadline=150.0) == ([-2, -1, 0], -3)
    assert due(**late, missed="last", starting_deadline=29.0) == ([], 0)
    assert due(**late, missed="last", starting_deadline=30.0) == ([0], -1)
    assert due(last=T - 600_000, now=T + 10_000, missed="skip", starting_deadline=5.0) == ([], 0)
    item = entry(every=3600.0, starting_deadline=600.0)
    tick = cron.next_tick(item, T)
    assert tick is not None
    found, _ = decision.due(item, T, 0, tick + 599_000)
    assert found == (tick,), "a deadline longer than a minute is kept under skip too"


@given(moments, st.integers(0, 10**10), st.sampled_from(["skip", "last", "all"]))
@example(T, 0, "all")
@settings(max_examples=60)
def test_no_tick_up_to_the_moment_that_an_entry_was_first_seen(seen, later, missed):
    """A new entry never catches up on times from before it existed."""
    for last in (None, seen - 10**9):
        for item in (entry(every=60.0, missed=missed), entry("30 2 * * *", timezone="Europe/Berlin", missed=missed)):
            found = decision.due(item, last, seen, seen + later)
            assert all(seen < tick <= seen + later for tick in found[0])
            assert found[1] is None or found[1] > seen


@given(entries, moments, st.integers(0, 10 * 86_400_000), st.sampled_from(["skip", "last", "all"]))
@settings(max_examples=60)
def test_what_was_decided_is_never_due_again(item, seen, away, missed):
    """Once a round's decisions are recorded, nothing is left at the same moment (`all` aside), and nothing repeats."""
    item, now = replace(item, missed=missed), seen + away
    first = decision.due(item, None, seen, now, limit=50)
    decided = max([*first[0], first[1] or 0])
    if not decided:
        assert first == ((), None)
        return
    again = decision.due(item, decided, seen, now, limit=50)
    assert not set(again[0]) & set(first[0])
    if missed != "all":
        assert again == ((), None)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "Europe"])
def test_a_zone_that_this_host_lacks_is_said(zone):
    """The file was checked where there is one: nobody must end by it."""
    assert zone in cron.problem_here(entry("0 2 * * *", timezone=zone))
    assert cron.problem_here(entry("0 2 * * *", timezone="UTC")) is None
    assert cron.problem_here(entry(every=60.0, timezone=zone)) is None
    assert zone in cron.problem_here(entry(every=60.0, timezone=zone, inputs={"day": "tick.date"}))
