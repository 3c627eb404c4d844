"""No file makes the reading raise: trees that are nearly right, and trees that are right."""

import json
import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusiond.config.load import load
from fusiond.config.model import Config
from tests.file_reference import SCHEMA, below

NAMES = ["default", "q", "a", "*", "none", "standard"]
WORDS = [
    *NAMES, "90s", "0s", "1h30m", "50ms", "512MiB", "25%", "high", "moderate", "x.y", "* * * * *", "@daily",
    "0 0 30 2 *",
    "UTC", "Europe/Berlin", "embedded", "redis://h", "unix:///x?db=1", "rediss://:p@h", "redis://[", "${X}", "${NO}",
    "auto", "027", "fork", "strict", "list", "linear", "", "\n", "/", "~/x", "a\u0000b", "x" * 300, "\udcff",
    "yes", "22:30",
]  # fmt: skip
#: stands for the path that a test puts in
PATH = "@path@"
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(WORDS),
)


def any_of(schema):
    """A strategy for values that a schema might take, or nearly: its keys with values of their kind, and stray ones."""
    choices = [SCALARS, st.sampled_from(schema["examples"])] if schema.get("examples") else [SCALARS]
    if "properties" in schema:
        known = {key: any_of(described) for key, described in schema["properties"].items()}
        choices = [st.fixed_dictionaries({}, optional=known)] * 12 + choices
    elif isinstance(schema.get("additionalProperties"), dict):
        choices = [
            st.dictionaries(st.sampled_from(NAMES), any_of(schema["additionalProperties"]), max_size=3)
        ] * 12 + choices
    elif "items" in schema:
        choices = [st.lists(any_of(schema["items"]), max_size=3)] * 4 + choices
    return st.one_of(choices)


FILES = any_of(SCHEMA).filter(lambda content: isinstance(content, dict))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(FILES, st.booleans())
def test_whatever_the_keys_hold_there_are_problems_or_a_config(content, to_run):
    """Every value under every key: never an exception, and a Config exactly where no problem is an error."""
    text = json.dumps({**content, "version": 1, "include": []})
    loaded = load("fusion.yaml", environ={"X": "y"}, data=text.encode(), to_run=to_run)
    assert (loaded.config is None) == any(problem.is_error for problem in loaded.problems)
    if loaded.config is not None:
        assert Config.from_json(loaded.config.to_json()) == loaded.config
    lines = text.splitlines()
    for problem in loaded.problems:
        assert problem.line == 0 or 1 <= problem.column <= len(lines[problem.line - 1]) + 1


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
    ),
    # with the arguments that the examples of `unique` and `limit` name
    entries("cron", task="t", schedule="@daily", kwargs={"user_id": 7, "account": "acme"}).map(
        lambda entry: {k: v for k, v in entry.items() if k not in ("every", "flow", "inputs")}
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
        "cron": {"c": entry},
        "workers": {"w": group},
    }
    loaded = load("fusion.yaml", environ=os.environ, data=json.dumps(content).encode())
    assert [str(problem) for problem in loaded.problems if problem.is_error] == []
