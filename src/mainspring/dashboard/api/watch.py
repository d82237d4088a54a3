"""Watching several resources over one stream, because browsers limit connections."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from msgspec import UNSET, Meta, Struct, UnsetType

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.route import Route, Visit

MOST = 8


class WatchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The resources: each is the path of a GET below /api/ and its query, such as ``overview?window=15m``."""

    of: Annotated[list[Annotated[str, Meta(min_length=1, max_length=4000)]], Meta(min_length=1, max_length=MOST)]


class WatchFault(Struct, frozen=True):
    """The problem of one of them."""

    code: str
    message: str
    status: int


class WatchEvent(Struct, frozen=True):
    """The data of an event: the index of the resource in the request, from 0, and its response or problem."""

    of: int
    body: Any | UnsetType = UNSET
    error: WatchFault | UnsetType = UNSET


async def watch(_visit: Visit, _asked: WatchQuery) -> NoReturn:
    """Reject a request for anything but a stream."""
    raise Problem(406, "not_acceptable", "this path only streams: send `Accept: text/event-stream`")


ROUTES = (
    Route(
        "GET",
        "/api/watch",
        watch,
        "Several resources over one stream",
        WatchEvent,
        WatchQuery,
        # Each watched resource has its own.
        role=None,
        only_streams=True,
    ),
)
