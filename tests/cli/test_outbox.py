"""`fusiond outbox`: init prints what the file and the form say; list, retry and drop look after refused rows."""

import re
import sqlite3
import time

import pytest

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.outbox_verbs import OutboxState
from fusiond.outbox.migrations import FORMS
from tests.support.fusiond_command import fusiond, fusiond_here


def init(directory, outbox, *words):
    """The command for an outbox of a file."""
    (directory / "fusion.yaml").write_text(f"version: 1\ntasks: {{a: {{run: x.y}}}}\noutboxes: {{shop: {outbox}}}\n")
    return fusiond_here("outbox", "init", *words, cwd=directory)


@pytest.mark.parametrize("form", FORMS)
def test_the_address_says_the_database_and_the_role_of_the_daemon(form, tmp_path):
    """It connects to nothing."""
    done = init(tmp_path, "{url: 'postgres://carrier@no-such-host/d', tasks: [a]}", "shop", "--format", form)
    assert done.status == 0, done.err
    assert 'DELETE ON "public"."fusion_outbox" TO "carrier"' in done.out
    assert "--application" in done.err
    assert "INSERT (" not in done.out
    both = init(tmp_path, "{url: 'postgres://h/d', tasks: [a]}", "shop", "--application", "app", "--relay", "other")
    assert [role for role in ("app", "other") if f'TO "{role}"' in both.out] == ["app", "other"]
    assert not both.err


def test_sqlite_has_neither_roles_nor_schemas(tmp_path):
    """And the command says nothing of them."""
    done = init(tmp_path, "{url: 'sqlite:////srv/shop.db', tasks: [a]}", "shop")
    assert (done.status, done.err, "GRANT" in done.out, "public" in done.out) == (0, "", False, False)


def test_an_address_that_only_the_daemon_may_read_is_not_needed(tmp_path):
    """It is for PostgreSQL then, and the command says what is missing."""
    (tmp_path / "db").touch(mode=0)
    init(tmp_path, "{url_file: db, tasks: [a]}", "shop")
    done = fusiond("outbox", "init", "shop", cwd=tmp_path, as_person=True)
    assert (done.status, "timestamptz" in done.out) == (0, True)
    assert "cannot be read" in done.err


def test_an_outbox_that_there_is_not(tmp_path):
    """The nearest name is offered."""
    done = init(tmp_path, "{url: 'sqlite:////srv/shop.db', tasks: [a]}", "shpo")
    assert (done.status, "'shop'" in done.err) == (1, True)


@pytest.fixture
def table(desk):
    """A table on SQLite with a row that waits and three that were refused, and the file that names it."""
    path = desk.cwd / "shop.db"
    text = (
        f"version: 1\ntasks: {{send: {{run: x.y}}}}\noutboxes: {{shop: {{url: 'sqlite:///{path}', tasks: [send]}}}}\n"
    )
    (desk.cwd / "fusion.yaml").write_text(text)
    table = sqlite3.connect(path, isolation_level=None)
    table.executescript(desk.fusiond("outbox", "init", "shop").out)
    table.execute("INSERT INTO fusion_outbox (id, task) VALUES ('waits', 'send')")
    for number in (1, 2, 3):
        values = f"('r{number}', 'send', {number}, 'reason {number}')"
        table.execute(f"INSERT INTO fusion_outbox (id, task, refused_at, refused_because) VALUES {values}")
    yield table
    table.close()


def left(table):
    """Id → whether it is refused."""
    return dict(table.execute("SELECT id, refused_at IS NOT NULL FROM fusion_outbox"))


def test_refused_rows_are_listed_newest_first(desk, table):
    """With the reason of each."""
    done = desk.fusiond("outbox", "list", "shop", "--limit", "2", "--json")
    assert [(row["id"], row["because"]) for row in done.json] == [("r3", "reason 3"), ("r2", "reason 2")]
    assert "reason 3" in desk.fusiond("outbox", "list", "shop").out


def test_refused_rows_are_retried(desk, table):
    """All, or those that are named; a row that is not refused is none of them."""
    desk.run(desk.verbs.keep_events(DAEMONS, "1000 0"))
    done = desk.fusiond("outbox", "retry", "shop", "r1", "waits")
    assert (done.status, done.out.strip()) == (1, "1 row tried again")
    assert left(table) == {"waits": 0, "r1": 0, "r2": 1, "r3": 1}
    assert desk.fusiond("outbox", "retry", "shop").status == 0
    assert not any(left(table).values())
    [first, _] = desk.run(desk.verbs.events_before(DAEMONS, None, 9)).events
    assert first.name == "outbox.retried"
    assert first.by


def test_refused_rows_are_dropped(desk, table):
    """All only if that is said; rows that wait stay."""
    done = desk.fusiond("outbox", "drop", "shop")
    assert (done.status, "delete 3 refused rows" in done.err, len(left(table))) == (2, True, 4)
    assert desk.fusiond("outbox", "drop", "shop", "r1", "--yes").status == 0
    assert desk.fusiond("outbox", "drop", "shop", "--yes").out.strip() == "2 rows deleted"
    assert left(table) == {"waits": 0}


def test_outboxes_of_living_daemons_are_listed(desk):
    """With what is wrong with each."""
    more = {"priorities": {}, "queues": [], "digests": {"outboxes": {"shop": "abc", "new": "d"}}}
    desk.run(desk.verbs.publish_catalogue("other", "h2", {}, **more))
    state = OutboxState(waiting=3, refused=1, oldest=99.0, host="box", at=time.time())
    desk.run(desk.verbs.hold_outbox("shop", "token", 60_000, state))
    out = desk.fusiond("outbox", "list", "--wide").out
    assert re.search(r"shop +3 +1 +1m 39s +box +outbox 'shop': the oldest of 3 rows waits for 1m 39s", out)
    assert "outbox 'new': no daemon has handed over rows yet" in out
    assert desk.fusiond("outbox", "list", "--json").json["shop"]["waiting"] == 3
