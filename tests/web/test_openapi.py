"""The API's document, and what the server answers."""

import functools
import re

from jsonschema import Draft202012Validator

from fusiond.web.application import ENDPOINTS
from fusiond.web.endpoint import API
from tests.web.test_failures import fail


def valid(instance, document, ref):
    """Whether it is what a schema of the document says."""
    schema = {"components": document["components"], **ref}
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(instance)]
    assert errors == []


def test_the_document_is_one_of_openapi(dashboard):
    """Every reference leads somewhere, every input of a path is declared, every operation has a name of its own."""
    document = dashboard.get(f"{API}/openapi.json").json
    assert document["openapi"] == "3.1.0"
    names = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert method in ("get", "post")
            declared = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert declared == set(re.findall(r"{(\w+)}", path)), path
            names.append(operation["operationId"])
    assert len(names) == len(set(names)) == len(ENDPOINTS)
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_each_answer_is_what_the_document_says(dashboard, desk):
    """Each GET that needs no name, a job and an action, over data of every kind; an error, too."""
    fail(desk, "default", "send", "no such user #", 2)
    waiting = desk.enqueued("report", "x")
    document = dashboard.get(f"{API}/openapi.json").json
    paths = [path for path, operations in document["paths"].items() if "get" in operations and "{" not in path]
    paths.remove(f"{API}/configuration/plan")  # the daemon makes it
    assert len(paths) > 10
    for path in [*paths, f"{API}/jobs/{waiting}"]:
        reply = dashboard.get(path)
        assert reply.status == 200, (path, reply.text)
        declared = document["paths"][re.sub("/reports/.*", "/{queue}/{id}", path)]["get"]["responses"]["200"]
        valid(reply.json, document, declared["content"]["application/json"]["schema"])
    done = document["paths"][f"{API}/jobs/{{queue}}/{{id}}/cancel"]["post"]["responses"]
    valid(
        dashboard.post(f"{API}/jobs/{waiting}/cancel").json,
        document,
        done["200"]["content"]["application/json"]["schema"],
    )
    ask = functools.partial(dashboard.ask, Authorization=f"Bearer {dashboard.token}", Origin=f"http://{dashboard.host}")
    for path in (f"{API}/queues", f"{API}/jobs/reports/none", "/cron/none/run"):
        wrong = ask("DELETE", path)
        assert (wrong.status, wrong.headers["Allow"]) == (405, "POST" if "run" in path else "GET, HEAD")
    assert ask("DELETE", f"{API}/jobs").headers["Allow"] == "GET, HEAD, POST"
    refused = dashboard.post(f"{API}/jobs/reports/none/cancel")
    valid(refused.json, document, done["404"]["content"]["application/json"]["schema"])
