"""Rules whose one example in the table is not enough: where they speak up, and where they do not."""

import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusiond.config.accepted import explain
from fusiond.config.calendar_days import holidays_of
from fusiond.config.lint import machine, policies, systemd_unit
from fusiond.config.lint.reports import as_json, as_text
from fusiond.config.load import load
from fusiond.config.model import RetryPolicy
from fusiond.config.quota import memory_limit
from fusiond.config.yaml import includes, source
from fusiond.worker.dispatcher.ends.verdicts import backoff

SHIPPED = Path(__file__).parents[3] / "systemd" / "fusiond.service"
TASK = "version: 1\ntasks: {a: {run: x.y}}\nworkers: {m: {}}\n"


def problems(text, **more):
    return load("f.yaml", environ={}, data=text.encode(), elsewhere=True, **more).problems


def codes(text, **more):
    return [problem.code for problem in problems(text, **more)]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("{min: 2, max: 8}", []), ("{max: auto}", []), ("{min: 999, max: auto, target_latency: 1ms}", []),
        ("{min: 3, max: 2}", ["processes-order"]), ("{min: 2, max: 2}", ["ignored-key"]),
        ("{max: 2, target_latency: 0s}", ["out-of-range"]), ("{min: 0, max: 2}", ["out-of-range"]),
        ("{max: 0}", ["out-of-range"]), ("{max: 5000}", ["out-of-range"]), ("{min: 2}", ["missing-key"]),
        ("{min: auto, max: 2}", ["wrong-type"]), ("{max: many}", ["bad-value"]), ("{max: 2, more: 3}", ["unknown-key"]),
    ],
)  # fmt: skip
def test_a_range_of_processes(written, found):
    """It has a least, a most that is above it, and a target that can be met."""
    assert codes(f"version: 1\ntasks: {{a: {{run: x.y}}}}\nworkers: {{m: {{processes: {written}}}}}\n") == found


# -- schedules


@pytest.mark.parametrize(
    "schedule",
    [
        "* * * * *", "*/5 * * * *", "* 9-17 * * 1-5", "*/15 */6 * * *", "0 2 13 * *", "0 2 * * 5", "0 0 1,15 * *",
        "0 2 28 * *", "0 2 31 1 *", "0 2 31 1,3,5 *", "0 2 L * *", "0 */1 * * *", "30 2 * * 1-5",
        "0 2 ? * 1", "0 2 13 * ?",
    ],
)  # fmt: skip
def test_a_schedule_that_is_meant_is_left_alone(schedule):
    """No warning where a person who knows cron would see none."""
    assert codes(f'{TASK}cron: {{c: {{task: a, schedule: "{schedule}"}}}}\n') == []


# -- retry policies


@given(
    st.builds(
        RetryPolicy,
        max_attempts=st.integers(1, 40),
        backoff=st.sampled_from(["fixed", "linear", "exponential", "list"]),
        delay=st.floats(0, 1000),
        delays=st.lists(st.floats(0, 1000), min_size=1, max_size=5).map(tuple),
        max_delay=st.floats(0, 5000),
        jitter_share=st.just(0.0),
    )
)
def test_the_last_retry_is_when_the_worker_would_make_it(policy):
    """The sum of the delays that worker.retry gives, to its last µs."""
    waits = [backoff(policy, attempt, Random(1)) for attempt in range(1, policy.max_attempts)]
    assert policies.last_retry(policy) == pytest.approx(sum(waits), abs=1e-3)


# -- the unit


def test_a_drop_in_of_the_unit_wins(tmp_path):
    """The last one in alphabetical order; a unit without the key has systemd's 90 s."""
    path = tmp_path / "fusiond.service"
    path.write_text("[Service]\nType=notify\n")
    assert systemd_unit.timeout_stop(path) == 90
    (tmp_path / "fusiond.service.d").mkdir()
    (tmp_path / "fusiond.service.d" / "10.conf").write_text("[Service]\nTimeoutStopSec=1h\n")
    (tmp_path / "fusiond.service.d" / "20.conf").write_text("[Service]\nTimeoutStopSec=2h\n")
    assert systemd_unit.timeout_stop(path) == 7200
    assert systemd_unit.installed(path.name, (tmp_path / "no", tmp_path)) == path


@pytest.mark.parametrize(
    ("broker", "drain", "fits"),
    [("embedded", 45, True), ("embedded", 46, False), ("redis://h", 75, True), ("redis://h", 76, False)],
)
def test_a_drain_fits_into_the_shipped_unit(broker, drain, fits):
    """15 s to settle, and 30 s for the embedded server, as the unit's own comment says."""
    text = f"version: 1\nbroker: {{url: '{broker}'}}\nworkers: {{m: {{drain_timeout: {drain}s}}}}\n"
    assert codes(text, unit_file=SHIPPED) == ([] if fits else ["drain-above-stop"])


# -- packages


def test_a_sink_whose_extra_is_not_installed_is_warned_of(monkeypatch):
    """At its kind, with the command that installs it; not for another machine, and no error where the file will run."""
    text = "version: 1\nevents: {sinks: {a: {kind: file, path: /tmp/x}, b: {kind: otlp, url: 'http://h'}}}\n"
    monkeypatch.setitem(sys.modules, "opentelemetry.proto", None)
    found = load("f.yaml", environ={}, data=text.encode(), to_run=True)
    (problem,) = [each for each in found.problems if each.code == "missing-extra"]
    assert (problem.line, problem.severity, problem.remedy) == (2, "warning", "pip install 'fusiond[otlp]'")
    assert problem.excerpt[problem.column - 1 :][: problem.width] == "otlp"
    assert found.config is not None
    assert codes(text) == []


def test_a_calendar_without_its_package_is_an_error_where_its_entries_would_tick(monkeypatch):
    """Elsewhere it is a warning; one with dates and weekends needs none."""
    text = f"{TASK}calendars: {{de: {{country: DE}}, rest: {{weekends: true, dates: [2026-12-24]}}}}\n"
    monkeypatch.setitem(sys.modules, "holidays", None)
    holidays_of.cache_clear()
    for to_run, severity in ((True, "error"), (False, "warning")):
        problems = load("f.yaml", environ={}, data=text.encode(), to_run=to_run).problems
        [problem] = [each for each in problems if each.code == "missing-extra"]
        assert (problem.severity, problem.remedy) == (severity, "pip install 'fusiond[calendars]'")
        assert problem.excerpt[problem.column - 1 :][: problem.width] == "DE"


# -- outboxes


@pytest.mark.parametrize(
    ("url", "is_plain"),
    [
        ("postgresql://u:hunter2@h/d", True), ("postgresql://u:${PASSWORD}@h/d", False), ("${URL}", False),
        ("postgresql://${DB_USER}:hunter2@h/d", True), ("postgresql://u@h/d?password=hunter2", True),
        ("postgresql://u@h/d?password=${PASSWORD}", False), ("postgresql://u:hun/ter2@h/d", False),
    ],
)  # fmt: skip
def test_the_password_of_an_outbox_is_found_in_the_file_and_never_shown(url, is_plain):
    """In the address or in its query; one that a variable brings is no mistake. A character that breaks the address
    does not show it either.
    """
    environ = {"PASSWORD": "hunter2", "URL": "postgresql://u:hunter2@h/d", "DB_USER": "u"}
    text = f"{TASK}outboxes: {{o: {{tasks: [a], url: '{url}'}}}}\n"
    problems = load("f.yaml", environ=environ, data=text.encode(), elsewhere=True).problems
    assert ["secret-in-clear"] * is_plain == [each.code for each in problems if each.code != "bad-url"]
    assert "hunter2" not in as_text(problems) + as_json(problems)
    assert "hun/ter2" not in as_text(problems) + as_json(problems)


def test_an_outbox_without_sqlalchemy_is_warned_of(monkeypatch):
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    text = f"{TASK}outboxes: {{o: {{tasks: [a], url: 'sqlite:////d'}}}}\n"
    (problem,) = [each for each in load("f.yaml", environ={}, data=text.encode()).problems if each.code[:4] == "miss"]
    assert (problem.code, problem.remedy) == ("missing-extra", "pip install 'fusiond[outbox]'")


# -- memory


def test_the_memory_of_all_groups_is_summed(monkeypatch):
    """At the largest share, with the sum written out."""
    monkeypatch.setattr(machine, "memory_limit", lambda: 2**30)
    text = (
        "version: 1\ndefaults: {workers: {isolation: process, max_memory: 256MiB}}\n"
        "workers: {a: {processes: 2}, b: {max_memory: 600MiB}}\n"
    )
    found = [p for p in load("f.yaml", environ={}, data=text.encode()).problems if p.code == "memory-above-host"]
    assert [(problem.line, problem.excerpt[problem.column - 1 :][: problem.width]) for problem in found] == [
        (3, "600MiB")
    ]
    assert "1112MiB (2 × 256MiB + 1 × 600MiB), and this machine has 1GiB" in found[0].message
    monkeypatch.setattr(machine, "memory_limit", lambda: 2 * 2**30)
    assert "memory-above-host" not in [p.code for p in load("f.yaml", environ={}, data=text.encode()).problems]


def test_the_limit_of_a_cgroup_counts(tmp_path):
    """The least of the machine's memory and what the group and those around it may have."""
    (tmp_path / "own").write_text("0::/a/b\n")
    assert memory_limit(tmp_path, tmp_path / "own") > 2**27
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text("1000000\n")
    assert memory_limit(tmp_path, tmp_path / "own") == 1_000_000


# -- secrets


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [
        ("DB_PASSWORD", "hunter2", True), ("password", "12345", True), ("API_KEY", "abc", True),
        ("SECRET_KEY", "'x y'", True), ("apikey", "abc", True), ("TOKEN_2", "abc", True),
        ("DATABASE_URL", "postgres://u:hunter2@h/db", True), ("X", "AKIAIOSFODNN7EXAMPLE", True),
        ("X", "ghp_" + "a" * 36, True), ("X", "'-----BEGIN RSA PRIVATE KEY-----'", True),
        ("DB_PASSWORD", "'${DB_PASSWORD:-}'", False), ("DB_PASSWORD", "''", False), ("DB_PASSWORD", "true", False),
        ("PASSWORD_FILE", "/run/secret", False), ("TOKEN", "/run/token", False), ("TOKENIZER", "bert", False),
        ("TOKEN_TTL", "60", False), ("URL", "https://h/a:b@c", False), ("MONKEY", "x", False),
    ],
)  # fmt: skip
def test_a_secret_is_found_by_its_key_or_form_and_never_shown(key, value, secret):
    """In variables and in arguments; whatever else is wrong in its line does not show it either."""
    for text in (
        f"version: 1\nworkers: {{m: {{environment: {{'a b': 1, {key}: {value}}}}}}}\n",
        f"{TASK}cron: {{c: {{task: a, every: 1ms, kwargs: {{n: [{{{key}: {value}}}]}}}}}}\n",
    ):
        problems = load("f.yaml", environ={}, data=text.encode(), elsewhere=True).problems
        assert ("secret-in-clear" in [problem.code for problem in problems]) == secret
        assert len(problems) == 1 + secret
        shown = as_text(problems) + as_json(problems)
        assert (value.strip("'") in shown) != secret or not value.strip("'")


@pytest.mark.parametrize(
    ("said", "codes"),
    [
        ("args: [hunter22, {n: [123456789]}]", ["secret-by-position"]),
        ("args: ['${PIN:-123456789}']", ["secret-by-position"]),
        ("args: [evident], kwargs: {pin: 123456789, login: {of: hunter22}}", ["secret-in-clear"] * 2),
    ],
)
def test_a_secret_argument_is_not_shown_however_the_file_passes_it(tmp_path, said, codes):
    """In another file than its task, a number, a part of a map; by position, none of the arguments is shown."""
    (tmp_path / "f.yaml").write_text(
        "version: 1\ninclude: [g.yaml]\ntasks: {a: {run: x.y, secret: [kwargs.pin, kwargs.login]}}\n"
        "workers: {m: {queues: [default]}}\n"
    )
    call = f"{{task: a, {said}}}"
    (tmp_path / "g.yaml").write_text(f"cron: {{c: {{every: 1h, {call[1:]}}}\nflows: {{f: {{steps: {{s: {call}}}}}}}\n")
    found = load(tmp_path / "f.yaml", environ={}, elsewhere=True)
    assert [each.code for each in found.problems if each.code.startswith("secret")] == codes * 2
    values = [*explain.cron(found.tree.root, found.config, "c"), *explain.flow(found.tree.root, found.config, "f")]
    shown = as_text(found.problems) + str(values)
    assert [word for word in ("hunter22", "123456789") if word in shown.replace("${PIN:-123456789}", "")] == []
    assert ("evident" in shown) == ("evident" in said)


# -- bounds


@pytest.mark.parametrize("files", [4, 5])
def test_all_files_together_are_bounded(tmp_path, monkeypatch, files):
    """Each drop-in by itself may be small; of four the last is too much."""
    for module in (source, includes):
        monkeypatch.setattr(module, "MAX_NODES", 1000)
    for number in range(files):
        values = ", ".join(f"t{number}_{n}: {{run: x.y}}" for n in range(1000 // 8))
        (tmp_path / f"{number}.yaml").write_text(f"tasks: {{{values}}}\n")
    path = tmp_path / "fusion.yaml"
    path.write_text("version: 1\ninclude: ['[0-9].yaml']\n")
    found = [problem for problem in load(path, environ={}).problems if problem.is_error]
    assert [(problem.code, problem.line) for problem in found] == [("too-many-values", 2)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("logging: {file: logs}", "missing-file"),
        ("workers: {m: {environment_file: [latin.env]}}", "unreadable-file"),
        ("workers: {m: {environment_file: [export.env]}}", "unreadable-file"),
        ("webhooks: {secret_file: blank}", "unreadable-file"),
        (f"runtime_directory: /{'x' * 86}", "socket-path-too-long"),
        (f"runtime_directory: /{'x' * 85}", None),
        (f"web: {{listen: unix:/{'x' * 107}}}", "socket-path-too-long"),
        (f"web: {{listen: unix:/{'x' * 106}}}", None),
    ],
)
def test_what_a_start_cannot_take_is_told_before(tmp_path, text, code):
    """A log that is a directory, an environment that is not text, a place for sockets that is one byte too long."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "latin.env").write_bytes(b"NAME=caf\xe9\n")
    (tmp_path / "blank").write_text(" \n")
    (tmp_path / "export.env").write_text("export NAME=coffee\n")
    (tmp_path / "fusion.yaml").write_text(f"version: 1\n{text}\n")
    loaded = load(tmp_path / "fusion.yaml", environ={}, to_run=True)
    assert [problem.code for problem in loaded.problems if problem.is_error] == ([code] if code else [])


@pytest.mark.parametrize(
    ("schedule", "gap"),
    [
        ("*/90 * * * *", 60), ("0/90 * * * *", 60), ("5/15 * * * *", None), ("7/20 * * * *", None),
        ("0 */36 * * *", 24), ("0 0 */40 * *", 31), ("0 0 */2 * *", 1), ("0 0 1 */13 *", 12), ("0 0 1 */3 *", None),
        ("0 0 1 2/5 *", 2), ("*/0 * * * *", None),
    ],
)  # fmt: skip
def test_a_step_that_begins_again_too_early_or_too_late(schedule, gap):
    """In each field that has values of its own; a step of 0 is an error."""
    text = f"{TASK}cron: {{c: {{task: a, schedule: '{schedule}'}}}}\n"
    found = [problem.message for problem in problems(text) if problem.code == "uneven-step"]
    assert [message.rpartition(" ")[2] for message in found] == ([] if gap is None else [str(gap)])
