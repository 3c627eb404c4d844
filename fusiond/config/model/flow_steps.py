"""Flows: graphs of steps, each of which runs a task or another flow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from fusiond.config.kinds import WORD, Duration, Key, Kind, Line, Name, meanings, text
from fusiond.config.model.on_end import Callback, Url
from fusiond.config.model.tasks import DEFAULT_QUEUE, Keyword

#: the word before the dot of a reference to an input of the flow
INPUT: Final = "input"
#: characters of a step's name: it is a part of the ids of its jobs
LONGEST_STEP: Final = 40

StepName = Annotated[
    str,
    text(
        "step name",
        rf"^(?!{INPUT}$){WORD[:-1]}{{0,{LONGEST_STEP - 1}}}$",
        f"write letters, digits and _, at most {LONGEST_STEP} characters, and not {INPUT}",
    ),
]
Reference = Annotated[
    str,
    text(
        "reference",
        rf"^{WORD}(\.[^.\s]+)*$",
        "write input.NAME, the name of a step, or STEP.FIELD for a field of its result",
        examples=["input.day", "extract", "extract.files"],
    ),
]
When = Annotated[
    Literal["finished", "failed", "always"],
    meanings(
        "if the steps before it finished",
        "if one of the steps before it failed",
        "however the steps before it ended",
    ),
]
JOIN: Final = Kind(
    {
        "type": ["string", "integer"],
        "pattern": "^(all|any)$",
        "minimum": 1,
        "maximum": 1000,
        "patternErrorMessage": "write all, any, or a number",
    },
    read=lambda value: value if isinstance(value, str) else int(value),
)


@dataclass(frozen=True, slots=True)
class FlowStep:
    """A step of a flow: a job, a job for each item of a list, or another flow."""

    #: The task that the step runs.
    task: Annotated[Name, Key("Task", "extract", either=True)] = ""
    #: The flow that the step runs.
    flow: Annotated[Name, Key("Flow", "archive", either=True)] = ""
    #: Steps that come before it. Empty: it begins with the flow.
    after: Annotated[tuple[StepName, ...], Key("After", ["extract"])] = ()
    #: How many of the steps in `after` it waits for: `all`, `any` for one, or a number.
    join: Annotated[str | int, JOIN, Key("Join", "any", 2)] = "all"
    #: How these must have ended: `finished`; `failed`: one of them has failed; `always`: in any way. Otherwise the step
    #: is skipped, and so are the steps that need it.
    when: Annotated[When, Key("When", "failed", "always")] = "finished"
    #: Keyword arguments that come from elsewhere: `input.NAME`, `STEP` for the result of a step before it, or
    #: `STEP.FIELD`. For a flow they are its inputs.
    inputs: Annotated[Mapping[Keyword, Reference], Key("Inputs", {"day": "input.day", "rows": "extract.rows"})] = field(
        default_factory=dict
    )
    #: Positional arguments.
    args: Annotated[tuple[Any, ...], Key("Arguments", ["eu"])] = ()
    #: Keyword arguments.
    kwargs: Annotated[Mapping[str, Any], Key("Keyword arguments", {"region": "eu"})] = field(default_factory=dict)
    #: A reference to a list: the step has a job for each item of it, and its result is the list of their results.
    for_each: Annotated[Reference | None, Key("For each", "extract.files")] = None
    #: With `for_each`: the keyword argument that gets the item.
    as_: Annotated[Keyword, Key("As", "file")] = "item"


@dataclass(frozen=True, slots=True)
class Flow:
    """A graph of steps."""

    name: str
    #: The steps, by name.
    steps: Annotated[
        Mapping[StepName, FlowStep],
        Kind({"type": ["object"], "minProperties": 1}),
        Key("Steps", {"extract": {"task": "extract"}, "load": {"task": "load", "after": ["extract"]}}),
    ]
    #: The queue that its runs are kept with in Redis.
    queue: Annotated[Name, Key("Queue", "reports")] = DEFAULT_QUEUE
    #: How long a run that finished is kept.
    result_ttl: Annotated[Duration, Key("Time to keep a finished run", "7d")] = 86400.0
    #: How long a run that failed, or was canceled, is kept. Until then it can be retried.
    failure_ttl: Annotated[Duration, Key("Time to keep a failed run", "30d")] = 30 * 86400.0
    #: The task or URL that is called when a run has finished.
    on_success: Annotated[Callback | None, Key("On success", {"task": "count"})] = None
    #: The task or URL that is called when a run has failed.
    on_failure: Annotated[
        Callback | None, Key("On failure", {"webhook": "https://ops.example.com/failed"}, {"task": "page_someone"})
    ] = None
    #: Who answers for its runs.
    owner: Annotated[Line | None, Key("Owner", "payments")] = None
    #: The page that says what to do if they fail.
    runbook_url: Annotated[Url | None, Key("Runbook", "https://wiki.example.com/payments")] = None
    #: One line for people.
    description: Annotated[Line | None, Key("Description", "Loads yesterday's files")] = None

    @property
    def callbacks(self) -> Mapping[str, Callback]:
        """Its callbacks, by key."""
        return {key: said for key in ("on_success", "on_failure") if (said := getattr(self, key))}
