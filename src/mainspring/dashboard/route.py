"""A route as a value: from one table of them come both what is served and what the OpenAPI document says."""

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
"""Bytes that a body may have: without a payload in it, and with one."""
_IN_PATH = re.compile(r"{(\w+)}")


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """A request that says nothing beyond its path."""


@dataclass(frozen=True, slots=True)
class House:
    """What every route works with."""

    app: Mainspring
    gate: Gate
    redaction: Redaction
    bulks: Bulks
    pulse: Pulse
    access_log: AccessLog


@dataclass(frozen=True, slots=True)
class Visit:
    """One request on its way through a route."""

    house: House
    access: Access
    request: Request
    cookies: list[str] = field(default_factory=list)
    """To be set with the answer."""

    @property
    def app(self) -> Mainspring:
        """The app that is looked at."""
        return self.house.app

    @property
    def redaction(self) -> Redaction:
        """What is not shown."""
        return self.house.redaction

    @property
    def may_search(self) -> bool:
        """Whether payloads and errors may be searched: who finds knows, and not everybody may know what is masked."""
        return not self.house.redaction or self.access.role == "operator"

    @property
    def by(self) -> str:
        """Who does this, for the audit log."""
        return self.access.by


Does: TypeAlias = Callable[[Visit, Any], Awaitable[Struct | None]]
"""Answers a visit; the second argument is what was asked, of the route's ``asks``."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method on a path: who may ask, what they say, what they are answered.

    The fields of ``asks`` that the path names travel in it; the others in the query of a GET, in the body of a POST.
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
    """Whether the answer depends on who asks, beyond their role."""
    only_streams: bool = False
    """Whether there is no answer that ends."""
    largest: int = SMALL
    """Bytes that the body may have."""

    @property
    def in_path(self) -> frozenset[str]:
        """The fields that travel in the path."""
        return frozenset(_IN_PATH.findall(self.path))

    @property
    def changes(self) -> bool:
        """Whether asking may change anything."""
        return self.method == "POST"


def viewing(
    path: str,
    does: Does,
    summary: str,
    answers: type[Struct],
    asks: type[Struct] = Nothing,
) -> Route:
    """A route that everybody known may look at."""
    return Route("GET", path, does, summary, answers, asks)


def acting(
    path: str,
    does: Does,
    summary: str,
    asks: type[Struct] = Nothing,
    answers: type[Struct] | None = None,
    status: int | None = None,
) -> Route:
    """A route that changes something, for operators."""
    success = status or (204 if answers is None else 200)
    largest = LARGE if "payload" in asks.__struct_fields__ else SMALL
    return Route("POST", path, does, summary, answers, asks, "operator", success, largest=largest)
