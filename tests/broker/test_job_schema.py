"""schemas/job.schema.json and the claim agree on what a pushed job is."""

import json
from pathlib import Path

import jsonschema
import pytest

from fusiond.broker.call import as_is, plain
from fusiond.job import new_token
from tests.support.queue_state import broken

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "job.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PROPERTIES = SCHEMA["properties"]


def bodies():
    """The schema's own examples, and each key at, and just beyond, its limits."""
    yield from SCHEMA["examples"]
    for name, rule in PROPERTIES.items():
        yield from ({"task": "t", name: example} for example in rule["examples"])
        for number in (rule[limit] + step for limit in ("minimum", "maximum") if limit in rule for step in (-1, 0, 1)):
            yield {"task": "t", name: number}
        if "maxLength" in rule:
            yield from (
                {"task": "t", name: "x" * length} for length in (0, 1, rule["maxLength"], rule["maxLength"] + 1)
            )
        if rule["type"] in ("string", "number"):
            yield {"task": "t", name: 7 if rule["type"] == "string" else "7"}
        if rule["type"] in ("string", "number"):
            yield from ({"task": "t", name: wrong} for wrong in (True, [], {"a": 1}))
    for name in ("after", "join", "on_parent_failure", "timeout", "unique", "limit", "on_success", "on_failure"):
        yield {"task": "t", name: ["p/a"]}
    yield {"args": []}
    yield []
    yield {"task": "t", "id": "a b"}
    # Where Python's `$` stops before the line's end.
    yield from ({"task": "t", name: f"{PROPERTIES[name]['examples'][0]}\n"} for name in ("id", "traceparent"))


def test_the_schema_is_one():
    """Draft 2020-12, with a title, a description and examples for each key, the examples good."""
    VALIDATOR.check_schema(SCHEMA)
    for rule in PROPERTIES.values():
        assert {"title", "description", "examples"} <= rule.keys()
    assert all(VALIDATOR.is_valid(example) for example in SCHEMA["examples"])


@pytest.mark.parametrize("body", list(bodies()), ids=lambda body: json.dumps(body)[:60])
def test_the_claim_takes_what_the_schema_allows_and_no_more(run, broker, body):
    """A producer that checks against the schema never finds its job under `broken`, and the other way round."""
    run(plain(as_is, "LPUSH", broker.keys.of("q", "inbox"), json.dumps(body)))
    run(broker.claim("q", 0, dispatcher="d", nonce=new_token(), lease_ms=1000, max_rescues=1))
    assert (run(broken(broker, "q")) == []) == VALIDATOR.is_valid(body)
