"""A route as a value: one table of routes defines both what is served and the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from starlette.requests import Request

from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.bulk import Bulks
from mainspring.dashboard.pulse import Pulse
from mainspring.dashboard.security.access_log import AccessLog
from mainspring.dashboard.security.gate import Gate
from mainspring.dashboard.security.identity import Access, Role
from mainspring.dashboard.security.redaction import Redaction

Method = Literal["GET", "POST"]
SMALL, LARGE = 64 * 1024, 1024 * 1024
"""The maximum bytes of a body: without a payload, and with one."""
_IN_PATH = re.compile(r"{(\w+)}")


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A request without fields beyond its path."""


@dataclass(frozen=True, slots=True)
class House:
    """The services that every route uses."""

    app: Mainspring
    gate: Gate
    redaction: Redaction
    bulks: Bulks
    pulse: Pulse
    access_log: AccessLog


@dataclass(frozen=True, slots=True)
class Visit:
    """One request to a route."""

    house: House
    access: Access
    request: Request
    cookies: list[str] = field(default_factory=list)
    """Cookies to set with the response."""

    @property
    def app(self) -> Mainspring:
        """The app of the dashboard."""
        return self.house.app

    @property
    def redaction(self) -> Redaction:
        """The masking of secrets."""
        return self.house.redaction

    @property
    def may_search(self) -> bool:
        """Whether payloads and errors may be searched: matches reveal masked values, so only operators may."""
        return not self.house.redaction or self.access.role == "operator"

    @property
    def by(self) -> str:
        """The caller's name for the audit log."""
        return self.access.by


Does: TypeAlias = Callable[[Visit, Any], Awaitable[Struct | None]]
"""Handles a request; the second argument is the parsed request, of the route's ``asks``."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method on a path: the required role, the request type and the response type.

    Fields of ``asks`` that the path names are in it; the others are in the query of a GET, or the body of a POST.
    """

    method: Method
    path: str
    does: Does
    summary: str
    answers: type[Struct] | None = None
    asks: type[Struct] = Nothing
    role: Role | None = "viewer"
    status: int = 200
    personal: bool = False
    """Whether the response depends on the caller beyond the role."""
    only_streams: bool = False
    """Whether the route only streams."""
    largest: int = SMALL
    """The maximum bytes of the body."""

    @property
    def in_path(self) -> frozenset[str]:
        """The fields that are in the path."""
        return frozenset(_IN_PATH.findall(self.path))

    @property
    def changes(self) -> bool:
        """Whether it may change anything."""
        return self.method == "POST"


def viewing(
    path: str,
    does: Does,
    summary: str,
    answers: type[Struct],
    asks: type[Struct] = Nothing,
) -> Route:
    """Return a read-only route, for viewers."""
    return Route("GET", path, does, summary, answers, asks)


def acting(
    path: str,
    does: Does,
    summary: str,
    asks: type[Struct] = Nothing,
    answers: type[Struct] | None = None,
    status: int | None = None,
) -> Route:
    """Return a route that changes something, for operators."""
    success = status or (204 if answers is None else 200)
    largest = LARGE if "payload" in asks.__struct_fields__ else SMALL
    return Route("POST", path, does, summary, answers, asks, "operator", success, largest=largest)
