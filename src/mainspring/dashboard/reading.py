"""Parsing requests: strict, bounded, and with precise errors."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeAlias

import msgspec
import msgspec.inspect
from msgspec import Meta, Struct
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.route import Route

BODY_PATIENCE = 10.0
"""Seconds within which a body must arrive."""
_QUERY_LIMIT = 8192
_DIGITS = 10
_FIRST, _LAST = 1970, 9000
_PLACE, _UNKNOWN = " - at `$", "unknown field "
_NAMED, _SAID = 50, 300
"""The maximum lengths of a quoted name, and of a message."""

NO_NUL: str = r"^[^\x00]*$"
"""Characters that databases do not store in text."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]
Topic: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255, pattern=NO_NUL)]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, pattern=NO_NUL)]
Reason: TypeAlias = Annotated[str, Meta(max_length=500, pattern=NO_NUL)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=200)]
Before: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Length: TypeAlias = Annotated[float, Meta(ge=0, le=3_155_760_000)] | Annotated[str, Meta(min_length=1, max_length=50)]
"""A duration: seconds, or text such as 15m."""


async def read(request: Request, route: Route) -> Struct:
    """Parse a request for the route. Raises Problem, with what to change."""
    given: dict[str, Any] = {name: request.path_params[name] for name in route.in_path}
    if route.method == "GET":
        return asked_by(route, given, request.url.query)
    if request.url.query:
        raise Problem(422, "invalid", "a POST takes no query: send the fields in the body")
    said = await _body(request, route.largest)
    if doubled := given.keys() & said.keys():
        raise Problem(422, "invalid", f"{', '.join(sorted(doubled))} is in the path: omit it from the body")
    return _converted(given | said, route, strict=True)


def asked_by(route: Route, given: Mapping[str, Any], query: str) -> Struct:
    """Parse a GET by its path and its query. Raises Problem."""
    return _converted({**given, **_query(query, _lists(route.asks), given)}, route, strict=False)


def _query(query: str, lists: frozenset[str], given: Mapping[str, Any]) -> dict[str, Any]:
    if len(query) > _QUERY_LIMIT:
        raise Problem(422, "invalid", f"the query is longer than {_QUERY_LIMIT} characters: shorten it")
    found: dict[str, Any] = {}
    for name, value in QueryParams(query).multi_items():
        if name in lists:
            found.setdefault(name, []).append(value)
            continue
        if name in found or name in given:
            raise Problem(422, "invalid", f"{name[:50]!r} is given twice: give it once")
        if value:  # an empty form field counts as absent
            found[name] = value
    return found


@functools.cache
def _lists(asks: type[Struct]) -> frozenset[str]:
    """Return the fields that may be repeated."""
    fields = msgspec.inspect.type_info(asks).fields  # type: ignore[attr-defined]
    return frozenset(each.name for each in fields if isinstance(each.type, msgspec.inspect.ListType))


async def _body(request: Request, largest: int) -> dict[str, Any]:
    raw = await body_of(request, largest)
    if not raw.strip():
        return {}
    try:
        said = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        raise Problem(422, "invalid", "the body is not JSON, or nested too deeply: send an object") from None
    if not isinstance(said, dict):
        raise Problem(422, "invalid", "the body is JSON, but not an object: send one, such as {}")
    return said


async def body_of(request: Request, largest: int) -> bytes:
    """Read the body, up to its maximum size and time."""
    too_large = Problem(413, "too_large", f"the body is over {largest:,} bytes: shorten it")
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and (len(announced) > _DIGITS or int(announced) > largest):
        raise too_large
    parts = bytearray()
    try:
        async with asyncio.timeout(BODY_PATIENCE):
            async for part in request.stream():
                parts += part
                if len(parts) > largest:
                    raise too_large
    except ClientDisconnect:
        raise Problem(400, "gone", "the request ended before its body did") from None
    except TimeoutError:
        told = f"the body did not arrive within {BODY_PATIENCE:.0f} s: send it faster, or shorten it"
        raise Problem(408, "slow_body", told) from None
    return bytes(parts)


def _converted(given: Mapping[str, Any], route: Route, *, strict: bool) -> Struct:
    try:
        asked = msgspec.convert(given, route.asks, strict=strict)
        _check_instants(asked)
    except msgspec.ValidationError as error:
        raise Problem(422, "invalid", _told(str(error), route)) from None
    except RecursionError:
        raise Problem(422, "invalid", "the body is nested too deeply") from None
    return asked


def _check_instants(asked: Struct) -> None:
    """Reject times so extreme that later arithmetic would overflow."""
    for name in asked.__struct_fields__:
        match getattr(asked, name):
            case datetime() as moment if not _FIRST <= moment.year <= _LAST:
                raise Problem(422, "invalid", f"{name}: {moment.isoformat()} is not between {_FIRST} and {_LAST}")
            case Struct() as within:
                _check_instants(within)
            case _:
                continue


def _told(said: str, route: Route) -> str:
    # The error may quote input of any length.
    what, _, place = said.rpartition(_PLACE) if _PLACE in said else (said, "", "")
    what = what.replace("`", "")
    place = _cut(place.rstrip("`").removeprefix("."), _NAMED)
    named = f"{place}: " if place else ""
    if _UNKNOWN in what:
        before, _, name = what.partition(_UNKNOWN)
        known = ", ".join(sorted(set(route.asks.__struct_fields__) - route.in_path)) or "nothing"
        return f"{named}{before}{_UNKNOWN}{_cut(name, _NAMED)}: use {known}"
    return f"{named}{what[:1].lower()}{_cut(what[1:], _SAID)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def length(given: Length) -> timedelta | str:
    """Convert a duration for the app: a number is seconds."""
    return given if isinstance(given, str) else timedelta(seconds=given)
