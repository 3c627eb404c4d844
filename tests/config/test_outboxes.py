"""Outboxes of a Config: which tasks a row may name, how long receipts are kept, what is shown of an address."""

import json
import subprocess
import sys

import pytest

import fusiond
from fusiond.callbacks import WEBHOOK_TASK
from fusiond.config.accepted.snapshot import read_snapshot
from fusiond.config.database_url import database_url
from fusiond.config.load import load
from fusiond.config.model import Config, Outbox
from fusiond.config.secrets import hidden_config
from fusiond.errors import ConfigError
from fusiond.schedule.drift import digests

TASKS = """
tasks:
  send_receipt: {run: x.a, aliases: [mail_receipt], failure_ttl: 3d, on_failure: {webhook: "https://h/x"}}
  send_report: {run: x.b, failure_ttl: 9d}
  index: {run: x.c}
"""


def config_of(outbox):
    """The Config of a file with the outbox `shop`."""
    text = f"version: 1\n{TASKS}outboxes: {{shop: {outbox}}}\n"
    loaded = load("/srv/fusion.yaml", environ={"DB": "postgresql://u:hunter2@db/shop"}, data=text.encode())
    assert loaded.config is not None, loaded.problems
    return loaded.config


def test_a_row_may_name_the_tasks_that_match_and_their_former_names():
    """A pattern does not give out the task that signs requests to any URL."""
    config = config_of("{url: 'postgresql://h/d', tasks: ['send_rec*']}")
    assert [*config.tasks_of(config.outboxes["shop"])] == ["send_receipt", "mail_receipt"]
    config = config_of("{url: 'postgresql://h/d', tasks: ['*']}")
    assert WEBHOOK_TASK in config.tasks
    assert {*config.tasks_of(config.outboxes["shop"])} == {"send_receipt", "mail_receipt", "send_report", "index"}


def test_a_receipt_is_kept_a_day_longer_than_any_job_of_its_tasks():
    """Unless the file says how long."""
    config = config_of("{url: 'postgresql://h/d', tasks: ['send_*']}")
    assert config.receipt_ttl(config.outboxes["shop"]) == 10 * 86400
    config = config_of("{url: 'postgresql://h/d', tasks: ['send_*'], receipt_ttl: 60d}")
    assert config.receipt_ttl(config.outboxes["shop"]) == 60 * 86400


def test_the_program_reads_what_the_file_says():
    """A path starts at the file that holds it."""
    config = config_of("{url_file: db, tasks: [index], wake: notify, poll: 200ms, schema: s, durability: replica}")
    assert config.outboxes["shop"].url_file == "/srv/db"
    assert Config.from_json(config.to_json()) == config


def test_the_password_of_an_address_is_neither_shown_nor_part_of_a_digest():
    """Wherever it stands in the address, and if a variable has brought it."""
    shown, plain = (config_of(f"{{url: '{url}', tasks: [index]}}") for url in ("${DB}", "postgresql://u:x@db/shop"))
    [url] = [outbox["url"] for outbox in hidden_config(json.loads(shown.to_json()))["outboxes"].values()]
    assert url == "postgresql://u:***@db/shop"
    assert digests(shown)["outboxes"] == digests(plain)["outboxes"]
    config = config_of("{url: 'postgresql://u@db/shop?password=hunter2', tasks: [index]}")
    assert "hunter2" not in str(hidden_config(json.loads(config.to_json())))
    assert digests(config)["outboxes"] != digests(shown)["outboxes"]


@pytest.mark.parametrize(
    ("text", "found", "user"),
    [
        ("postgres://u%40x:p@h:5432/d", "postgresql+psycopg://u%40x:p@h:5432/d", "u@x"),
        ("postgresql:///d?host=/run/postgresql&user=u", "postgresql+psycopg:///d?host=/run/postgresql&user=u", "u"),
        ("postgresql+psycopg://h/d", "postgresql+psycopg://h/d", ""),
        ("sqlite:////srv/a@b.db", "sqlite:////srv/a@b.db", ""),
    ],
)
def test_an_address_is_the_same_from_the_file_and_from_a_file_of_its_own(text, found, user, tmp_path):
    """Its driver is the one that fusiond[outbox] installs."""
    (tmp_path / "db").write_text(f"{text}\n")
    for outbox in (Outbox(("a",), url=text), Outbox(("a",), url_file=str(tmp_path / "db"))):
        assert (database_url(outbox).text, database_url(outbox).user) == (found, user)


def test_an_address_that_only_the_program_reads_is_checked_there(tmp_path):
    """What `validate` says of `url`, the error says of the file's address, without a password."""
    (tmp_path / "db").write_text("mysql://u:hunter2@h/d")
    with pytest.raises(ConfigError, match=r"mysql:// .*; write postgresql") as caught:
        database_url(Outbox(("a",), url_file=str(tmp_path / "db")))
    assert "hunter2" not in str(caught.value)
    (tmp_path / "db").write_text("sqlite:////d")
    with pytest.raises(ConfigError, match="wake; remove"):
        database_url(Outbox(("a",), url_file=str(tmp_path / "db"), wake="notify"))
    with pytest.raises(FileNotFoundError):
        database_url(Outbox(("a",), url_file=str(tmp_path / "none")))


@pytest.mark.parametrize("password", ["hun@ter2", "hun/ter2", "hun?ter2", "hun#ter2", "1/ter2", "1?ter2"])
def test_a_password_that_is_not_escaped_is_refused_and_not_quoted(password):
    """As what stands behind the character would be the host, which is shown."""
    with pytest.raises(ConfigError, match="%40 for @") as caught:
        database_url(Outbox(("a",), url=f"postgresql://u:{password}@h/d"))
    assert "ter2" not in str(caught.value)


def test_a_daemon_for_development_takes_no_rows_of_production(tmp_path):
    """It runs beside the production daemon, with the same file and another Redis; SQLite is for development."""
    file, out = tmp_path / "fusion.yaml", tmp_path / "candidate.json"
    file.write_text(
        f"version: 1\n{TASKS}outboxes:\n  shop: {{url: 'postgresql://h/d', tasks: [index]}}\n"
        "  file: {url_file: fusion.yaml, tasks: [index]}\n  mine: {url: 'sqlite:////tmp/x.db', tasks: [index]}\n"
    )
    request = {"version": fusiond.__version__, "file": str(file), "out": str(out), "generation": 1}
    for development, names in ((False, ["shop", "file", "mine"]), (True, ["mine"])):
        asked = json.dumps({**request, "development": development})
        subprocess.run([sys.executable, "-m", "fusiond.config.candidate", asked], check=True, capture_output=True)
        assert sorted(read_snapshot(out).config.outboxes) == sorted(names)
