"""
Which harm comes to an outbox, and the verdict.

A story ends when no row and no job is left. Then the ids that ran must be those that the table `ledger` has, each once:
only what ran shortly before Redis has lost something may have run again behind that.
"""

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from tests.chaos.outboxes.harm import Harm, rules, seeded
from tests.chaos.outboxes.site import Site
from tests.failpoints import RELAY, STEPS
from tests.support.running import PATIENCE, run_down

#: s before a loss in which what has ended may be lost; it syncs once a second
UNSYNCED = 4.0
POINTS = tuple(
    f"{name.removeprefix('row.')}.{side}"
    for name in STEPS
    if STEPS[name].actor == RELAY
    for side in ("before", "after")
)
#: between the reading of rows and the storing of their jobs
READ = ("read.after", "assign.before", "assign.after", "store.before")
#: between the storing of jobs and the end of their rows
STORED = ("store.after", "confirm.before", "confirm.after", "delete.before")


@dataclass(frozen=True)
class Story:
    """What happens."""

    transactions: int = 400
    #: failpoints of which each start of a relay has a few; how many of the two relays have any
    rules: tuple = ()
    armed: int = 2
    #: what may happen while a relay stands still
    meanwhile: tuple = ("it waits",)
    applications: int = 2
    kills_applications: bool = False
    #: s for which a transaction may stay open; between two transactions of an application
    slowest: float = 0.5
    pause: float = 0.02
    #: of Redis' file
    appendfsync: str = "always"


ALL = ("it waits", "it waits long", "the database is killed", "Redis is killed", "Redis loses")
STORIES = {
    "late commits": Story(slowest=2.0, armed=0),
    "relays killed": Story(rules=rules(READ + STORED, ["kill"], 0.4)),
    "relays frozen": Story(rules=rules(READ, ["stop"], 0.3), armed=1),
    "relays frozen for long": Story(
        transactions=900, rules=rules(["store.before", "assign.after"], ["stop"], 0.3), meanwhile=("it waits long",),
        armed=1,
    ),
    "Redis cut back": Story(
        rules=rules((*STORED, "delete.after"), ["stop"], 0.3), meanwhile=("Redis loses",), appendfsync="everysec"
    ),
    "storm": Story(
        1200, rules(POINTS, ["kill", "stop"], 0.2), meanwhile=ALL, kills_applications=True, slowest=3.0,
        appendfsync="everysec",
    ),
}  # fmt: skip


@dataclass
class Account:
    """What came of a story."""

    committed: set
    #: ids that were to be rolled back
    rolled_back: set
    #: id → epoch s of its runs
    runs: dict
    losses: list
    #: what was done, and how often
    done: Counter
    #: why it did not come to an end; empty: it did
    unrest: list = field(default_factory=list)
    #: the log of relays and applications
    text: str = ""


def tell(story, edits=(), seed=0, **where):
    """Carry it out; returns the Account. `where`: as of Site."""
    site = Site(edits, appendfsync=story.appendfsync, **where)
    try:
        harm = Harm(site, story, seeded(seed))
        while site.transactions() < story.transactions:
            harm.go_on()
            time.sleep(0.02)
        harm.end()
        return _account(site, harm)
    finally:
        site.close()


def _account(site, harm):
    unrest = []
    try:
        run_down(site.left, lambda: f"{site.left()} rows and jobs are left", patience=PATIENCE / 4, step=0.2)
    except AssertionError as error:
        unrest.append(str(error).splitlines()[0])
    began = [line.split() for line in site.tried.read_text().splitlines()]
    runs = defaultdict(list)
    for line in site.runs.read_text().splitlines():
        id_, at = line.split()
        runs[id_].append(float(at))
    rolled_back = {id_ for kind, *ids in began if kind == "r" for id_ in ids}
    return Account(
        site.data.ids("ledger"), rolled_back, dict(runs), harm.losses, harm.done, unrest, site.log.read_text()
    )


def judge(account):
    """What is wrong, a sentence each."""
    yield from account.unrest
    ran = account.runs.keys()
    for said, ids in (
        ("rows that were committed did not run", account.committed - ran),
        ("rows that were rolled back ran", account.rolled_back & ran),
        ("rows that no transaction has committed ran", ran - account.committed - account.rolled_back),
        ("jobs ran twice without a reason", {id_ for id_ in ran if not _is_explained(account.runs[id_], account)}),
    ):
        if ids:
            yield f"{len(ids)} {said}, such as {min(ids)}"


def _is_explained(times, account):
    """Whether Redis has lost something between one run and the next, each time."""
    times = sorted(times)
    return all(
        any(loss.at - UNSYNCED <= before <= loss.until and after >= loss.at for loss in account.losses)
        for before, after in pairwise(times)
    )
