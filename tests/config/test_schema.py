"""The schema: what it takes, that it documents itself, that its defaults are the model's."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from fusiond.config.load import load
from fusiond.config.schema import schema_text
from tests import file_schema
from tests.file_reference import PAGES, SCHEMA, SCHEMA_FILE, below, pages

ROOT = Path(__file__).parents[2]


def properties(schema, path=()):
    """Each key that the schema describes: path, its subschema, the keys that must be there beside it."""
    if isinstance(schema, list):
        for item in schema:
            yield from properties(item, path)
    elif isinstance(schema, dict):
        groups = [*schema.get("oneOf", ()), *(each for group in schema.get("allOf", ()) for each in group["oneOf"])]
        needed = {key for branch in [schema, *groups] for key in branch.get("required", ())}
        for key, described in schema.get("properties", {}).items():
            yield (*path, key), described, key in needed
        for key, found in schema.items():
            if key == "allOf":
                continue  # it repeats examples of keys that are described beside it
            for name, inner in found.items() if key == "properties" else [(key, found)]:
                yield from properties(inner, (*path, name))


KEYS = list(properties(SCHEMA))


def test_it_is_a_draft_2020_12_schema():
    """Any validator and editor can take it."""
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("path", "key", "needed"), KEYS, ids=[".".join(path) for path, _, _ in KEYS])
def test_each_key_describes_itself(path, key, needed):
    """A title, a description, examples that are valid, and a default that is valid unless the key is required."""
    assert key["title"][0].isupper()
    assert key["description"].endswith(".")
    validator = jsonschema.Draft202012Validator(key)
    for example in key["examples"]:
        validator.validate(example)
    # See file_schema.py: the default of one map in a map is left out.
    if path[-2:] != ("limit", "rate_limit") and path[-1] not in ("on_success", "on_failure"):
        assert ("default" in key) != needed
    if "default" in key:
        validator.validate(key["default"])


def defaults_of(*path, skip=()):
    """The keys of a map with their defaults written out."""
    keys = below(SCHEMA, *path)["properties"].items()
    return {key: said["default"] for key, said in keys if "default" in said and key not in skip}


def config_of(content):
    """The Config of plain data; JSON is YAML."""
    loaded = load(ROOT / "fusion.yaml", environ={}, data=json.dumps({"version": 1, **content}).encode())
    assert not [problem for problem in loaded.problems if problem.is_error]
    return loaded.config


def test_the_defaults_of_the_schema_are_those_of_the_model():
    """To write every default out is to write nothing."""
    bare = {
        "retry_policies": {"p": {}},
        "queues": {"q": {}},
        "tasks": {"t": {"run": "x.y"}},
        "cron": {"c": {"task": "t", "every": "5s"}},
        "workers": {"w": {}},
    }
    full = {
        **defaults_of(),
        **{key: defaults_of(key) for key in ("control", "logging")},
        "broker": defaults_of("broker", skip={"tls"}),
        "defaults": {"tasks": defaults_of("defaults", "tasks"), "workers": defaults_of("defaults", "workers")},
        "retry_policies": {"p": defaults_of("retry_policies", "*")},
        "queues": {"q": {**defaults_of("queues", "*"), "defaults": defaults_of("queues", "*", "defaults")}},
        "tasks": {"t": {"run": "x.y", **defaults_of("tasks", "*")}},
        "cron": {"c": {"task": "t", "every": "5s", **defaults_of("cron", "*")}},
        "workers": {"w": defaults_of("workers", "*")},
    }
    assert config_of(full) == config_of(bare)


def test_what_is_made_from_the_model_is_checked_in():
    """The schema that ships and the tables of docs/file/; else run `python -m tests.file_reference`."""
    assert SCHEMA_FILE.read_text() == schema_text() == file_schema.text()
    assert [path.name for path, text in pages().items() if path.read_text() != text] == []


def test_each_file_of_the_docs_is_valid():
    """What docs/file/ shows can be copied: not one problem, whoever reads it."""
    text = "".join(path.read_text() for path in PAGES.glob("*.md"))
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 4
    for block in blocks:
        loaded = load("fusion.yaml", environ={}, data=block.encode())
        assert [str(problem) for problem in loaded.problems if problem.code != "runs-as-root"] == []


@pytest.mark.parametrize("path", ["etc/fusion.yaml", "fusiond/starters/first/fusion.yaml"])
def test_the_files_that_ship_are_valid_anywhere(path):
    """Neither the example nor the starter needs a user, a directory or a variable."""
    loaded = load(ROOT / path, environ={}, to_run=True)
    assert [str(problem) for problem in loaded.problems if problem.code not in ("runs-as-root", "unsafe-file")] == []


def test_other_validators_take_a_reference_to_a_variable():
    """They replace none. The daemon, which has replaced each, takes no `${` for a number or a duration."""
    said = {
        "version": 1,
        "queues": {"q": {"max_running": "${N}"}},
        "tasks": {"a": {"run": "x.y", "timeout": "${T:-5s}"}},
    }
    validator = jsonschema.Draft202012Validator(json.loads(schema_text()))
    validator.validate(said)
    said["tasks"]["a"]["timeout"] = "5 $"
    assert not validator.is_valid(said)
    text = 'version: 1\nqueues: {q: {max_running: "$${N}"}}\ntasks: {a: {run: x.y, timeout: "$${T}"}}\n'
    found = load("f.yaml", environ={}, data=text.encode(), elsewhere=True).problems
    assert [problem.code for problem in found if problem.is_error] == ["wrong-type", "bad-value"]
