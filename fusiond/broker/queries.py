"""
Look-ups: one job, pages of jobs, counts, what is broken. None of them changes anything.

Whoever can write to Redis can put anything there by hand: what cannot be read of it is left out and named, and never
raises.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from fusiond.broker.call import Call, Plan, Word, decoded, number, numbers, plain, raw, scripted, text_map, texts
from fusiond.broker.keys import BAND, VerbGroup, is_name
from fusiond.broker.records import Counts, HeldTask, JobOutcome, TaskLimit, undeclared
from fusiond.job import JobProgress, JobRecord, JobStatus, PastAttempt, RanWith

#: ids in one reply
_IDS = 5000


class JobPage(NamedTuple):
    """Some jobs of one status."""

    jobs: list[JobRecord]
    #: where the next page begins; empty: there is none
    following: str
    #: jobs that were looked at, those included that Redis left out
    looked_at: int


class BrokenBody(NamedTuple):
    """What could not be read, and was put aside."""

    #: epoch ms
    at: int
    reason: str
    raw: bytes
    #: as Redis has it
    entry: bytes

    @property
    def digest(self) -> str:
        """What names it on the command line."""
        return hashlib.sha256(self.entry).hexdigest()[:12]

    @property
    def was_pushed(self) -> bool:
        """Whether it came through the inbox, and can go there again; otherwise it is what was left of a stored job."""
        return not re.match(r"job \S+ (is not a job|has no body)$", self.reason)


class QueryVerbs(VerbGroup):
    """Verbs that only read."""

    def job(self, queue: str, id: str) -> Call[JobRecord | None]:
        """All that is known of a job; None: there is none, or it was dropped after its ttl."""

        def parse(reply: Any) -> JobRecord | None:
            return None if reply is None else _record(queue, id, reply[0].decode(), reply[1], reply[2])

        return scripted("job", self.keys.root(queue), (id,), parse)

    def jobs(self, queue: str, status: JobStatus, *, start: int = 0, count: int = 100) -> Call[list[JobRecord]]:
        """A page of the jobs of one status: waiting and running ones in their order, ended ones newest first."""

        def parse(reply: Any) -> list[JobRecord]:
            parts = iter(reply)
            return [_record(queue, decoded(id), status, *rest) for id, *rest in zip(parts, parts, parts, strict=True)]

        return scripted("jobs", self.keys.root(queue), (status, start, count), parse)

    def newest(
        self, queue: str, status: JobStatus, *, start: str = "", count: int = 100, task: str = "", text: str = "",
        wanted: int = _IDS, by_score: bool = False,
    ) -> Call[JobPage]:  # fmt: skip
        """
        A page of the jobs of one status, the newest first.

        Args:
            queue: the queue.
            status: the status.
            start: as the page before has told; empty: at the newest.
            count: jobs of the page.
            task: jobs of other tasks are left out, as far as Redis can tell.
            text: jobs that hold it nowhere, in whatever case, are left out, too.
            wanted: of these, how many at most.
            by_score: of scheduled jobs those that are due next come first, of ended ones those that go first. All pages
                together have each job that stays, whatever others do.
        """

        def parse(reply: Any) -> JobPage:
            following, looked_at, *rest = reply
            parts = iter(rest)
            jobs = [_record(queue, decoded(id), status, *of) for id, *of in zip(parts, parts, parts, strict=True)]
            return JobPage(jobs, decoded(following), number(looked_at))

        words: list[Word] = [status, start, count]
        if task or text or by_score:
            words += [task, text.lower().encode(), wanted, int(by_score)]
        return scripted("newest", self.keys.root(queue), words, parse)

    def place(self, queue: str, id: str) -> Call[int | None]:
        """How many ready jobs begin before this one; None: it is not ready."""
        return plain(_number_or_none, "ZRANK", self.keys.of(queue, "queue"), id)

    def ids(self, queue: str, status: JobStatus) -> Plan[list[str]]:
        """All jobs of a status, as far as none comes or goes meanwhile."""
        key = self.keys.of(queue, "queue" if status is JobStatus.QUEUED else status)
        found: list[bytes] = []
        while page := (yield plain(texts, "ZRANGE", key, len(found), len(found) + _IDS - 1)):
            found += page
        return [decoded(id_) for id_ in found if id_]

    def samples(self, queue: str, status: JobStatus, number: int) -> list[Call[JobPage]]:
        """
        Single jobs at even distances among `number` of an ended status.

        `newest` gives those first that are kept longest. If jobs are kept for different times, these are not the ones
        that ended last: `are_by_end` tells it from the samples.
        """
        places = {*range(0, number, max(1, number // _SAMPLES)), number - 1}
        return [self.newest(queue, status, start=str(place), count=1) for place in sorted(places)]

    def broken(self, queue: str, start: int = 0, *, count: int = 10) -> Call[list[BrokenBody]]:
        """Bodies that could not be read, the newest first."""

        def parse(reply: Any) -> list[BrokenBody]:
            return [body for body in map(_broken, texts(reply)) if body]

        return plain(parse, "LRANGE", self.keys.of(queue, "broken"), start, start + count - 1)

    def status(self, queue: str, id: str) -> Call[JobStatus | None]:
        """The status of a job; None: there is none, or it was dropped after its ttl."""
        return scripted("status", self.keys.root(queue), (id,), lambda r: None if r is None else JobStatus(r.decode()))

    def outcome(self, queue: str, id: str) -> Call[JobOutcome | None]:
        """The job's status and, if it has ended, its result or error; little, since producers ask again and again."""
        return scripted("outcome", self.keys.root(queue), (id,), _outcome)

    def parents(self, queue: str, id: str) -> Call[tuple[int, list[str]]]:
        """How many more jobs must end well before this one runs, and the names of those that have not ended."""

        def parse(flat: list[bytes]) -> tuple[int, list[str]]:
            known = text_map(flat)
            left = [name.removeprefix("p ") for name in known if name.startswith("p ")]
            return int(known.get("need", 0)) - int(known.get("got", 0)), sorted(left)

        return plain(parse, "HGETALL", self.keys.of(queue, "parents", id))

    def counts(self, queue: str) -> Call[Counts]:
        """How many jobs the queue holds, by status."""
        return scripted("counts", self.keys.root(queue), (), _counts)

    def waiting_for(
        self, queue: str, status: str, behind: Sequence[bytes], names: Sequence[str]
    ) -> Call[tuple[list[bytes], list[int]]]:
        """Score and id behind which the next page begins, and how many jobs of each of these this one has."""
        read = numbers(len(names))
        words: list[Word] = [status, *behind, *names]
        return scripted("waiting_for", self.keys.root(queue), words, lambda reply: (texts(reply[:2]), read(reply[2:])))

    def queues(self) -> Call[list[str]]:
        """The names of all queues that were ever declared; what cannot be a name is passed over."""
        return plain(
            lambda names: sorted(name for name in map(decoded, names) if is_name(name)), "SMEMBERS", self.keys.queues
        )


def are_by_end(samples: Iterable[JobPage]) -> bool:
    """Whether the jobs of an ended status stand in the order of their ends, as far as the samples tell."""
    ends = [job.ended_at for page in samples for job in page.jobs if job.ended_at is not None]
    return all(later - end < _SAME for end, later in pairwise(ends))


#: jobs that are looked at to see how a set is ordered, and ms that are no difference of two ends
_SAMPLES = 16
_SAME = 100


def _broken(entry: bytes) -> BrokenBody | None:
    """What `lua/shared/broken.lua` has put aside; None where it is something else."""
    head, _, raw = entry.partition(b"\n")
    at, _, reason = decoded(head).partition(" ")
    return BrokenBody(int(at), reason, raw, entry) if at.isdigit() and len(at) < 16 else None


#: numbers among a job's fields
_NUMBERS = (
    "created_at", "started_at", "ended_at", "expires_at", "attempts", "crashes", "rescues", "interrupted",
    "score", "priority",
)  # fmt: skip


def _record(queue: str, id: str, status: str, place: bytes, flat: list[bytes]) -> JobRecord:
    fields = {decoded(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
    header = _header(fields.get("header", b"{}"))
    numbers = {name: _whole(fields[name]) for name in _NUMBERS if name in fields}
    broken = [name for name in ("task", "args") if name not in fields]
    broken += [name for name, number in numbers.items() if number is None] + ["header"] * (header is None)
    known: dict[str, Any] = {name: number for name, number in numbers.items() if number is not None}
    score, priority = known.pop("score", None), known.pop("priority", None)
    if status in (JobStatus.QUEUED, JobStatus.HELD):
        score = _whole(place)
    header = header or {}
    run_queue, run, step = (decoded(fields.get("flow", b"")).split(" ") + [""] * 3)[:3]
    rule, _, rest = decoded(fields.get("unique", b"")).partition(",")
    return JobRecord(
        queue=queue,
        id=id,
        status=JobStatus(status),
        task=decoded(fields.get("task", b"")),
        args=fields.get("args", b""),
        priority=priority if score is None else 255 - score // BAND,
        due_at=_whole(place) if status == JobStatus.SCHEDULED else None,
        **known,
        last_outcome=decoded(fields.get("last_outcome", b"")),
        limit=limit if (limit := decoded(fields.get("limit", b""))) != "-" else "",
        tenant=decoded(fields.get("tenant", b"")),
        result=fields.get("result"),
        error=fields.get("error"),
        key=str(header.get("key", "")),
        log_tag=str(header.get("log_tag", "")),
        description=str(header.get("description", "")),
        retry=str(header.get("retry", "")),
        result_ttl=_seconds(header.get("result_ttl")),
        failure_ttl=_seconds(header.get("failure_ttl")),
        lock=rule and f"{decoded(fields.get('task', b''))}:{rest.partition(',')[2]}",
        lock_rule=rule,
        meta=json.dumps(header["meta"]).encode() if "meta" in header else None,
        **_history(fields.get("history", b""), decoded(fields.get("ran_with", b""))),
        progress=_progress(decoded(fields.get("progress", b""))),
        run=run and f"{run_queue}/{run}",
        step=step,
        broken=" ".join(broken),
    )


def _history(raw: bytes, last: str) -> dict[str, Any]:
    """
    The past attempts of a job, and what the last one that failed has printed; what cannot be read is left out.

    `last`: with what the attempt ran that has finished the job; empty: none has.
    """
    first, *lines = decoded(raw).split("\n")
    past = [attempt for line in reversed(lines) if (attempt := _past(_object(line)))]
    ran_with = _ran_with(last) if last else next((each.ran_with for each in reversed(past) if each.attempt), RanWith())
    said = _object(first)
    text, attempt = said.get("text"), said.get("attempt")
    known = isinstance(text, str) and isinstance(attempt, int)
    return {"history": tuple(past), "ran_with": ran_with} | (
        {"printed": text, "printed_attempt": attempt} if known else {}
    )


def _past(said: dict[str, Any]) -> PastAttempt | None:
    texts = {name: str(said.get(name, "")) for name in ("outcome", "host", "error", "worker")}
    numbers = [said.get(name) for name in ("attempt", "claimed", "settled", "began", "ended")]
    known = all(each is None or (isinstance(each, int) and abs(each) < 2**53) for each in numbers)
    if not texts["outcome"] or not known:
        return None
    attempt, claimed, settled, began, ended = numbers
    return PastAttempt(
        attempt=attempt or 0,
        began_at=None if began is None else (claimed or 0) + began,
        ended_at=settled if ended is None else (claimed or 0) + ended,
        counted=bool(attempt and "undone" not in said),
        crash="crash" in said,
        interrupted="interrupted" in said,
        ran_with=_ran_with(str(said.get("with", ""))),
        **texts,
    )


def _ran_with(text: str) -> RanWith:
    """What `verdicts.ran_with` has written."""
    cpu, peak, generation, release = (text.split(",", 3) + [""] * 3)[:4]
    numbers = (int(each) if each.isdecimal() and len(each) < 16 else None for each in (cpu, peak, generation))
    cpu_ms, peak_mib, of = numbers
    seconds = None if cpu_ms is None else cpu_ms / 1000
    return RanWith(seconds, None if peak_mib is None else peak_mib * 1_048_576, of, release)


def _object(line: str) -> dict[str, Any]:
    """The JSON object; an empty one where it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _progress(text: str) -> JobProgress | None:
    """What `report.lua` has stored; None where it is something else."""
    share, _, rest = text.partition(" ")
    at, _, message = rest.partition(" ")
    try:
        found = JobProgress(float(share), message, int(at))
    except ValueError:
        return None
    return found if 0 <= found.share <= 1 and 0 <= found.at < 2**53 else None


def _header(raw: bytes) -> dict[str, Any] | None:
    """What travels with the job to its child; None where it cannot be read."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _seconds(said: object) -> float | None:
    return float(said) if isinstance(said, (int, float)) and 0 <= said < 1e9 else None


def _whole(raw: bytes) -> int | None:
    """A whole number; None for what is none, or above 2**53, where Redis does not count exactly. A score may be inf."""
    try:
        number = float(raw)
    except ValueError:
        return None
    return int(number) if abs(number) < 2**53 else None


def _outcome(reply: Any) -> JobOutcome | None:
    if reply is None:
        return None
    status, result, error = (*reply, None, None)[:3]
    return JobOutcome(JobStatus(status.decode()), raw(result), raw(error))


def _counts(reply: list[Any]) -> Counts:
    oldest, by_operator, by_file, most = reply[9:13]
    lengths, lost = map(number, reply[:9]), number(reply[13])
    oldest_wait_ms, max_length, max_running = (
        None if each is None else number(each) for each in (oldest, most, reply[14])
    )
    every_ms, burst = map(float, reply[15].split()) if reply[15] else (0.0, 0.0)
    values: list[Any] = [*lengths, oldest_wait_ms, bool(by_operator), bool(by_file), max_length, lost, max_running]
    values += (1000 / every_ms, int(burst)) if every_ms else (None, None)
    limits = json.loads(reply[18] or b"{}")
    values += map(number, reply[16:18])
    values.append({task: TaskLimit.from_dict(limit) for task, limit in limits.items()})
    values += (
        tuple(filter(None, decoded(reply[19] or b"").split(","))),
        bool(reply[20]),
        held_tasks(reply[21]),
        number(reply[22]),
    )
    return Counts(*values)


def held_tasks(flat: list[Any]) -> list[HeldTask]:
    """The tasks of which jobs are held, as `held_tasks.lua` and `counts.lua` reply them."""
    return [
        HeldTask(decoded(task), number(jobs), number(ms), decoded(what), _why_held(decoded(task), error))
        for task, jobs, ms, what, error in zip(*[iter(flat)] * 5, strict=True)
    ]


def _why_held(task: str, raw: bytes) -> str:
    """Of an error document of a function that does not load; empty: it is not declared."""
    try:
        said = str(json.loads(raw)["message"])
        return "" if said == undeclared(task) else said
    except (ValueError, TypeError, LookupError):
        return ""


def _number_or_none(reply: Any) -> int | None:
    return None if reply is None else number(reply)
