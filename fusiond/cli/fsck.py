"""`fusiond fsck`: find damage in the data of a namespace, and repair it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED
from fusiond.cli.find import broker
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.text import count, one_line, print_json

if TYPE_CHECKING:
    from fusiond.broker.maintenance.fsck import Finding

#: outcome → what is printed before the remedy
_OUTCOMES: Final = {"found": "--repair", "repaired": "repaired"}


def register(subparsers: Any) -> None:
    """Add `fsck`."""
    parser = arguments.command(subparsers, "fsck", _fsck)
    parser.add_argument("--repair", action="store_true", help="repair what is found, and print what was done")
    arguments.add_broker(parser)


def _fsck(options: arguments.Options) -> int:
    """
    [broker] Check that the data of all jobs is consistent; --repair repairs it.

    It checks that each job is in exactly one set and that its hash agrees, while the daemons work. fusiond never causes
    such damage; manual edits can, or another program on the same keys. The exit status is 1 if something is wrong and
    was not repaired.
    """
    from fusiond.broker.maintenance.fsck import Fsck

    with broker.session(options) as session, Progress("jobs checked") as progress:
        report = _Report(progress, as_json=options.json)
        fsck = Fsck(session.verbs, report.tell, repair=options.repair, looked=progress.to, who=session.who)
        queues = session.queues()
        complete = False
        try:
            queues += [name for name in session.run(fsck.strays()) if name not in queues]
            for queue in queues:
                session.run(fsck.queue(queue))
                _tell_repairs(session, report)
            complete = True
        finally:
            report.end(fsck.jobs, queues, complete=complete)
    return REFUSED if report.outcomes["found"] else OK


def _tell_repairs(session: broker.Session, report: _Report) -> None:
    """Have each repair of a key told as an event; those of jobs are told by the scripts that make them."""
    for finding in report.repaired_keys:
        words = [("o", finding.key or finding.queue), ("m", f"it {finding.problem}; {finding.remedy}")]
        session.run(session.verbs.record_event(finding.queue, "repaired", session.who, words))
    report.repaired_keys.clear()


class _Report:
    """For people, each finding as soon as it is known; as JSON, one document at the end, even if an error ends it."""

    def __init__(self, progress: Progress, *, as_json: bool) -> None:
        self._progress, self._as_json = progress, as_json
        self._findings: list[dict[str, Any]] = []
        self.outcomes: Counter[str] = Counter()
        #: repairs of which no event was told yet
        self.repaired_keys: list[Finding] = []

    def tell(self, finding: Finding) -> None:
        """Print a finding, or keep it for the document."""
        self.outcomes[finding.outcome] += 1
        if finding.outcome == "repaired" and not finding.job:
            self.repaired_keys.append(finding)
        if self._as_json:
            self._findings.append(
                {
                    "queue": finding.queue,
                    "job": finding.job or None,
                    "kind": finding.kind,
                    "problem": str(finding),
                    "remedy": finding.remedy,
                    "outcome": finding.outcome,
                }
            )
        else:
            self._progress.clear()
            print(one_line(f"{finding} ({finding.kind}); {_OUTCOMES[finding.outcome]}: {finding.remedy}"))

    def end(self, jobs: int, queues: list[str], *, complete: bool) -> None:
        """Print the document, or the totals if the check is complete."""
        outcomes = {outcome: self.outcomes[outcome] for outcome in _OUTCOMES}
        if self._as_json:
            document = {"findings": self._findings, "complete": complete, "jobs": jobs, "queues": queues}
            print_json({**document, "outcomes": outcomes})
        elif complete:
            self._progress.clear()
            parts = [f"{number:,} {outcome}" for outcome, number in outcomes.items() if number]
            found = ", ".join(parts) or "nothing is wrong"
            print(f"{count(jobs, 'job')} in {count(len(queues), 'queue')}: {found}")
