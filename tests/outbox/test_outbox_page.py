"""The code of docs/outbox.md runs."""

import sqlite3
from contextlib import closing

import pytest

from tests.docs.blocks import BLOCKS

ORDERS = "CREATE TABLE orders (number INTEGER PRIMARY KEY, email TEXT, receipts INTEGER NOT NULL DEFAULT 0);"


def block(language, words):
    """The code of this language that has these words."""
    [found] = [each for each in BLOCKS if each.page == "outbox.md" and each.language == language and words in each.text]
    return found.text


@pytest.fixture
def shop(sqlite_shop):
    """A database with orders, and the tables of an outbox."""
    with closing(sqlite3.connect(sqlite_shop.path)) as connection:
        connection.executescript(ORDERS)
        yield connection


def test_the_code_of_the_dbapi(shop):
    """An order and its rows are committed together; a receipt is sent once in each round."""
    own = {}
    for words in ("outbox.enqueue(connection", "outbox.once(connection"):
        exec(block("python", words).replace("%s", "?"), own)  # as SQLite marks a parameter
    number = own["place_order"](shop, "ada@example.com")
    found = shop.execute("SELECT task, args, options FROM fusion_outbox ORDER BY task DESC").fetchall()
    assert found == [
        ("send_receipt", f"[{number}]", "{}"),
        ("ask_for_review", f"[{number}]", f'{{"delay": 259200.0, "key": "review-{number}"}}'),
    ]
    for round_ in (1, 1, 2):
        own["send_receipt"](shop, number, {"id": "a", "round": round_})
    assert shop.execute("SELECT receipts FROM orders").fetchall() == [(2,)]
