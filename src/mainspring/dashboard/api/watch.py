"""Watching several things by one stream: a browser has few connections, and a page looks at more than one thing."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from msgspec import UNSET, Meta, Struct, UnsetType

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.route import Route, Visit

MOST = 8


class WatchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What to watch: each is the path of a GET beneath /api/ and its query, as in ``overview?window=15m``."""

    of: Annotated[list[Annotated[str, Meta(min_length=1, max_length=4000)]], Meta(min_length=1, max_length=MOST)]


class WatchFault(Struct, frozen=True):
    """What is wrong with one of them."""

    code: str
    message: str
    status: int


class WatchEvent(Struct, frozen=True):
    """The data of an event: which of those that were asked for, from 0, and its answer or what is wrong with it."""

    of: int
    body: Any | UnsetType = UNSET
    error: WatchFault | UnsetType = UNSET


async def watch(_visit: Visit, _asked: WatchQuery) -> NoReturn:
    """Refuse an answer that ends: there is none."""
    raise Problem(406, "not_acceptable", "this is a stream and nothing else: ask with `Accept: text/event-stream`")


ROUTES = (
    Route(
        "GET",
        "/api/watch",
        watch,
        "Several answers that go on, by one stream",
        WatchEvent,
        WatchQuery,
        # Each of what is asked for has its own.
        role=None,
        only_streams=True,
    ),
)
