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
_ERROR = {
    "description": "What was wrong, in one sentence",
    "content": {
        "application/json": {
            "schema": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
        }
    },
}


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """OpenAPI 3.1."""
    schemas: dict[str, Any] = {}
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
            "default": _ERROR,
        },
    }
    if endpoint.method == "POST":
        found["responses"]["409"] = _ERROR | {"description": "The state of things does not allow it"}
    if body:
        found["requestBody"] = {"content": {"application/json": {"schema": _body(body)}}}
    return found


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
