"""What the schema shows as examples can be written side by side."""

import json
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from fusiond.config.load import load
from tests.file_reference import SCHEMA, below

#: keys that a task with `run` cannot have
OF_COMMANDS = ("command", "parameters", "exit_status", "directory", "stdin", "progress")


def valid(schema):
    """A strategy for what each key's own examples and defaults allow."""
    return st.sampled_from([*schema["examples"], *([schema["default"]] if "default" in schema else [])])


def entries(section, **fixed):
    """A strategy for an entry of a section, any of its keys with an example."""
    described = below(SCHEMA, section, "*")["properties"]
    keys = {key: valid(schema) for key, schema in described.items() if key not in fixed}
    return st.fixed_dictionaries({key: st.just(value) for key, value in fixed.items()}, optional=keys)


@settings(max_examples=40, deadline=None)
@given(
    entries(
        "tasks", run="x.y", queue="default", priority="high", retry="p", pass_job=None, on_success=None, on_failure=None
    ).map(lambda task: {k: v for k, v in task.items() if k not in OF_COMMANDS}),
    # with the arguments that the examples of `unique` and `limit` name
    entries("cron", task="t", schedule="@daily", kwargs={"user_id": 7, "account": "acme"}).map(
        lambda entry: {k: v for k, v in entry.items() if k not in ("every", "flow")}
    ),
    entries("workers", queues="*").map(
        lambda group: (
            {**group, "isolation": "process", "executor": "asyncio"}
            if {"executor", "concurrency"} & group.keys()
            else group
        )
    ),
    entries("retry_policies"),
)
def test_any_mixture_of_the_examples_is_usable(task, entry, group, policy):
    """What the schema shows as examples can be written side by side."""
    content = {
        "version": 1,
        "retry_policies": {"p": policy},
        "tasks": {"t": task},
        "pools": {"licence": {"slots": 5}},
        "calendars": {"de": {"country": "DE"}, "closed": {"dates": ["2026-12-24"]}},
        "cron": {"c": entry},
        "workers": {"w": group},
    }
    loaded = load("fusion.yaml", environ=os.environ, data=json.dumps(content).encode())
    assert [str(problem) for problem in loaded.problems if problem.is_error] == []
