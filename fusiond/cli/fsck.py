"""`fusiond fsck`: what is wrong in a namespace, and mend it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import source
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.progress import Progress
from fusiond.cli.table import count, plain

if TYPE_CHECKING:
    import argparse

    from fusiond.broker.fsck import Finding

#: outcome → what stands before the remedy
_OUTCOMES: Final = {"found": "--repair", "repaired": "repaired"}


def register(subparsers: Any) -> None:
    """Add `fsck`."""
    parser = subparsers.add_parser(
        "fsck",
        help="[broker] check that the data of all jobs is consistent; --repair repairs it",
        description="Check that each job is in exactly one set and its hash agrees, while the daemons work. "
        "fusiond never causes such damage; manual edits can, or another program on the same keys. "
        "The exit status is 1 if something is wrong and was not repaired.",
    )
    parser.add_argument("--repair", action="store_true", help="repair what is found, and print what was done")
    source.add_broker_options(parser)
    source.add_json_option(parser)
    parser.set_defaults(handler=_fsck)


def _fsck(options: argparse.Namespace) -> int:
    from fusiond.broker.fsck import Fsck

    with source.broker(options) as desk, Progress("jobs checked") as progress:
        report = _Document() if options.json else _Lines(progress)
        fsck = Fsck(desk.verbs, report.tell, repair=options.repair, looked=progress.to)
        queues: list[str] = []
        complete = False
        desk.run(fsck.reach())
        report.begin()
        try:
            # It says which layout there is: of one that is not known nothing else is mended.
            desk.run(fsck.namespace("meta"))
            if options.repair:
                desk.connection.check()
            desk.run(fsck.namespace())
            queues = desk.queues()
            queues += [name for name in desk.run(fsck.strays()) if name not in queues]
            for queue in queues:
                desk.run(fsck.queue(queue))
            complete = True
        finally:
            report.end(fsck.jobs, queues, complete=complete)
    return REFUSED if report.outcomes["found"] else OK


class _Lines:
    """A sentence for each finding as it comes, and a last one about all."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.outcomes: Counter[str] = Counter()

    def begin(self) -> None:
        """Nothing stands before the first."""

    def tell(self, finding: Finding) -> None:
        """Print it."""
        self.outcomes[finding.outcome] += 1
        self._progress.clear()
        print(plain(f"{finding} ({finding.kind}); {_OUTCOMES[finding.outcome]}: {finding.remedy}"))

    def end(self, jobs: int, queues: list[str], *, complete: bool) -> None:
        """Print the sum, unless an error stands in its place."""
        if complete:
            self._progress.clear()
            parts = [f"{self.outcomes[outcome]:,} {outcome}" for outcome in _OUTCOMES if self.outcomes[outcome]]
            found = ", ".join(parts) or "nothing is wrong"
            print(f"{count(jobs, 'job')} in {count(len(queues), 'queue')}: {found}")


class _Document:
    """The same as one JSON document, written as it grows, and closed where an error cuts it short."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()

    def begin(self) -> None:
        """Open the list of findings."""
        sys.stdout.write('{\n  "findings": [')

    def tell(self, finding: Finding) -> None:
        """Write it."""
        document = {
            "queue": finding.queue or None,
            "job": finding.job or None,
            "kind": finding.kind,
            "problem": str(finding),
            "remedy": finding.remedy,
            "outcome": finding.outcome,
        }
        sys.stdout.write(f"{',' if self.outcomes else ''}\n    {json.dumps(document)}")
        self.outcomes[finding.outcome] += 1

    def end(self, jobs: int, queues: list[str], *, complete: bool) -> None:
        """Close the list, and write the sum."""
        outcomes = {outcome: self.outcomes[outcome] for outcome in _OUTCOMES}
        rest = {"complete": complete, "jobs": jobs, "queues": queues, "outcomes": outcomes}
        sys.stdout.write(f"\n  ],\n  {json.dumps(rest)[1:]}\n")
