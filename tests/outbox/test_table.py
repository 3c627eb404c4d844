"""The database of an outbox, where it does not do what is asked: what is said of it."""

import traceback

import pytest

from fusiond.config.model import Outbox
from fusiond.outbox.table import OutboxError, Table
from tests.support.running import until


@pytest.fixture
def guarded(postgres):
    """Where a server listens that asks the role `guarded` for a password."""
    at, rules = f"127.0.0.1:{postgres.port}", postgres.data / "pg_hba.conf"
    if "guarded" in rules.read_text():
        return at
    rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    with postgres.connect() as connection:
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'sesame'")
        connection.execute("SELECT pg_reload_conf()")
        asks = "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method = 'scram-sha-256'"
        until(lambda: connection.execute(asks).fetchone()[0])
    return at


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://guarded:hunter2@{at}/postgres", 'password authentication failed for user "guarded"'),
        ("postgresql:///postgres?host={host}&port={port}&user=guarded&password=hunter2", "authentication failed"),
        ("postgresql://guarded:sesame@{at}/none", 'database "none" does not exist'),
        ("postgresql://guarded:hunter2@host.invalid/shop", "host.invalid/shop: "),
        ("postgresql://guarded:hunter2@127.0.0.1:1/shop", "Connection refused"),
        ("postgresql://guarded:hunter2@{at}/postgres?sslmode=odd", 'invalid sslmode value: "odd"'),
        ("postgresql://guarded:hunter2@swordfish@{at}/postgres", "in the password %23 for #.* and %40 for @"),
        ("postgresql://guarded:hunter2/swordfish@{at}/postgres", "%2F for /"),
        ("postgresql://guarded:1/swordfish@{at}/postgres", "%2F for /"),
        ("postgresql://guarded:hunter2#swordfish@{at}/postgres", "%23 for #"),
        ("postgresql://guarded:hunter2?swordfish@{at}/postgres", "%3F for ?"),
        ("postgresql://guarded:[hunter2@{at}/postgres", "%40 for @"),
        ("postgresql://guarded:hunter2@{at}/postgres\nswordfish", "on one line"),
        ("postgresql://guarded:hunter2%00@{at}/postgres", "on one line"),
        ("guarded:hunter2@{at}/postgres", "no scheme"),
    ],
)
def test_no_error_of_a_database_tells_the_password(url, said, guarded, tmp_path):
    """Neither ours, nor SQLAlchemy's, nor psycopg's, wherever the address is wrong."""
    host, _, port = guarded.partition(":")
    (tmp_path / "url").write_text(url.format(at=guarded, host=host, port=port))
    with pytest.raises(OutboxError, match=said) as caught:
        Table(Outbox(("a",), url_file=str(tmp_path / "url"))).check()
    told = "".join(traceback.format_exception(caught.value, chain=True))
    assert [word for word in ("hunter2", "swordfish", "sesame") if word in told] == []
