"""Databases with the tables of an outbox, as `fusiond outbox init` makes them, and whom applications connect as."""

import sqlite3
from contextlib import closing
from uuid import uuid4

import pytest

from fusiond.config.model import Outbox
from fusiond.outbox.migrations import migration


def tables(**keys):
    """The SQL that makes them. `keys`: of the outbox, and of `migration`."""
    own = {name: keys.pop(name) for name in ("application", "relay", "is_postgresql") if name in keys}
    return migration(Outbox(("*",), **keys), "sql", **{"is_postgresql": False, **own})


class SqliteShop:
    """A file."""

    def __init__(self, path):
        self.path, self.url = path, f"sqlite:///{path}"
        self.django = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path)}
        self.run(tables())

    def run(self, script):
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(script)

    def rows(self, query):
        """What is committed."""
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query).fetchall()


class PostgresShop:
    """A database of a server, and a role that may do what the migration grants to an application."""

    def __init__(self, server, name):
        self.server, self.name, self.role = server, name, f"shop_{uuid4().hex[:8]}"
        self.url = server.url(name, self.role)
        #: for psycopg and psycopg2
        self.words = {"host": str(server.directory), "port": server.port, "dbname": name, "user": self.role}
        at = {"HOST": str(server.directory), "PORT": str(server.port), "NAME": name, "USER": self.role}
        self.django = {"ENGINE": "django.db.backends.postgresql", **at}
        self.run(f"CREATE ROLE {self.role} LOGIN")
        self.run(tables(is_postgresql=True, application=self.role))

    def run(self, script):
        with self.server.connect(self.name) as connection:
            connection.execute(script)

    def rows(self, query):
        """What is committed."""
        with self.server.connect(self.name) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def sqlite_shop(tmp_path):
    return SqliteShop(tmp_path / "shop.db")


@pytest.fixture
def postgres_shop(postgres, database):
    return PostgresShop(postgres, database)


@pytest.fixture(params=["sqlite_shop", "postgres_shop"])
def shop(request):
    """One of each."""
    return request.getfixturevalue(request.param)
