"""What a job has printed: ask the hosts that keep it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from fusiond.broker.call import Plan
from fusiond.broker.hosts.outputs import OutputAnswer, OutputHost
from fusiond.broker.verbs import Verbs
from fusiond.job import new_token

#: s; for the hosts to answer, and from one look at the answers to the next
PATIENCE, _LOOK = 3.0, 0.02


@dataclass(frozen=True, slots=True)
class OutputFound:
    """What the hosts have answered."""

    #: of those that have something, in the order of time
    answers: list[OutputAnswer]
    #: hosts that keep output, and have not answered
    silent: list[OutputHost]
    #: whether any daemon keeps output
    is_kept: bool
    #: daemon → where the next question goes on
    after: dict[str, str] = field(default_factory=dict)

    @property
    def more(self) -> bool:
        """Whether there is more by now."""
        return any(answer.more for answer in self.answers)


def ask(
    verbs: Verbs,
    job: str,
    attempt: int | None = None,
    after: Mapping[str, str] | None = None,
    *,
    queue: str | None = None,
    patience: float | None = None,
) -> Plan[OutputFound]:
    """
    Ask all living daemons for what a job has printed, behind what they have answered before. Raises BrokerError.

    Args:
        verbs: of the namespace.
        job: its id.
        attempt: of this one; None: of all.
        after: as the last answer has it.
        queue: only what it has printed in this queue; None: in any, as a job may have been moved.
        patience: s for them to answer; None: PATIENCE.
    """
    hosts: list[OutputHost] = yield from verbs.output_hosts()
    asked, token = {each.daemon for each in hosts if each.answers}, new_token()
    answers: list[OutputAnswer] = []
    if asked:
        yield verbs.ask_output(token, job, attempt, queue, after or {})
        deadline = time.monotonic() + (PATIENCE if patience is None else patience)
        while len(answers) < len(asked) and time.monotonic() < deadline:
            yield _LOOK
            answers = yield verbs.output_answers(token)
    answered = {answer.daemon for answer in answers}
    return OutputFound(
        sorted((answer for answer in answers if answer.parts), key=lambda answer: answer.parts[0].at),
        [host for host in hosts if host.daemon not in answered],
        bool(hosts),
        {**(after or {}), **{answer.daemon: answer.after for answer in answers}},
    )
