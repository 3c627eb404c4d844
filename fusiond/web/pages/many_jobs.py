"""
What is done with many jobs: with those that are named, or with all that fit a filter.

1. select   the jobs are counted and kept, and a person is asked about their number
2. act      on the jobs of the selection; a program may act on jobs that it names, or on a filter, at once
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from fusiond.inspecting.job_changes import CHANGES, JobChange, change_jobs, outcome_of
from fusiond.inspecting.search import matching
from fusiond.web.endpoint import BY_ACTION, Done, Endpoint, NotThere, WebCall, acts
from fusiond.web.inputs import BadInput, Input
from fusiond.web.pages.job_search import FILTERS, filter_of, queues_of
from fusiond.web.selections import Name

#: rights, and what they let do with many jobs
ACTIONS: Final = ("requeue", "cancel", "delete")
#: names of jobs in the answer
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs with which something would be done."""

    #: by which to do it, once
    selection: str
    action: str
    number: int
    #: failed jobs, or jobs
    noun: str
    #: the full names of the first
    jobs: list[str]
    #: how many jobs were named with which it cannot be done, as they are gone or in another state
    others: int


async def _select(call: WebCall) -> Selection:
    act = CHANGES[call["action"]]
    names, left = await _meant(call, act)
    states = act.meant(call["state"])
    noun = f"{' or '.join(states)} job" if not call["job"] and (call["state"] or len(states) == 1) else "job"
    key = call.backend.selections.keep((act.verb, call.user.name), names)
    shown = [f"{queue}/{id_}" for queue, id_ in names[:_SHOWN]]
    return Selection(key, act.verb, len(names), noun, shown, left)


async def _act(call: WebCall) -> Done:
    backend, act = call.backend, CHANGES[call["action"]]
    if call["selection"]:
        kept = backend.selections.take(call["selection"], (act.verb, call.user.name))
        if kept is None:
            raise NotThere("these jobs are not selected any more, or it was done with them; select them again")
        names = [name for name in kept if backend.has(name[0])]
    else:
        said = call["job"] or call["selected"] or call["queue"] or call["state"] or call["all"]
        if not said and filter_of(call.said, await backend.catalogue()).is_plain:
            raise BadInput("name jobs, a filter or a selection; `all: true` means all jobs")
        names, _ = await _meant(call, act)
    done, sentence = outcome_of(act, await backend.run(change_jobs(backend.verbs, act, names, call.asker)))
    return Done(sentence, jobs=done)


async def _meant(call: WebCall, act: JobChange) -> tuple[list[Name], int]:
    """The jobs with which it can be done, and how many are named besides. Raises BadInput, BrokerError, NotThere."""
    backend = call.backend
    named = sorted({(queue, id_) for queue, _, id_ in (name.partition("/") for name in call["job"])})
    if not named:
        if call["selected"]:
            raise BadInput("no job is selected; tick those that are meant, or take all that match")
        catalogue = await backend.catalogue()
        found = matching(
            backend.verbs, await queues_of(backend, call.said), act.meant(call["state"]),
            filter_of(call.said, catalogue), secret=await backend.secret(), tags=catalogue.log_tags,
        )  # fmt: skip
        return await backend.run(found), 0
    for queue in {queue for queue, _ in named}:
        call.user.require(call["action"], queue)
    statuses = await backend.run_all([backend.verbs.status(*name) for name in named])
    fit = [name for name, status in zip(named, statuses, strict=True) if status in act.statuses]
    return fit, len(named) - len(fit)


_JOB = r"[A-Za-z0-9_.:@-]{1,255}/[A-Za-z0-9_:.-]{1,128}"
_MEANT = (
    *(dataclasses.replace(each, place="body") for each in FILTERS),
    Input("job", "full names of jobs; none: all that fit the filter", "body", pattern=_JOB, longest=400, many=500),
    Input("selected", "only jobs that are named, and none if none is", "body", "switch"),
    Input("action", "what is done", "body", words=ACTIONS, required=True),
)
_ALL = Input("all", "all jobs, if neither a selection nor jobs nor a filter is named", "body", "switch")
_SELECTION = Input("selection", "what `/jobs/selection` has given: the jobs that were counted there", "body")

ENDPOINTS = (
    Endpoint(
        "POST", "/jobs/selection", _select, "Count the jobs with which something would be done", Selection, _MEANT,
        "selection.html", right=BY_ACTION,
    ),
    acts(BY_ACTION, "/jobs/bulk", _act, "Requeue, cancel or delete jobs", (*_MEANT, _SELECTION, _ALL)),
)  # fmt: skip
