import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.ticks import DecidedTicks
from fusiond.config.accepted import snapshot
from fusiond.config.load import load
from fusiond.job import JobStatus
from tests.support.fusiond_command import fusiond_here
from tests.support.fusiond_desk import opened

FILE = """
version: 1
defaults: {workers: {directory: .}}
queues: {reports: {}}
tasks:
  report: {run: shop.report, queue: reports}
cron:
  nightly: {task: report, schedule: "30 2 * * *", timezone: Europe/Berlin, kwargs: {region: eu}, aliases: [night]}
  often: {task: report, every: 90s}
  asleep: {task: report, schedule: "@daily", suspended: true}
workers: {main: {queues: [reports]}}
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "fusion.yaml").write_text(FILE)
    return tmp_path


def test_explain_shows_the_coming_ticks(place):
    """So many ticks as asked for, in the entry's zone, in their order."""
    done = fusiond_here("cron", "explain", "nightly", "--next", "400", "--json", cwd=place)
    ticks = done.json
    assert len(ticks) == 400
    assert [tick["at"] for tick in ticks] == sorted({tick["at"] for tick in ticks})
    # In 400 nights the clocks skip 02:30 once or twice, and show it twice; both are said.
    said = [tick["note"].split(" on ")[0] for tick in ticks]
    assert set(said) == {"", "02:30 does not exist", "02:30 comes twice"}
    is_there = [tick["local"][11:16] == "02:30" for tick in ticks]
    assert is_there == [note != "02:30 does not exist" for note in said]
    assert said.count("02:30 does not exist") <= 2


@pytest.fixture
def desk(broker_settings, place):
    with opened(broker_settings, place) as desk:
        yield desk


def test_list_shows_each_entry_with_its_next_tick(desk):
    """Schedule, zone, what was and what comes; a suspended entry has no next tick."""
    entries = {entry["name"]: entry for entry in desk.fusiond("cron", "list", "--json").json}
    assert list(entries) == ["nightly", "often", "asleep"]
    assert entries["nightly"]["timezone"] == "Europe/Berlin"
    assert entries["often"]["next"] % 90_000 == 0
    assert (entries["asleep"]["suspended"], entries["asleep"]["next"]) == (True, None)
    lines = desk.fusiond("cron", "list").out.splitlines()
    assert lines[2].split()[:4] == ["often", "report", "every", "1m30s"]
    assert lines[3].split()[-1] == "suspended"


def test_list_shows_how_the_last_ticks_job_ended(desk):
    """Its status as it is now, wherever it was enqueued; once it is dropped, what the scheduler has noted."""
    decided = DecidedTicks("often", "reports", "report", b"[[],{}]", 1, None, None, (90_000,), (0,))
    version = desk.run(desk.verbs.cron_write(desk.run(desk.verbs.cron_state("often")), decided=decided.to_text()))
    assert version
    state = desk.run(desk.verbs.cron_state("often"))
    desk.run(desk.verbs.confirm(state, desk.run(desk.verbs.tick(decided))))

    def often():
        return desk.fusiond("cron", "list", "--json").json[1]

    assert (often()["last"], often()["last_job"]) == (90_000, "reports/cron:often:90000")
    assert often()["outcome"] == "queued"
    desk.run(desk.verbs.cancel("reports", "cron:often:90000"))
    assert desk.fusiond("cron", "list").out.splitlines()[2].count("canceled") == 1
    desk.run(plain(as_is, "DEL", "fusion:{reports}:canceled", "fusion:{reports}:job:cron:often:90000"))
    assert often()["outcome"] == "gone"
    desk.run(desk.verbs.cron_write(desk.run(desk.verbs.cron_state("often")), last_status="finished"))
    assert often()["outcome"] == "finished"


def test_history_shows_what_became_of_each_tick(desk):
    """The newest first: how its job ended and how long it took, or why it has none; under a former name, too."""
    decided = DecidedTicks("night", "reports", "report", b"[[],{}]", 1, None, None, (90_000, 180_000), (0, 0))
    desk.run(desk.verbs.tick(decided))
    desk.run(desk.verbs.tick(decided))  # a scheduler that was stopped asks again
    assert desk.settle("finished", "reports") == "reports/cron:night:90000"
    desk.run(desk.verbs.note_tick("reports", "nightly", 270_000, "overlap"))
    desk.run(plain(as_is, "DEL", "fusion:{reports}:finished", "fusion:{reports}:job:cron:night:90000"))
    found = desk.fusiond("cron", "history", "nightly", "--json").json
    assert [(each["tick"], each["outcome"], each["ms"] is None) for each in found] == [
        (270_000, "overlap", True),
        (180_000, "queued", True),
        (90_000, "finished", False),
    ]
    assert found[1]["job"] == "reports/cron:night:180000"
    assert "the job of the last tick had not ended" in desk.fusiond("cron", "history", "night").out
    assert desk.fusiond("cron", "history", "nightly", "--limit", "1", "--wide").out.count("\n") == 2


@pytest.mark.parametrize("entry", ["nightly", "night"])
def test_run_enqueues_the_entrys_task_now(desk, entry):
    """With the entry's arguments, in its task's queue, beside its schedule; by a former name, too."""
    name = desk.fusiond("cron", "run", entry).out.strip()
    (job,) = desk.run(desk.verbs.jobs("reports", JobStatus.QUEUED))
    assert name == job.name
    assert json.loads(job.args) == [[], {"region": "eu"}]


def test_run_gives_the_moment_as_a_tick_would(desk):
    """In the entry's zone."""
    file = desk.cwd / "fusion.yaml"
    file.write_text(FILE.replace("kwargs: {region: eu}", "kwargs: {region: eu}, inputs: {at: tick.time}"))
    before = datetime.now(UTC)
    assert desk.fusiond("cron", "run", "nightly").status == 0
    (job,) = desk.run(desk.verbs.jobs("reports", JobStatus.QUEUED))
    [_, kwargs] = json.loads(job.args)
    assert kwargs.keys() == {"region", "at"}
    at = datetime.fromisoformat(kwargs["at"])
    assert before - timedelta(seconds=1) < at < datetime.now(UTC)
    assert at.utcoffset() == at.astimezone(ZoneInfo("Europe/Berlin")).utcoffset()


def test_suspend_and_resume(desk):
    """An entry that is suspended has no next tick until it is resumed; one that the file suspends stays so."""
    assert desk.fusiond("cron", "suspend", "often").out == "often: suspended\n"
    assert desk.fusiond("cron", "list", "--json").json[1]["next"] is None
    assert desk.fusiond("cron", "resume", "often").out == "often: resumed\n"
    assert desk.fusiond("cron", "list", "--json").json[1]["next"] is not None
    assert desk.fusiond("cron", "resume", "asleep").out == "asleep: stays suspended, by the file\n"
    assert desk.fusiond("cron", "suspend", "night").out == "nightly: suspended\n"


@pytest.mark.parametrize("broken", ["x: [\n", "version: 1\nqueus: {}\n"])
def test_entries_are_steered_while_the_file_is_wrong(desk, broken):
    """A daemon goes on with what it accepted last, and so do list, run, suspend and resume; not of another file."""
    file, state = desk.cwd / "fusion.yaml", {"STATE_DIRECTORY": str(desk.cwd), "FUSION_URL": desk.settings.url}
    snapshot.write(desk.cwd / "current.json", load(file, environ={}).config, generation=1, source=str(file))
    file.write_text(broken)

    def cron(*words):
        return fusiond_here("cron", *words, cwd=desk.cwd, **state)

    assert cron("suspend", "often", "--url", desk.settings.url).out == "often: suspended\n"
    resting = {entry["name"] for entry in cron("list", "--json").json if entry["next"] is None}
    assert resting == {"often", "asleep"}
    assert cron("resume", "often").out == "often: resumed\n"
    assert cron("run", "nightly").status == 0
    (desk.cwd / "other.yaml").write_text(broken)
    assert cron("suspend", "often", "-c", "other.yaml").status == 1


@pytest.mark.parametrize("timetable", ["every x", "x", "* * * Mars/Olympus"])
def test_a_forged_timetable_ends_no_list(desk, timetable):
    """Whoever can write to Redis can write one; the other entries are listed, and there is no traceback."""
    desk.run(plain(as_is, "HSET", "fusion:cron", "nightly first_seen", 1, "nightly timetable", timetable))
    done = desk.fusiond("cron", "list", "--json")
    assert [entry["name"] for entry in done.json] == ["nightly", "often", "asleep"]
    assert done.json[1]["next"]


def test_a_forged_tick_is_one_sentence(desk):
    """A moment that no scheduler has written."""
    desk.run(plain(as_is, "HSET", "fusion:cron", "nightly last", "yesterday"))
    done = desk.fusiond("cron", "list")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("fusiond: what Redis holds cannot be read")


def test_what_ticks_tonight(desk):
    """In the order of their times, in the viewer's zone and the entry's; what ticks often has one line."""
    (desk.cwd / "fusion.yaml").write_text(
        f"""\
version: 1
broker: {{url: "{desk.settings.url}"}}
tasks: {{send: {{run: shop.send}}}}
cron:
  often: {{task: send, every: 6h}}
  nightly: {{task: send, schedule: "0 2 * * *", timezone: Asia/Tokyo}}
  off: {{task: send, every: 1h, suspended: true}}
  pulse: {{task: send, every: 5s}}
"""
    )
    ticks = desk.fusiond("cron", "list", "--until", "24h", "--json").json
    assert [tick["at"] for tick in ticks] == sorted(tick["at"] for tick in ticks)
    names = [tick["name"] for tick in ticks]
    assert (names.count("often"), names.count("nightly"), len(names)) == (4, 1, 6)
    # One of them may come between the moment from which the 24 h count and the look at what is still to come.
    [pulses] = [tick["times"] for tick in ticks if tick["name"] == "pulse"]
    assert pulses in (17_279, 17_280)
    [nightly] = [tick for tick in ticks if tick["name"] == "nightly"]
    assert nightly["in_its_zone"].endswith("T02:00:00+09:00")
    assert "02:00 Asia/Tokyo" in desk.fusiond("cron", "list", "--until", "tomorrow").out
    assert desk.fusiond("cron", "list", "--until", "never").status == 2
