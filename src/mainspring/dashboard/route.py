"""Routes as values, and the parsing of their requests: strict, bounded, and with precise errors."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

import msgspec
import msgspec.inspect
from msgspec import Meta, Struct
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request

from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.readings import FleetReadings, Readings
from mainspring.dashboard.responses import Problem
from mainspring.dashboard.security.access_log import AccessLog
from mainspring.dashboard.security.gate import Gate
from mainspring.dashboard.security.identity import Access, Role
from mainspring.dashboard.security.redaction import Redaction

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet
    from mainspring.dashboard.api.bulk import Bulks
    from mainspring.dashboard.lifecycle import AppLifecycle
    from mainspring.dashboard.streams import Live

Method = Literal["GET", "POST"]
SMALL, LARGE = 64 * 1024, 1024 * 1024
"""The maximum bytes of a body: without a payload, and with one."""
_IN_PATH = re.compile(r"{(\w+)}")
BODY_PATIENCE = 10.0
"""Seconds within which a body must arrive."""
_QUERY_LIMIT = 8192
_DIGITS = 10
_FIRST, _LAST = 1970, 9000
_PLACE, _UNKNOWN, _ENUM = " - at `$", "unknown field ", "enum value"
_LONGEST_NAME, _LONGEST_MESSAGE = 50, 300
"""The maximum lengths of a quoted name, and of a message."""
NO_NUL: str = r"^[^\x00]*$"
"""Characters that databases do not store in text."""
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_NUL)]
Topic: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255, pattern=NO_NUL)]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500, pattern=NO_NUL)]
Reason: TypeAlias = Annotated[str, Meta(max_length=500, pattern=NO_NUL)]
Aware: TypeAlias = Annotated[datetime, Meta(tz=True)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=200)]
Cursor: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096, pattern=NO_NUL)]
"""The end of the previous page."""
Level: TypeAlias = Literal["urgent", "high", "normal", "low"] | Annotated[int, Meta(ge=0, le=3)]
"""A priority, by its name or its number."""
Length: TypeAlias = Annotated[float, Meta(ge=0, le=3_155_760_000)] | Annotated[str, Meta(min_length=1, max_length=50)]
"""A duration: seconds, or text such as 15m."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a request; unknown ones are rejected."""


class Nothing(Params, frozen=True):
    """A request without fields beyond its path."""


class PageQuery(Params, frozen=True):
    """The page to read."""

    cursor: Cursor | None = None
    limit: Limit = 50


@dataclass(frozen=True, slots=True)
class Services:
    """The services that every route uses."""

    app: Mainspring
    gate: Gate
    redaction: Redaction
    bulks: Bulks
    readings: Readings | FleetReadings
    access_log: AccessLog
    live: Live
    lifecycle: AppLifecycle
    database_only: bool = False
    """Whether the app has no name and no code: it is the database that a command was given."""
    fleet: Fleet | None = None
    """The fleet that is shown, if it is not one app."""
    database: str | None = None
    """The name of the database in the fleet that has it."""
    is_there: Callable[[], bool] = lambda: True
    """Whether the fleet has it."""

    def check_there(self) -> None:
        """Raise Problem if the fleet does not have this database, or no longer."""
        if not self.is_there():
            name = _cut(self.database or "", _LONGEST_NAME)
            raise Problem(404, "no_database", f"the fleet has no database {name!r}: its overview lists those it has")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a route."""

    services: Services
    access: Access
    request: Request
    cookies: list[str] = field(default_factory=list)
    """Cookies to set with the response."""

    @property
    def app(self) -> Mainspring:
        """The app of the dashboard."""
        return self.services.app

    @property
    def fleet(self) -> Fleet:
        """The fleet of the dashboard."""
        assert self.services.fleet is not None, "the routes of a fleet are served for one"
        return self.services.fleet

    @property
    def readings(self) -> Readings:
        """What is read once for several screens of an app."""
        assert isinstance(self.services.readings, Readings), "the routes of an app are served for one"
        return self.services.readings

    @property
    def named_app(self) -> Mainspring:
        """The app, for what belongs to one: schedules that are created, and freezes. Raises Problem."""
        if self.services.database_only:
            raise Problem(
                409,
                "no_app",
                "no application selected: schedules are created and frozen for one. Start the dashboard with it: "
                "mainspring dashboard --app MODULE:APP",
            )
        return self.services.app

    @property
    def redaction(self) -> Redaction:
        """The masking of secrets."""
        return self.services.redaction

    @property
    def may_search(self) -> bool:
        """Whether payloads and errors may be searched: matches reveal masked values, so only operators may."""
        return not self.services.redaction or self.access.role == "operator"

    @property
    def by(self) -> str:
        """The caller's name for the audit log."""
        return self.access.by


Function: TypeAlias = Callable[[Call, Any], Awaitable[object]]
"""Handles a request; the second argument is the parsed request."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method on a path: the required role, and the function, whose annotations are the types of request and response.

    Fields of ``takes`` that the path names are in it; the others are in the query of a GET, or the body of a POST.
    """

    method: Method
    path: str
    function: Function
    summary: str
    takes: type[Struct] = field(init=False)
    returns: type[object] | None = field(init=False)
    role: Role | None = "viewer"
    status: int = 0
    """The status of success [200, or 204 without a response]."""
    personal: bool = False
    """Whether the response depends on the caller beyond the role."""
    only_streams: bool = False
    """Whether the route only streams."""
    largest: int = 0
    """The maximum bytes of the body [a mebibyte with a payload, else 64 KiB]."""

    def __post_init__(self) -> None:
        """Read the types of the function."""
        _, takes, returns = get_type_hints(self.function, include_extras=True).values()
        has_response = returns is not NoneType
        derived = {
            "takes": takes,
            "returns": returns if has_response else None,
            "status": self.status or (200 if has_response else 204),
            "largest": self.largest or (LARGE if "payload" in takes.__struct_fields__ else SMALL),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def in_path(self) -> frozenset[str]:
        """The fields that are in the path."""
        return frozenset(_IN_PATH.findall(self.path))

    @property
    def changes(self) -> bool:
        """Whether it may change anything."""
        return self.method == "POST"


def get(path: str, function: Function, summary: str) -> Route:
    """Return a read-only route, for viewers."""
    return Route("GET", path, function, summary)


def post(path: str, function: Function, summary: str, status: int = 0) -> Route:
    """Return a route that changes something, for operators."""
    return Route("POST", path, function, summary, role="operator", status=status)


async def read(request: Request, route: Route) -> Struct:
    """Parse a request for the route. Raises Problem, with what to change."""
    given: dict[str, Any] = {name: request.path_params[name] for name in route.in_path}
    if route.method == "GET":
        return parse_query(route, given, request.url.query)
    if request.url.query:
        raise Problem(422, "invalid", "a POST takes no query: send the fields in the body")
    body = await _body(request, route.largest)
    if doubled := given.keys() & body.keys():
        raise Problem(422, "invalid", f"{', '.join(sorted(doubled))} is in the path: omit it from the body")
    return _converted(given | body, route, strict=True)


def parse_query(route: Route, given: Mapping[str, Any], query: str) -> Struct:
    """Parse a GET by its path and its query. Raises Problem."""
    return _converted({**given, **_query(query, _lists(route.takes), given)}, route, strict=False)


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
def _lists(takes: type[Struct]) -> frozenset[str]:
    """Return the fields that may be repeated."""
    fields = msgspec.inspect.type_info(takes).fields  # type: ignore[attr-defined]
    return frozenset(each.name for each in fields if isinstance(each.type, msgspec.inspect.ListType))


async def _body(request: Request, largest: int) -> dict[str, Any]:
    raw = await body_of(request, largest)
    if not raw.strip():
        return {}
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        raise Problem(422, "invalid", "the body is not JSON, or nested too deeply: send an object") from None
    if not isinstance(body, dict):
        raise Problem(422, "invalid", "the body is JSON, but not an object: send one, such as {}")
    return body


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
        message = f"the body did not arrive within {BODY_PATIENCE:.0f} s: send it faster, or shorten it"
        raise Problem(408, "slow_body", message) from None
    return bytes(parts)


def _converted(given: Mapping[str, Any], route: Route, *, strict: bool) -> Struct:
    try:
        params = msgspec.convert(given, route.takes, strict=strict)
        _check_instants(params)
    except msgspec.ValidationError as error:
        raise Problem(422, "invalid", _explained(str(error), route)) from None
    except RecursionError:
        raise Problem(422, "invalid", "the body is nested too deeply") from None
    return params


def _check_instants(params: Struct) -> None:
    """Reject times so extreme that later arithmetic would overflow."""
    for name in params.__struct_fields__:
        match getattr(params, name):
            case datetime() as moment if not _FIRST <= moment.year <= _LAST:
                raise Problem(422, "invalid", f"{name}: {moment.isoformat()} is not between {_FIRST} and {_LAST}")
            case Struct() as within:
                _check_instants(within)
            case _:
                continue


def _explained(error: str, route: Route) -> str:
    # The error may quote input of any length.
    what, _, place = error.rpartition(_PLACE) if _PLACE in error else (error, "", "")
    what = what.replace("`", "")
    place = _cut(place.rstrip("`").removeprefix("."), _LONGEST_NAME)
    named = f"{place}: " if place else ""
    if _UNKNOWN in what:
        before, _, name = what.partition(_UNKNOWN)
        known = ", ".join(sorted(set(route.takes.__struct_fields__) - route.in_path)) or "nothing"
        if route.method == "GET":
            return f"there is no parameter {_cut(name, _LONGEST_NAME)!r}: this route takes {known}"
        return f"{named}{before}{_UNKNOWN}{_cut(name, _LONGEST_NAME)}: use {known}"
    choices = _choices(route.takes, place)
    use = f": use {', '.join(choices)}" if choices and _ENUM in what else ""
    return f"{named}{what[:1].lower()}{_cut(what[1:], _LONGEST_MESSAGE)}{use}"


def _choices(takes: type[Struct], field: str) -> list[str]:
    """Return the words that a field may have; none if it may have others."""
    kinds = [each.type for each in msgspec.inspect.type_info(takes).fields if each.name == field]  # type: ignore[attr-defined]
    kinds = [one for each in kinds for one in getattr(each, "types", (each,))]
    return [str(value) for each in kinds if isinstance(each, msgspec.inspect.LiteralType) for value in each.values]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def length(given: Length | None) -> timedelta | str | None:
    """Convert a duration, if given, for the app: a number is seconds."""
    return timedelta(seconds=given) if isinstance(given, float | int) else given
