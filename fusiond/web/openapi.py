"""The OpenAPI document, from the endpoints' declarations: inputs, and the dataclasses that they return."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from fusiond.web.endpoint import API, Endpoint
from fusiond.web.inputs import Input

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
#: of the error: what each status says of any endpoint, of those that name something, and of those that act
_ALWAYS = {
    400: "the request is malformed",
    401: "no token, or a wrong one",
    403: "the user has not this right",
    405: "another method; `Allow` names those that are served",
    414: "the address is too long",
    421: "another name of the server than it expects",
    429: "too many requests at once, or the queue is full",
    500: "a mistake of the server, of which its log has more",
    503: "Redis or the daemon cannot be reached",
}
_NAMED = {404: "what the request names does not exist"}
_ACTS = {408: "the body took too long", 409: "the state of things does not allow it", 413: "the body is too large"}


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """OpenAPI 3.1."""
    schemas: dict[str, Any] = {"Error": _ERROR}
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        path = API + each.api_path
        paths.setdefault(path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "fusiond", "version": version, "description": "What the dashboard shows and does."},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Any]) -> dict[str, Any]:
    body = [each for each in endpoint.inputs if each.place == "body"]
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "description": f"Needs the right {endpoint.right}{' in all queues' if endpoint.everywhere else ''}.",
        "operationId": _operation_id(endpoint),
        "parameters": [_parameter(each) for each in endpoint.inputs if each.place != "body"],
        "responses": {
            "200": {
                "description": "Done" if endpoint.method == "POST" else "As it is now",
                "content": {"application/json": {"schema": schema_of(endpoint.returns, schemas)}},
            },
            **_errors(endpoint),
        },
    }
    if body:
        found["requestBody"] = {"content": {"application/json": {"schema": _body(body)}}}
    return found


def _errors(endpoint: Endpoint) -> dict[str, Any]:
    names_something = any(each.place == "path" or each.name == "queue" for each in endpoint.inputs)
    statuses = _ALWAYS | (_NAMED if names_something else {}) | (_ACTS if endpoint.method == "POST" else {})
    schema = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {str(status): {"description": statuses[status], "content": schema} for status in sorted(statuses)}


def _operation_id(endpoint: Endpoint) -> str:
    words = re.sub(r"[{}/]+", "_", endpoint.api_path).strip("_")
    return f"{endpoint.method.lower()}_{words}"


def _parameter(each: Input) -> dict[str, Any]:
    is_json = each.form in ("array", "object")
    shape: dict[str, Any] = (
        {"content": {"application/json": {"schema": each.schema()}}} if is_json else {"schema": each.schema()}
    )
    found = {"name": each.name, "in": each.place, "description": each.description} | shape
    return found | ({"required": True} if each.required else {})


def _body(inputs: Iterable[Input]) -> dict[str, Any]:
    properties = {each.name: {**each.schema(), "description": each.description} for each in inputs}
    required = [each.name for each in inputs if each.required]
    found = {"type": "object", "additionalProperties": False, "properties": properties}
    return found | ({"required": required} if required else {})


def schema_of(hint: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a type; that of a dataclass is put into `schemas`, and referred to."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        name = hint.__name__
        if name not in schemas:
            schemas[name] = {}  # before its fields, which may refer to it
            hints = typing.get_type_hints(hint)
            names = [each.name for each in dataclasses.fields(hint)]
            properties = {each: schema_of(hints[each], schemas) for each in names}
            schemas[name] = {"type": "object", "required": names, "properties": properties}
        return {"$ref": f"#/components/schemas/{name}"}
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(arm, schemas) for arm in args]}
    if origin is list:
        return {"type": "array", "items": schema_of(args[0], schemas)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(args[1], schemas)}
    if origin is typing.Literal:
        return {"enum": [*args]}
    return {"type": _PLAIN[hint]} if hint in _PLAIN else {}
