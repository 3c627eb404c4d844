import pytest

from tests.fusiond_command import fusiond

FILE = """
version: 1
defaults: {workers: {directory: .}}
queues: {reports: {}}
tasks:
  report: {run: shop.report, queue: reports}
cron:
  nightly: {task: report, schedule: "30 2 * * *", timezone: Europe/Berlin, kwargs: {region: eu}}
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
    done = fusiond("cron", "explain", "nightly", "--next", "400", "--json", cwd=place)
    ticks = done.json
    assert len(ticks) == 400
    assert [tick["at"] for tick in ticks] == sorted({tick["at"] for tick in ticks})
    # In 400 nights the clocks skip 02:30 once and show it twice once; both are said.
    assert [tick["local"][11:16] for tick in ticks].count("02:30") == 399
    assert {tick["note"].split(" on ")[0] for tick in ticks} == {"", "02:30 does not exist", "02:30 comes twice"}


def test_explain_is_for_people(place):
    """A line for each tick, with how long it still is."""
    lines = fusiond("cron", "explain", "often", "--next", "2", cwd=place).out.splitlines()
    assert len(lines) == 2
    assert "UTC" in lines[0]
    assert " in " in lines[0]


def test_an_unknown_entry_is_named_with_the_nearest(place):
    """One sentence, status 1."""
    done = fusiond("cron", "explain", "nihgtly", cwd=place)
    assert (done.status, done.err) == (1, "fusiond: no cron entry 'nihgtly'; did you mean 'nightly'?\n")
