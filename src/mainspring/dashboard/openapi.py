"""The OpenAPI document, generated from the table of routes, so that it matches what is served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mainspring.dashboard.responses import JSON, Refusal
from mainspring.dashboard.route import Nothing, Route
from mainspring.dashboard.security.gate import cookie_name

_TEMPLATE = "#/components/schemas/{name}"
_STREAM = "text/event-stream"
_PROBLEMS = {
    400: "The request is incomplete.",
    401: "Authentication required, or the token is wrong.",
    403: "The caller's role does not allow it, or the request comes from a page of another origin.",
    404: "Not found.",
    409: "The current state does not allow it.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The dashboard is not served under that host.",
    422: "The request is invalid; the message contains what to change.",
    429: "Too many attempts or streams.",
    500: "An unexpected error, or a right that the dashboard lacks in the database.",
    503: "The database is unavailable.",
}


def document(table: Iterable[Route], version: str, root: str = "", home: str | None = None) -> dict[str, Any]:
    """Return the document for routes below ``root``, where a login belongs to ``home`` [the same]."""
    routes = list(table)
    home = root if home is None else home
    answered = {route.returns: route.only_streams for route in routes if route.returns is not None} | {Refusal: False}
    whole = _schemas(kind for kind, streamed in answered.items() if not streamed)
    parts = _schemas([route.takes for route in routes] + [kind for kind, streamed in answered.items() if streamed])
    schemas = {name: _complete(each) for name, each in whole.items()} | parts
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    bodies = {route.takes.__name__ for route in routes if route.changes and not route.in_path} - {Nothing.__name__}
    in_parameters = {route.takes.__name__ for route in routes} - bodies
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mainspring dashboard", "version": version},
        "servers": [{"url": root or "/"}],
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in schemas.items() if name not in in_parameters},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": f"__Host-{cookie_name(home)}",
                },
            },
        },
    }


def _schemas(kinds: Iterable[type[object]]) -> dict[str, Any]:
    ordered = sorted(set(kinds), key=lambda kind: kind.__name__)
    return msgspec.json.schema_components(ordered, ref_template=_TEMPLATE)[1]


def _complete(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a response as ``plain`` converts it: with every field, and durations in seconds."""
    fields = {name: _in_seconds(each) for name, each in schema.get("properties", {}).items()}
    for each in fields.values():
        each.pop("default", None)
    return {**schema, "properties": fields, "required": list(fields)}


def _in_seconds(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema.get("format") == "duration":
        return {**{name: each for name, each in schema.items() if name != "format"}, "type": "number"}
    return {**schema, **({"anyOf": [_in_seconds(each) for each in schema["anyOf"]]} if "anyOf" in schema else {})}


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    schema = schemas[route.takes.__name__]
    needed = set(schema.get("required", ()))
    found: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{route.path.removeprefix('/api').replace('{', '').replace('}', '')}",
        "tags": [route.path.split("/")[2]],
        "x-role": route.role,
        "responses": _responses(route),
    }
    if route.role is None:
        found["security"] = []
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema["properties"][name]}
        for name in sorted(route.in_path)
    ]
    rest = {name: each for name, each in schema.get("properties", {}).items() if name not in route.in_path}
    if route.method == "GET":
        parameters += [
            {"name": name, "in": "query", "required": name in needed, "schema": _without_null(each)}
            for name, each in rest.items()
        ]
    else:
        body = {
            "type": "object",
            "properties": rest,
            "required": sorted(needed - route.in_path),
            "additionalProperties": False,
        }
        shape = (
            body if route.in_path or route.takes is Nothing else {"$ref": _TEMPLATE.format(name=route.takes.__name__)}
        )
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": shape}}}
    if parameters:
        found["parameters"] = parameters
    return found


def _responses(route: Route) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done."}
    if route.returns is not None:
        shape = {"schema": {"$ref": _TEMPLATE.format(name=route.returns.__name__)}}
        success = {"description": "The response.", "content": {} if route.only_streams else {JSON: shape}}
        if not route.changes:
            # The data of each event is the same response.
            success["content"][_STREAM] = {"schema": {"type": "string"}}
    refusal = {JSON: {"schema": {"$ref": _TEMPLATE.format(name=Refusal.__name__)}}}
    described = {**_PROBLEMS, **({406: "The request does not accept a stream."} if route.only_streams else {})}
    problems = {str(status): {"description": each, "content": refusal} for status, each in described.items()}
    return {str(route.status): success, **problems}


def _without_null(schema: Mapping[str, Any]) -> Any:
    """Return the schema of an optional query parameter, which is omitted and never null."""
    if "anyOf" not in schema:
        return {name: value for name, value in schema.items() if name != "default" or value is not None}
    kinds = [each for each in schema["anyOf"] if each != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
