"""`fusiond test`: each promise, each format, each mistake, each exit status. What simulates is a process of its own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import yaml

from fusiond.broker.call import as_is, plain
from fusiond.broker.redis.connection import connect
from fusiond.config import units
from fusiond.config.model import Broker
from fusiond.errors import BrokerError
from fusiond.simulation.replay import BEGIN
from fusiond.simulation.variants import NO_POOLS
from tests.support.fusiond_command import fusiond, fusiond_here
from tests.support.pace import pace
from tests.support.running import until

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "schemas" / "fusion-tests.schema.json").read_text())
FILE = """
version: 1
broker: {url: embedded}
queues: {mail: {max_length: 30}, reports: {}}
tasks:
  send: {run: shop.send, queue: mail, expires: 20s, retry: often}
  report: {run: shop.report, queue: reports, limit: {max_running: 1}}
retry_policies: {often: {max_attempts: 2, backoff: [1s], retry_on: [Exception]}}
flows: {etl: {steps: {load: {task: report}}}}
cron:
  nightly: {task: report, schedule: "30 2 * * *", timezone: Europe/Berlin}
  by_day: {task: report, schedule: "* * * * *", timezone: UTC, overlap: skip}
  etl: {flow: etl, schedule: "0 3 * * *", timezone: UTC}
workers:
  main: {queues: [mail], processes: 2, hosts: [web, "web-*"]}
  slow: {queues: [reports], processes: 2, hosts: [batch]}
"""
#: a load under which no figure but `left` and `jobs` of nobody is 0
BUSY = """
    for: 5m
    load:
      jobs:
        - {task: send, rate: 3/s, takes: {p50: 600ms, p99: 3s}, fails: 0.3}
        - {task: report, rate: 4/1m, takes: 1m30s}
"""
QUIET = """
    for: 10s
    load: {jobs: [{task: send, rate: 1/s, takes: 80ms}]}
"""
FIGURES = {
    "task": (
        "jobs",
        "wait_p50",
        "wait_p95",
        "wait_p99",
        "wait_max",
        "finished",
        "failed",
        "expired",
        "retries",
        "refused",
    ),
    "queue": ("backlog", "held", "left"),
    "group": ("busy",),
    "cron": ("ticks", "skipped"),
}
NAMES = {"task": "send", "queue": "reports", "group": "main", "cron": "by_day"}


@pytest.fixture
def shop(tmp_path):
    """A directory with the file; `test` writes tests beside it and runs them."""
    (tmp_path / "fusion.yaml").write_text(FILE)
    return Shop(tmp_path)


class Shop:
    def __init__(self, directory):
        self.directory = directory

    def write(self, *tests, name="fusion.tests.yml", head=""):
        (self.directory / name).write_text(
            f"version: 1\n{head}tests:\n" + "".join(f"  - name: {each}" for each in tests)
        )

    def test(self, *words, **environment):
        return fusiond("test", *words, cwd=self.directory, **environment)


def expecting(name, conditions, *items):
    """A test as the file has it."""
    return f"{name}{conditions}    expect: {json.dumps(items)}\n"


def written(figure, value):
    """A bound of a figure, as a person writes it; a share as exact as a file can be."""
    if figure == "busy":
        return f"{value * 100:.3f}%"
    return units.written(value) if figure.startswith("wait_") else value


def one_less(figure, value):
    """What is a little below."""
    return value - (0.001 if figure.startswith("wait_") or figure == "busy" else 1)


def measured(result):
    """Subject → figure → value, of a result in JSON."""
    cron = result["cron"][NAMES["cron"]]
    found = {word: result[f"{word}s"][NAMES[word]] for word in ("task", "queue", "group")}
    return found | {"cron": {"ticks": cron["ran"], "skipped": cron["skipped"]}}


def test_each_figure_holds_at_its_bound_and_not_a_little_beyond(shop):
    """`at_most`, `at_least` and `exactly` of all that can be promised, by what the simulation counts each time."""
    shop.write(expecting("a", BUSY, {"task": "send", "jobs": {"at_least": 1}}))
    done = shop.test("--json")
    assert done.status == 0, done.err
    first = done.json[0]["result"]
    found = measured(first)
    zero = {name for subject, names in FIGURES.items() for name in names if not found[subject][name]}
    assert zero <= {"left"}
    good, bad = [], []
    for subject, names in FIGURES.items():
        for name in names:
            value = found[subject][name]
            is_, less = written(name, value), written(name, max(0, one_less(name, value)))
            more = written(name, one_less(name, value) + 2 * (value - one_less(name, value)))
            about = {subject: NAMES[subject]}
            exactly = [] if name == "busy" else [{"exactly": is_}]
            upper = {"at_most": more if name == "busy" else is_}
            good += [about | {name: each} for each in (upper, {"at_least": less if name == "busy" else is_}, *exactly)]
            bad += [about | {name: each} for each in ({"at_least": more}, {"exactly": more})]
            bad += [about | {name: {"at_most": less}}] if value else []
    shop.write(expecting("good", BUSY, *good), expecting("bad", BUSY, *bad))
    done = shop.test("--json")
    assert done.status == 1, done.err
    kept, broken = done.json
    assert [problem["message"] for problem in kept["problems"]] == []
    assert kept["result"] == broken["result"] == first
    assert len(broken["problems"]) == len(bad) > 40
    assert {problem["code"] for problem in broken["problems"]} == {"broken-promise"}


def test_a_failure_says_what_was_expected_what_happened_and_when(shop):
    """Beside its place; the moment by the clock of the test, too."""
    clock = '\n    clock: {from: "2026-10-25T00:00+02:00", for: 5m}' + BUSY.replace("\n    for: 5m", "")
    item = {"task": "send", "wait_p99": {"at_most": "1ms"}, "retries": {"exactly": 0}}
    shop.write(expecting("a", clock, item, {"queue": "mail", "backlog": {"at_most": 1}}))
    done = shop.test()
    assert done.status == 1
    wait = r"wait_p99 of task 'send': expected at most 1ms, was \w+; the longest wait ended"
    moment = r"(\w+) after the begin, 2026-10-25T00:0\d:\d\d\+02:00   \[broken-promise\]\n"
    assert re.search(rf"fusion.tests.yml:\d+:\d+: error: {wait} {moment}", done.out), done.out
    assert re.search(rf"backlog of queue 'mail': expected at most 1, was \d+; the peak was {moment}", done.out), (
        done.out
    )
    assert re.search(r"retries of task 'send': expected exactly 0, was \d+   \[", done.out), done.out
    assert '"at_most": "1ms"' in done.out
    assert "failed  a\n" in done.out


def test_what_did_not_happen_holds_no_promise(shop):
    """A wait of a task of which no job began, and the share of a group that no host runs."""
    items = {"task": "report", "wait_p99": {"at_most": "1h"}}, {"group": "slow", "busy": {"at_most": "100%"}}
    shop.write(expecting("a", QUIET, *items), head="hosts: {web: 1}\n")
    done = shop.test()
    assert done.status == 1
    assert "expected at most 1h, was nothing, since no job of it began" in done.out
    assert "expected at most 100%, was nothing, since no host runs it" in done.out


def test_the_night_when_the_clocks_change(shop):
    """02:30 comes twice in Berlin, and the entry ticks once."""
    clock = '\n    clock: {from: "2026-10-25T00:00+02:00", for: 6h}\n'
    shop.write(expecting("a", clock, {"cron": "nightly", "ticks": {"exactly": 1}}))
    assert shop.test().status == 0


def test_hosts_and_faults(shop):
    """Of all tests, or of one: more hosts have more slots; what runs on a host that is gone waits for it."""
    busy = QUIET.replace("10s", "3m")
    outage = f"{busy}    faults: [{{host: web, at: 1m, for: 1m}}]\n"
    quick = {"task": "send", "expired": {"exactly": 0}, "wait_max": {"at_most": "5s"}}
    shop.write(
        expecting("all are there", busy, quick),
        expecting("the only one is gone", outage, quick),
        expecting("one of two is gone", outage.replace("web,", "web-1,") + "    hosts: {web: 2}\n", quick),
        head="hosts: {web: 1}\n",
    )
    done = shop.test("--format", "tap")
    assert done.status == 1
    assert re.findall(r"^(?:not )?ok .*", done.out, re.MULTILINE) == [
        "ok 1 - all are there",
        "not ok 2 - the only one is gone",
        "ok 3 - one of two is gone",
    ]


def test_a_load_of_a_file_its_scale_and_its_seed(shop):
    """The file stands beside the tests, wherever the command runs; the same seed gives the same figures."""
    (shop.directory / "load.jsonl").write_text('{"task": "send", "rate": "2/s", "takes": "80ms", "for": "10s"}\n')
    item = {"task": "send", "jobs": {"at_least": 1}}
    loads = (
        "{file: load.jsonl}",
        "{file: load.jsonl, scale: 5}",
        "{file: load.jsonl}\n    seed: 2",
        "{file: load.jsonl}",
    )
    shop.write(*(expecting(f"t{n}", f"\n    load: {load}\n", item) for n, load in enumerate(loads)))
    done = fusiond("test", shop.directory / "fusion.tests.yml", "--json", cwd=ROOT)
    assert done.status == 0, done.err
    first, scaled, other, again = [each["result"]["tasks"]["send"] for each in done.json]
    assert done.json[0]["result"]["length"] == 10
    assert 4 * first["jobs"] < scaled["jobs"] < 6 * first["jobs"]
    assert first == again != other


# -- formats ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def two(shop):
    """One test that holds, and one that does not, with a name that is awkward everywhere."""
    good, bad = {"task": "send", "jobs": {"at_least": 1}}, {"task": "send", "jobs": {"at_most": 0}}
    shop.write(expecting("plain", QUIET, good), expecting('"a <b> & #c, 100%\\n"', QUIET, good, bad, bad))
    return shop


def test_text(two):
    """A line for each test, and a last one."""
    done = two.test("--format", "text")
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("ok      plain\nfailed  a <b> & #c, 100%�\nfusion.tests.yml:")
    assert done.out.endswith("\n2 run, 1 failed\n")


def test_text_says_once_that_pools_are_not_simulated(two):
    """Even if all tests hold: they might not with the pools."""
    for line in ("pools: {licence: {slots: 1}}", "max_running: 9"):
        (two.directory / "fusion.yaml").write_text(f"{FILE}{line}\n")
        lines = two.test("--format", "text").out.splitlines()
        assert lines[0] == f"note: {NO_POOLS}"
        assert f"note: {NO_POOLS}" not in lines[1:]


def test_github(two):
    """Commands, which GitHub shows beside the lines; chosen by itself there."""
    done = two.test(GITHUB_ACTIONS="true")
    assert done.status == 1
    assert done.out == two.test("--format", "github").out
    line = (two.directory / "fusion.tests.yml").read_text().splitlines()[-1]
    columns = [match.start() + 1 for match in re.finditer("0(?=})", line)]
    commands = [text for text in done.out.splitlines() if text.startswith("::")]
    assert commands == [
        f"::error file=fusion.tests.yml,title=broken-promise,line=10,endLine=10,col={column},endColumn={column + 1}"
        f"::jobs of task 'send': expected at most 0, was {count}"
        for column, count in zip(columns, [re.search(r"was (\d+)", text)[1] for text in commands], strict=True)
    ]


def test_tap(two):
    """The plan, the results, and comments."""
    lines = two.test("--format", "tap").out.splitlines()
    assert lines[:4] == ["TAP version 14", "1..2", "ok 1 - plain", "not ok 2 - a <b> & \\#c, 100%�"]
    assert [line.startswith("# fusion.tests.yml:10:") for line in lines[4:]] == [True, True]


def test_junit(two):
    """One suite, one case for each test, one failure for each that does not hold."""
    suite = ET.fromstring(two.test("--format", "junit").out)
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuite", "2", "1")
    plain, broken = suite
    assert (plain.get("name"), len(plain), plain.get("line")) == ("plain", 0, "3")
    assert broken.get("name") == "a <b> & #c, 100%�"
    assert re.fullmatch(r"jobs of task 'send': expected at most 0, was \d+", broken[0].get("message"))
    assert len(broken[0].text.splitlines()) == 2


def test_json(two):
    """What does not hold with its place, and all figures."""
    plain, broken = two.test("--json").json
    assert (plain["name"], plain["problems"]) == ("plain", [])
    assert [problem["line"] for problem in broken["problems"]] == [10, 10]
    assert broken["result"]["tasks"]["send"]["jobs"] == plain["result"]["tasks"]["send"]["jobs"] > 0


# -- mistakes ---------------------------------------------------------------------------------------------------------

ITEM, FAULT = "{task: send, jobs: {at_most: 1}}", "faults: [{host: «web», at: 1m, for: 1m}]"


@pytest.mark.parametrize(
    ("text", "marked", "said"),
    [
        ("{task: «sned», jobs: {at_most: 1}}", "", "a simulation of the file has no task 'sned'; did you mean 'send'?"),
        ("{queue: «male», left: {exactly: 0}}", "", "no queue 'male'; did you mean 'mail'?"),
        ("{group: «mian», busy: {at_most: 1%}}", "", "no worker group 'mian'; did you mean 'main'?"),
        ("{cron: «nihtly», ticks: {exactly: 1}}", "", "no cron entry 'nihtly'; did you mean 'nightly'?"),
        ("{cron: «etl», ticks: {exactly: 1}}", "", "a simulation of the file has no cron entry 'etl'"),
        ("«{»task: send}", "", "the map has only task; write for example {"),
        ("«{»jobs: {at_most: 1}}", "", "neither task nor queue nor group nor cron is there; add one"),
        ("{queue: mail, «jobs»: {at_most: 1}}", "", "unknown key 'jobs'; known are queue, backlog, held, left"),
        ("{task: send, «wait_99»: {at_most: 1s}}", "", "unknown key 'wait_99'; did you mean 'wait_p99'?"),
        ("{task: send, wait_p99: {at_most: «2»}}", "", "2 has no unit; write 2s for seconds"),
        ("{group: main, busy: {at_most: «0.8»}}", "", "0.8 is not a share; write a percentage from 0% to 100%"),
        ("{task: send, jobs: {at_most: «-1»}}", "", "-1 is below 0"),
        ("{task: send, jobs: {«most»: 1}}", "", "unknown key 'most'; did you mean 'at_most'?"),
        ("{task: send, «jobs»: {}}", "", "the map is empty"),
        (ITEM, "hosts: {«wbe»: 1}", "no worker group runs on host 'wbe'; did you mean 'web'?"),
        (ITEM, "hosts: {web: «0»}", "0 is below 1"),
        (ITEM, f"hosts: {{web: 2}}\n    {FAULT.replace('web', 'batch')}", "`hosts` does not have 'batch'; known: web"),
        (
            ITEM, "hosts: {web: 1}\n    for: 1m\n    faults: [{host: web, at: «1m», for: 1m}]",
            "the fault begins at 1m, and the test lasts 1m",
        ),
        (ITEM, FAULT, "`hosts` does not have 'web'"),
        (ITEM, "for: «0s»", "'0s' is not a duration above 0"),
        (ITEM, "for: 1m\n    clock: {«for»: 1h}", "unknown key 'for'; known are from"),
        (ITEM, "clock: {from: «2026-10-25»}", "write a time with its offset, such as 2026-10-25T00:00+02:00"),
        (ITEM, "clock: {from: «2026-02-30T00:00Z»}", "day is out of range for month"),
        (ITEM, "load: {file: «no.jsonl»}", "no.jsonl: No such file or directory"),
        (ITEM, "load: {file: «bad.jsonl»}", "bad.jsonl, line 2: this is not JSON"),
        (ITEM, "load: {file: «other.jsonl»}", "task 'sent', which the file does not have; did you mean 'send'?"),
        (ITEM, "«load»: {file: a, jobs: [{task: send, rate: 1/s}]}", "file and jobs exclude each other"),
        (ITEM, "load: {jobs: [{task: «sned», rate: 1/s}]}", "did you mean 'send'?"),
        (ITEM, "load: {jobs: [{task: send, rate: «0/s»}]}", "'0/s' is not a rate; write jobs and a time"),
        (ITEM, "load: {jobs: [{task: «send», rate: 1/0s}]}", "load.jobs: rate: '1/0s' is not a rate above 0"),
        (ITEM, "load: {jobs: [{task: «send», rate: 1/s, takes: {p50: 2s, p99: 1s}}]}", "takes: a higher percentile"),
        (ITEM, "load: {jobs: [{task: send, rate: 1/s, takes: «5»}]}", "5 has no unit"),
        (ITEM, "load: {jobs: [{task: send, rate: 1/s, takes: {«50»: 5s}}]}", "'50' cannot be a percentile"),
        (ITEM, "load: {jobs: [{task: send, rate: 1/s, fails: «1%»}]}", "'1%' is not a number"),
        (ITEM, "«load»: {jobs: [{task: send, rate: 1000000/s}]}", "a simulation takes at most 10,000,000"),
        (ITEM, "load: {scale: «0», jobs: [{task: send, rate: 1/s}]}", "0 is below 0.001"),
    ],
)  # fmt: skip
def test_a_mistake_is_said_at_its_place(text, marked, said, shop):
    """With what to write; nothing is simulated, and the status is 2."""
    (shop.directory / "bad.jsonl").write_text('{"task": "send", "rate": "1/s"}\n{"task"\n')
    (shop.directory / "other.jsonl").write_text('{"task": "sent", "rate": "1/s"}\n')
    whole = f"version: 1\ntests:\n  - name: a\n    {marked}\n    expect: [{text}]\n"
    before, token, after = re.split("[«»]", whole)
    (shop.directory / "fusion.tests.yml").write_text(before + token + after)
    done = fusiond_here("test", cwd=shop.directory)
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    assert (done.status, done.out) == (2, "")
    assert len(re.findall(": error: ", done.err)) == 1, done.err
    assert f"fusion.tests.yml:{line}:{column}: error: " in done.err, done.err
    assert said in done.err, done.err
    assert f" {'^' * len(token)}\n" in done.err


def test_all_mistakes_are_said_at_once(shop):
    """Of all tests, each once, also what they share."""
    bad = [{"task": "sned", "jobs": {"at_most": 1}}, {"queue": "male", "left": {"exactly": 0}}]
    shop.write(*(expecting(f"t{n}", "\n", *bad) for n in range(2)), head="hosts: {wbe: 1}\n")
    assert shop.test().err.count(": error: ") == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "the file cannot be read: no such file or directory"),
        ("", "the file is empty"),
        ("tests: [", "never closed"),
        ("version: 1\n", "'tests' is missing"),
        ("version: 2\ntests: [{name: a, expect: [{task: send, jobs: {at_most: 1}}]}]\n", "2 is not supported"),
        ("version: 1\ntests: []\n", "the list is empty"),
        ("version: 1\ntests: [{name: '${NO_SUCH}', expect: []}]\n", "NO_SUCH is not set"),
    ],
)
def test_a_file_of_tests_that_cannot_be_used(text, said, shop):
    """Status 2."""
    if text is not None:
        (shop.directory / "fusion.tests.yml").write_text(text)
    done = fusiond_here("test", cwd=shop.directory)
    assert (done.status, done.out) == (2, "")
    assert said in done.err


def test_a_file_that_cannot_be_used_is_no_broken_promise(shop):
    """Nor one that is not there: status 2, where `validate` has 1."""
    shop.write(expecting("a", QUIET, {"task": "send", "jobs": {"at_least": 1}}))
    (shop.directory / "fusion.yaml").write_text("version: 1\ntaks: {}\n")
    done = fusiond_here("test", cwd=shop.directory)
    assert (done.status, done.out) == (2, "")
    assert "unknown key 'taks'" in done.err
    assert fusiond_here("test", "-c", "no.yaml", cwd=shop.directory).status == 2


# -- which file -------------------------------------------------------------------------------------------------------


def test_tests_in_the_place_of_the_file_and_the_reverse(shop):
    """Each says which command to run."""
    shop.write(expecting("a", QUIET, {"task": "send", "jobs": {"at_least": 1}}))
    for words in (
        ["validate", "fusion.tests.yml"],
        ["validate", "-c", "fusion.tests.yml"],
        ["simulate", "fusion.tests.yml", "--load", "x"],
        ["explain", "-c", "fusion.tests.yml", "task", "send"],
        ["test", "-c", "fusion.tests.yml"],
    ):
        done = fusiond_here(*words, cwd=shop.directory)
        assert "this is a tests file; run `fusiond test fusion.tests.yml`" in done.out + done.err, words
        assert done.status == (2 if words[0] == "test" else 1)
    done = fusiond_here("test", "fusion.yaml", cwd=shop.directory)
    assert done.status == 2
    assert "this file has no tests; run `fusiond test -c fusion.yaml`" in done.err


def test_a_key_tests_in_the_file_says_where_it_belongs(shop):
    """The file has other sections: it is not taken for a file of tests."""
    (shop.directory / "fusion.yaml").write_text(FILE + "tests: []\n")
    done = fusiond_here("validate", cwd=shop.directory)
    assert done.status == 1
    assert "unknown key 'tests'; tests stand in a file beside this one, fusion.tests.yml" in done.out


def test_no_glob_takes_in_tests(shop):
    """A file of them stands beside each file of a directory; by its own name it is refused."""
    (shop.directory / "conf.d").mkdir()
    (shop.directory / "conf.d" / "a.yml").write_text("tasks: {a: {run: x.y}}\n")
    shop.write(expecting("a", QUIET, {"task": "send", "jobs": {"at_least": 1}}), name="conf.d/a.tests.yml")
    main = shop.directory / "fusion.yaml"
    main.write_text(FILE + "include: ['conf.d/*.yml']\n")
    assert fusiond_here("explain", "task", "a", cwd=shop.directory).status == 0
    main.write_text(FILE + "include: ['conf.d/a.tests.yml']\n")
    done = fusiond_here("validate", cwd=shop.directory)
    assert done.status == 1
    assert "conf.d/a.tests.yml:2:1: error: this is a tests file" in done.out


def test_the_file_is_the_one_beside_its_tests_unless_it_is_named(shop):
    """Several files of tests, each with its own; -c gives all of them one."""
    others = shop.directory / "others"
    others.mkdir()
    (others / "b.c.yml").write_text(FILE.replace("  send:", "  deliver:"))
    shop.write(expecting("a", QUIET, {"task": "send", "jobs": {"at_least": 1}}))
    other = QUIET.replace("send", "deliver")
    shop.write(expecting("b", other, {"task": "deliver", "jobs": {"at_least": 1}}), name="others/b.c.tests.yml")
    files = "fusion.tests.yml", "others/b.c.tests.yml"
    done = shop.test(*files)
    assert (done.status, done.out) == (0, "ok      a\nok      b\n2 run, 0 failed\n"), done.err
    done = shop.test(*files, "-c", "fusion.yaml")
    assert done.status == 2
    assert "no task 'deliver'" in done.err


# -- the whole --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["etc/fusion.yaml", "fusiond/starters/first/fusion.yaml"])
def test_the_tests_that_ship_hold(path):
    """Of the example, and of what `fusiond init` writes."""
    done = fusiond("test", "-c", path, cwd=ROOT)
    assert done.status == 0, done.out + done.err


def test_ten_small_tests_take_three_seconds(shop):
    """Each of a minute; what is counted is the processor's time of all processes, on a machine at rest."""
    minute = QUIET.replace("10s", "1m")
    shop.write(*(expecting(f"t{n}", minute, {"task": "send", "jobs": {"at_least": 1}}) for n in range(10)))
    slowness = pace()
    script = (
        "import resource, sys; from fusiond.cli import main; status = main(['test']); "
        "print(sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))); "
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=shop.directory, capture_output=True, text=True, check=True
    )
    assert float(done.stdout.splitlines()[-1]) <= 3 * slowness


def _simulated_seconds(directory):
    """How far the test is that runs; each has a server of its own."""
    for socket in directory.glob("*/socket"):
        with contextlib.suppress(BrokerError), connect(Broker(f"unix://{socket}"), directory) as connection:
            return int(connection.run(plain(as_is, "GET", "clock:s")) or 0) - BEGIN.timestamp()
    return 0


def test_an_interrupted_run_says_what_it_has(shop):
    """With the status of an interruption; no server stays behind."""
    endless = QUIET.replace("10s", "100d").replace("1/s", "1/1m")
    shop.write(
        expecting("a", QUIET, {"task": "send", "jobs": {"at_least": 1}}),
        expecting("b", endless, {"task": "send", "jobs": {"at_least": 1}}),
    )
    with (
        tempfile.TemporaryDirectory(prefix="ft-", dir="/tmp") as temporary,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "fusiond.cli", "test"],
            cwd=shop.directory, env={**os.environ, "TMPDIR": temporary},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as done,
    ):  # fmt: skip
        until(lambda: _simulated_seconds(Path(temporary)) > 3600)  # so the second test runs
        done.send_signal(signal.SIGINT)
        out, err = done.communicate(timeout=60)
        assert list(Path(temporary).iterdir()) == []
    assert (done.returncode, out) == (130, "ok      a\n1 run, 0 failed\n"), err
    assert "interrupted: 1 of 2 tests were run" in err


# -- the schema -------------------------------------------------------------------------------------------------------


def properties(schema):
    """Each key that the schema describes, with its name; what another key does to a key is no description."""
    for key, found in schema.items():
        if key in ("properties", "dependentSchemas", "$defs"):
            yield from ((name, each) for name, each in found.items() if key == "properties" and isinstance(each, dict))
            for each in filter(None, found.values()):
                yield from properties(each if isinstance(each, dict) else {})
        elif isinstance(found, dict):
            yield from properties(found)


def test_each_key_of_the_schema_describes_itself():
    """A title, a description, and examples that are valid."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    keys = list(properties(SCHEMA))
    assert {name for names in FIGURES.values() for name in names} <= {name for name, _ in keys}
    for name, key in keys:
        if name == "clock" and "title" not in key:
            continue  # what it may have beside the test's own `for`
        assert key["title"], name
        assert key["description"].endswith("."), name
        assert key["examples"], name
        for example in key["examples"]:
            jsonschema.validate(example, {**key, "$defs": SCHEMA["$defs"]}, jsonschema.Draft202012Validator)


def test_an_editor_takes_what_the_command_takes():
    """The example, by the schema alone, which the command prints; a promise without a bound is refused."""
    schema = fusiond_here("schema", "--tests", cwd=ROOT).json
    assert schema == SCHEMA
    said = yaml.safe_load((ROOT / "etc" / "fusion.tests.yml").read_text())
    jsonschema.validate(said, schema)
    said["tests"][0]["expect"].append({"task": "welcome"})
    assert not jsonschema.Draft202012Validator(schema).is_valid(said)
