"""The schema: what it takes, that it documents itself, that its defaults are the model's."""

import json
import re
from pathlib import Path

import jsonschema
import pytest

from fusiond.config.load import load
from fusiond.config.schema import schema_text
from tests.file_reference import SCHEMA, SECTIONS, rows

ROOT = Path(__file__).parent.parent


def properties(schema, path=()):
    """Each key that the schema describes: path, its subschema, the keys that must be there beside it."""
    if isinstance(schema, list):
        for item in schema:
            yield from properties(item, path)
    elif isinstance(schema, dict):
        needed = {key for branch in [schema, *schema.get("oneOf", ())] for key in branch.get("required", ())}
        for key, below in schema.get("properties", {}).items():
            yield (*path, key), below, key in needed
        for key, below in schema.items():
            for name, inner in below.items() if key in ("properties", "$defs") else [(key, below)]:
                yield from properties(inner, (*path, name))


KEYS = list(properties(SCHEMA))


def test_it_is_a_draft_2020_12_schema():
    """Any validator and editor can take it."""
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(schema_text()) == SCHEMA


@pytest.mark.parametrize(("path", "key", "needed"), KEYS, ids=[".".join(path) for path, _, _ in KEYS])
def test_each_key_describes_itself(path, key, needed):
    """A title, a description, examples that are valid, and a default that is valid unless the key is required."""
    assert key["title"][0].isupper()
    assert key["description"].endswith(".")
    validator = jsonschema.Draft202012Validator({**key, "$defs": SCHEMA["$defs"]})
    for example in key["examples"]:
        validator.validate(example)
    assert ("default" in key) != needed
    if not needed:
        validator.validate(key["default"])


def test_no_map_takes_unknown_keys():
    """Each map says which keys it takes, or what its names' values are; free ones are arguments alone."""

    def maps(schema, path=()):
        if isinstance(schema, dict):
            if "object" in schema.get("type", ()) and "additionalProperties" not in schema:
                yield path[-1]
            for key, below in schema.items():
                yield from maps(below, (*path, key))

    assert list(maps(SCHEMA)) == ["kwargs"]


def defaults_of(schema, skip=()):
    """The keys of a map with their defaults written out."""
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return {
        key: below["default"] for key, below in schema["properties"].items() if "default" in below and key not in skip
    }


def config_of(content):
    """The Config of plain data; JSON is YAML."""
    loaded = load(ROOT / "fusion.yaml", environ={}, data=json.dumps({"version": 1, **content}).encode())
    assert not [problem for problem in loaded.problems if problem.is_error]
    return loaded.config


def test_the_defaults_of_the_schema_are_those_of_the_model():
    """To write every default out is to write nothing."""
    definitions = SCHEMA["$defs"]
    bare = {
        "retry_policies": {"p": {}},
        "queues": {"q": {}},
        "tasks": {"t": {"run": "x.y"}},
        "cron": {"c": {"task": "t", "every": "5s"}},
        "workers": {"w": {}},
    }
    full = {
        **defaults_of(SCHEMA),
        **{key: defaults_of(definitions[key]) for key in ("broker", "control", "logging")},
        "broker": defaults_of(definitions["broker"], skip={"tls"}),
        "defaults": {
            "tasks": defaults_of(definitions["task_defaults"]),
            "workers": defaults_of(definitions["defaults"]["properties"]["workers"]),
        },
        "retry_policies": {"p": defaults_of(definitions["retry_policy"])},
        "queues": {"q": {**defaults_of(definitions["queue"]), "defaults": defaults_of(definitions["task_defaults"])}},
        "tasks": {"t": {"run": "x.y", **defaults_of(definitions["task"])}},
        "cron": {"c": {"task": "t", "every": "5s", **defaults_of(definitions["cron_entry"])}},
        "workers": {"w": defaults_of(definitions["worker_group"])},
    }
    assert config_of(full) == config_of(bare)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_docs_have_each_key_as_the_schema_has_it(section):
    """docs/file.md says the same default, examples and meaning; `python tests/file_reference.py` prints its rows."""
    page = (ROOT / "docs" / "file.md").read_text()
    heading = re.escape(section)
    text = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)[1]
    assert [row for row in text.splitlines() if row.startswith("| `")] == list(rows(section))


def test_each_file_of_the_docs_is_valid():
    """What docs/file.md shows can be copied: not one problem, whoever reads it."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / "file.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 4
    for block in blocks:
        loaded = load("fusion.yaml", environ={}, data=block.encode())
        assert [str(problem) for problem in loaded.problems if problem.code != "runs-as-root"] == []


@pytest.mark.parametrize("path", ["etc/fusion.yaml", "fusiond/config/starter.yaml"])
def test_the_files_that_ship_are_valid_anywhere(path):
    """Neither the example nor the starter needs a user, a directory or a variable."""
    loaded = load(ROOT / path, environ={}, to_run=True)
    assert [str(problem) for problem in loaded.problems if problem.code not in ("runs-as-root", "unsafe-file")] == []
