"""
The lines of a recorded load: an arrival and its attempts have the same `job`.

They come in the order in which things happened, so they are put into a database in a temporary file, which gives back
each job with its attempts, in the order of arrivals, whatever the size of the recording.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from fusiond.simulation.loads import Arrival, AttemptCourse, LoadError, Recorded, TimesOfTask, run_times

_TABLES = """
    CREATE TABLE arrivals (job TEXT PRIMARY KEY, at REAL NOT NULL CHECK (at BETWEEN 0 AND 1e11), task TEXT,
        delay REAL NOT NULL CHECK (delay BETWEEN 0 AND 1e9), cron INT, keys TEXT, fair TEXT) WITHOUT ROWID;
    CREATE TABLE attempts (job TEXT, n INT, took REAL CHECK (took BETWEEN 0 AND 1e9),
        outcome TEXT CHECK (outcome IN ('finished', 'failed', 'retry', 'timeout', 'crashed', 'snoozed', 'canceled')),
        delay REAL NOT NULL CHECK (delay BETWEEN 0 AND 1e9), PRIMARY KEY (job, n, outcome, took)) WITHOUT ROWID;
"""
#: a snoozed attempt and the next one have the same number
_JOBS = """
    SELECT job, at, task, arrivals.delay, keys, fair, took, outcome, attempts.delay FROM arrivals
    LEFT JOIN attempts USING (job) WHERE cron = 0 ORDER BY at, job, n, outcome <> 'snoozed'
"""
#: quantiles of the recorded run times that are kept for attempts that the recording does not have
_STEPS = 50


class Recording:
    """What was read of it."""

    def __init__(self) -> None:
        # "": a temporary file, which is gone when the connection is closed
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(_TABLES)
        self._database.execute("BEGIN")
        #: what is to be said of it
        self.notes: list[str] = []
        self._after = 0

    def take(self, said: Mapping[str, Any], where: str) -> bool:
        """A line; false: it is none of a recording. Raises LoadError."""
        if "recording" in said:
            if said["recording"] != 1:
                raise LoadError(f"{where}: this recording is of another version; record it with this version")
            if said.get("coarse"):
                self.notes.append(f"{where}: a load made of hourly counters: within an hour, jobs arrive at random")
            return True
        if "job" not in said:
            return False
        try:
            if "at" in said:
                self._take_arrival(said)
            else:
                row = str(said["job"]), int(said["n"]), said["took"], said["outcome"], said.get("delay", 0)
                self._database.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
        except KeyError as error:
            raise LoadError(f"{where}: this is no line of a recording: {error} is missing; leave it out") from None
        except (ValueError, TypeError, OverflowError, sqlite3.Error) as error:
            raise LoadError(f"{where}: this is no line of a recording: {error}; leave it out") from None
        return True

    def end(self) -> tuple[Recorded | None, dict[str, TimesOfTask]]:
        """The arrivals, and the run times of its tasks."""
        found = self._database.execute("SELECT min(at), max(at), count(*) FROM arrivals WHERE cron = 0").fetchone()
        began, last, jobs = found
        tasks = {task for (task,) in self._database.execute("SELECT DISTINCT task FROM arrivals")}
        if not tasks:
            return None, {}
        if self._after:
            self.notes.append(f"{self._after:,} jobs that waited for other jobs are replayed as if they did not")
        times = {task: found for task in tasks if (found := self._run_times(task))}
        began = began or 0.0
        return Recorded(
            began, round((last or 0.0) - began + 0.001, 3), jobs, tasks, lambda: self._arrivals(began)
        ), times

    def _take_arrival(self, said: Mapping[str, Any]) -> None:
        keys = said.get("by", ""), said.get("fair_by", "")
        row = str(said["job"]), said["at"], str(said["task"]), said.get("delay", 0), bool(said.get("cron")), *keys
        self._database.execute("INSERT INTO arrivals VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
        self._after += bool(said.get("after"))

    def _arrivals(self, began: float) -> Iterator[Arrival]:
        for job, rows in groupby(self._database.execute(_JOBS), itemgetter(0)):
            lines = list(rows)
            _, at, task, delay, by, fair = lines[0][:6]
            runs = tuple(AttemptCourse(*line[6:]) for line in lines if line[6] is not None)
            yield Arrival(round((at - began) * 1000), f"load:{job}", task, round(delay * 1000), by, fair, runs)

    def _run_times(self, task: str) -> TimesOfTask | None:
        """For attempts that are not in the recording, such as those of cron entries; None: there is none at all."""
        query = "SELECT took, outcome FROM attempts JOIN arrivals USING (job) WHERE task = ? ORDER BY took"
        rows = self._database.execute(query, (task,)).fetchall()
        if not rows:
            return None
        shares = [(step + 0.5) / _STEPS for step in range(_STEPS)]
        quantiles = {share: rows[int(share * len(rows))][0] for share in shares}
        return run_times(quantiles, sum(outcome != "finished" for _, outcome in rows) / len(rows), rows[-1][0])
