"""What a row says becomes a job, or a sentence why not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from fusiond.broker.call import Plan
from fusiond.broker.records import NewJob
from fusiond.config.lint.suggest import nearest
from fusiond.config.model import Config
from fusiond.enqueue_options import Options, safe_repr, text
from fusiond.errors import BrokerError, EnqueueError, UnknownTask
from fusiond.outbox.table import MOST_OF_ROW, Row
from fusiond.producer.new_jobs import JobMaker

#: the options that a row may have; its id is a column
_OPTIONS = frozenset(each.name for each in fields(Options)) - {"id"}


@dataclass
class Made:
    """What rows give."""

    #: queue → jobs
    jobs: dict[str, list[NewJob]] = field(default_factory=dict)
    #: id of a row of which there can be no job → why
    reasons: dict[str, str] = field(default_factory=dict)


class RowJobs:
    """Makes the jobs of one outbox."""

    def __init__(self, maker: JobMaker, name: str, config: Config) -> None:
        self._maker, self._name, self._tasks = maker, name, config.tasks
        self._outbox = config.outboxes[name]
        self._own = config.tasks_of(self._outbox)

    def make(self, rows: Sequence[Row]) -> Plan[Made]:
        """
        The jobs of rows. A row is in neither map if its task is in the file, but not published yet: it waits.

        Raises BrokerError.
        """
        made = Made()
        for row in rows:
            try:
                queue, job = yield from self._job(row)
            except UnknownTask as error:
                if row.task not in self._tasks:
                    made.reasons[row.id] = str(error)
            except BrokerError:
                raise
            except EnqueueError as error:
                made.reasons[row.id] = str(error)
            except Exception as error:  # noqa: BLE001 - whatever a row holds, it must not keep back the others
                made.reasons[row.id] = f"{type(error).__name__}: {error}"
            else:
                made.jobs.setdefault(queue, []).append(job)
        return made

    def _job(self, row: Row) -> Plan[tuple[str, NewJob]]:
        """The queue and the job of a row. Raises EnqueueError, BrokerError."""
        if row.task not in self._own and not self._outbox.matches(row.task):
            remedy = f"add it to `outboxes.{self._name}.tasks`"
            raise EnqueueError(f"task {safe_repr(row.task)} may not be enqueued by this outbox; {remedy}")
        if row.args is None:
            remedy = "store them elsewhere, and pass a reference"
            raise EnqueueError(f"arguments and options have more than {MOST_OF_ROW} bytes; {remedy}")
        call = row.task, _json("args", row.args, list), _json("kwargs", row.kwargs, dict)
        given = _json("options", row.options, dict)
        if strange := [name for name in given if name not in _OPTIONS]:
            known = nearest(strange[0], _OPTIONS, "options")
            raise EnqueueError(f"options: there is no {safe_repr(strange[0])}; {known}")
        key = given.pop("key", None)
        options = Options(**given, id=row.id)
        queue, job, _ = self._maker.make(options, call) or (yield from self._maker.reread_and_make(options, call))
        return row.queue or queue, _since(job, row.age_ms)._replace(key=text("key", key))


def _since(job: NewJob, age_ms: int) -> NewJob:
    """The job with its times counted from when the row was made."""
    delay = job.delay_ms if job.delay_ms is None or job.at_ms is not None else max(0, job.delay_ms - age_ms)
    expires = None if job.expires_ms is None else max(1, job.expires_ms - age_ms)
    return job._replace(delay_ms=delay, expires_ms=expires)


def _json(column: str, said: str, kind: type) -> Any:
    try:
        found = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise EnqueueError(f"{column}: this is not JSON: {error}") from None
    if not isinstance(found, kind):
        raise EnqueueError(f"{column}: this is no {'array' if kind is list else 'object'} of JSON")
    return found
