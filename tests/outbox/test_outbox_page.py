"""The code of docs/outbox.md runs."""

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from tests.docs.blocks import BLOCKS
from tests.support.outbox_tables import PostgresShop

ROWS = "SELECT task, args, options FROM fusion_outbox ORDER BY created_at"
ORDERS = "CREATE TABLE orders (number {serial} PRIMARY KEY, email TEXT, reminders INTEGER NOT NULL DEFAULT 0);"
MODELS = """
from django.db import models

class Order(models.Model):
    email = models.EmailField()
"""
#: what a server of the project would do with two requests, of which the second one fails after its row
REQUESTS = """
import json
import django
from django.conf import settings
from django.db import connection

settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}})
django.setup()
from django.test import RequestFactory
from orders import views
from orders.models import Order

with connection.schema_editor() as editor:
    editor.create_model(Order)
post = RequestFactory().post
print(json.loads(views.create(post("/orders/", {"email": "ada@example.com"})).content))
views.JsonResponse = lambda *_, **__: 1 / 0
try:
    views.create(post("/orders/", {"email": "bob@example.com"}))
except ZeroDivisionError:
    print(Order.objects.count())
"""


class Base(orm.DeclarativeBase):
    """Of the page's Order."""


class Order(Base):
    __tablename__ = "orders"
    number: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    email: orm.Mapped[str]


def code(language, words):
    """The block of this language that has these words."""
    [found] = [each for each in BLOCKS if each.page == "outbox.md" and each.language == language and words in each.text]
    return found.text


@pytest.fixture
def shop(shop):
    """With orders, whose table is the application's own."""
    serial = "SERIAL" if isinstance(shop, PostgresShop) else "INTEGER"
    shop.run(ORDERS.format(serial=serial))
    if isinstance(shop, PostgresShop):
        shop.run(f"GRANT ALL ON orders, orders_number_seq TO {shop.role}")
    return shop


@pytest.fixture
def run(shop):
    """What a block of Python defines; SQLite marks a parameter otherwise."""

    def run(words, **names):
        text = code("python", words)
        exec(text if isinstance(shop, PostgresShop) else text.replace("%s", "?"), names)
        return names

    return run


@pytest.fixture
def connection(shop):
    """The application's."""
    opened = psycopg.connect(**shop.words) if isinstance(shop, PostgresShop) else sqlite3.connect(shop.path)
    with closing(opened) as connection:
        yield connection


def test_the_code_for_other_libraries(shop, run, connection):
    """An order and its rows are committed together."""
    number = run("RETURNING number")["place_order"](connection, "ada@example.com")
    assert shop.rows(ROWS) == [
        ("confirm", f"[{number}]", "{}"),
        ("ask_for_review", f"[{number}]", f'{{"delay": 259200.0, "key": "review-{number}"}}'),
    ]


def test_the_code_for_sqlalchemy(shop, run):
    """The row has the number that the database gave the order."""
    engine = sqlalchemy.create_engine(shop.url)
    with orm.Session(engine) as session:
        run("session.flush()  #", Order=Order)["place_order"](session, "ada@example.com")
    engine.dispose()
    asyncio.run(_place_later(shop, run("await session.flush()", **run("session.flush()  #", Order=Order))))
    assert shop.rows("SELECT number, email FROM orders") == [(1, "ada@example.com"), (2, "bob@example.com")]
    assert shop.rows(ROWS) == [("confirm", "[1]", "{}"), ("confirm", "[2]", "{}")]


async def _place_later(shop, own):
    engine = create_async_engine(shop.url.replace("sqlite:", "sqlite+aiosqlite:"))
    async with AsyncSession(engine) as session:
        await own["place_order_async"](session, "bob@example.com")
    await engine.dispose()


def test_the_code_for_django(sqlite_shop, tmp_path):
    """In a project: a view that succeeds leaves an order and its row, one that fails neither."""
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "models.py").write_text(MODELS.replace("    email", "    class Meta: app_label = 'orders'\n    email"))
    (orders / "views.py").write_text(code("python", "@transaction.atomic"))
    words = [sys.executable, "-c", REQUESTS]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["{'order': 1}", "1"], done.stderr
    assert sqlite_shop.rows(ROWS) == [("confirm", "[1]", "{}")]


def test_the_sql_for_rails(shop, connection):
    """It is the page's, with the values that Ruby would put into it."""
    text = code("ruby", "sanitize_sql")
    [sql] = re.findall(r'"(INSERT .*)"', text)
    values = ["confirm", "[7]", json.dumps({"delay": "5m"})]
    assert '[order.id].to_json, { delay: "5m" }.to_json' in text
    marked = sql.replace("?", "%s") if isinstance(shop, PostgresShop) else sql
    connection.cursor().execute(marked, values)
    connection.commit()
    assert shop.rows(ROWS) == [("confirm", "[7]", '{"delay": "5m"}')]


def test_the_plain_sql(shop, connection):
    """Each statement is one row; the function is PostgreSQL's own."""
    connection.cursor().execute(code("sql", "INSERT"))
    connection.commit()
    [(_, args, options)] = shop.rows(ROWS)
    assert (json.loads(args), json.loads(options)) == ([7], {"delay": "5m", "priority": "high"})


def test_the_function_of_postgresql(postgres_shop):
    """It returns the id of the row."""
    with psycopg.connect(**postgres_shop.words) as connection:
        selects = [each for each in code("sql", "SELECT").split(";") if each.strip()]
        ids = [connection.execute(each).fetchone()[0] for each in selects]
    found = postgres_shop.rows("SELECT id, task, args, kwargs, options FROM fusion_outbox ORDER BY created_at")
    assert found == [
        (ids[0], "confirm", "[7]", "{}", "{}"),
        (ids[1], "confirm", "[]", '{"number": 7}', '{"delay": "3d"}'),
    ]


@pytest.mark.parametrize(("words", "name"), [("receipt.rowcount", "remind"), ("outbox.once(", "remind_by_once")])
def test_the_code_of_the_receipts(shop, run, connection, words, name):
    """The work is done once in each round."""
    shop.run("INSERT INTO orders (email) VALUES ('ada@example.com')")
    remind = run(words)[name]
    for round_ in (1, 1, 2, 1):
        remind(connection, 1, {"id": "a", "round": round_})
    assert shop.rows("SELECT reminders FROM orders") == [(2,)]
