"""
One application: random transactions on a database with an outbox, until it is killed.

    application.py TARGET TRIED SEED SLOWEST PAUSE

1. note    in the file TRIED, the ids of a transaction, and whether it is to be committed (c) or rolled back (r)
2. insert  1 to 5 rows of the outbox, and the same ids into the table `ledger`
3. end     commit two of three, at once or after up to SLOWEST s, while others go on

The table says what was committed, whatever is killed. TARGET: `sqlite:PATH`, or what psycopg connects to.
"""

import contextlib
import os
import random
import sqlite3
import sys
import time
from uuid import uuid4

from fusiond import outbox

#: share of the transactions that are rolled back; of those that stay open; how many of these at once
ROLLED_BACK, OPEN, MOST_OPEN = 1 / 3, 0.04, 5


class Application:
    """Its transactions."""

    def __init__(self, target, tried, rand, slowest):
        """`slowest`: s for which a transaction may stay open."""
        self._target, self._rand, self._slowest = target, rand, slowest
        self._tried = os.open(tried, os.O_WRONLY | os.O_APPEND)
        self._is_sqlite = target.startswith("sqlite:")
        if self._is_sqlite:
            self._errors = sqlite3.Error
        else:
            import psycopg  # here, since SQLite needs none

            self._errors, self._driver = psycopg.Error, psycopg
        self._connection = None
        #: monotonic s, connection, whether it is to be committed
        self._open = []

    def transact(self):
        """One transaction. What the database fails is tried no further."""
        self._end_due()
        commits = self._rand.random() >= ROLLED_BACK
        ids = [uuid4().hex for _ in range(self._rand.randint(1, 5))]
        os.write(self._tried, f"{'c' if commits else 'r'} {' '.join(ids)}\n".encode())
        try:
            connection, self._connection = self._connection or self._connect(), None
            stays_open = len(self._open) < MOST_OPEN and self._rand.random() < OPEN
            for id_ in ids:
                self._insert(connection, id_)
            if stays_open:
                until = time.monotonic() + self._rand.uniform(0.0, self._slowest)
                self._open.append((until, connection, commits))
                return
            self._end(connection, commits)
            self._connection = connection
        except self._errors:
            time.sleep(0.05)

    def _connect(self):
        if self._is_sqlite:
            return sqlite3.connect(self._target.removeprefix("sqlite:"), timeout=0.5)
        return self._driver.connect(self._target)

    def _insert(self, connection, id_):
        mark = "?" if self._is_sqlite else "%s"
        cursor = connection.cursor()
        if self._rand.random() < 0.5:
            outbox.options(id=id_).enqueue(connection, "note")
        else:
            cursor.execute(f"INSERT INTO fusion_outbox (id, task) VALUES ({mark}, 'note')", [id_])
        cursor.execute(f"INSERT INTO ledger (id) VALUES ({mark})", [id_])

    def _end_due(self):
        due = [each for each in self._open if each[0] <= time.monotonic()]
        for each in due:
            self._open.remove(each)
            with contextlib.suppress(self._errors):
                self._end(*each[1:])
                each[1].close()

    @staticmethod
    def _end(connection, commits):
        if commits:
            connection.commit()
        else:
            connection.rollback()


def main():
    target, tried, seed, slowest, pause = sys.argv[1:]
    application = Application(target, tried, random.Random(int(seed)), float(slowest))
    while True:
        application.transact()
        time.sleep(float(pause))


if __name__ == "__main__":
    main()
