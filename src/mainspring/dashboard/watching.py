"""The routes of what a stream watches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from msgspec import Struct

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.reading import asked_by
from mainspring.dashboard.route import Route


class Watchable:
    """The routes that can be watched together: all GET routes except the stream itself."""

    def __init__(self, table: Iterable[Route]) -> None:
        self._table = tuple((_pattern(route), route) for route in table)

    def found(self, of: str) -> tuple[Route, Struct]:
        """Return the route and the parsed request of a path below /api/ and its query. Raises Problem."""
        path, _, query = of.partition("?")
        by_others = False
        for pattern, route in self._table:
            if (match := pattern.fullmatch(f"/api/{path}")) is None:
                continue
            if route.method == "GET" and not route.only_streams:
                return route, _asked(route, match.groupdict(), query, path)
            by_others = True
        why = "cannot be watched" if by_others else "is not a path below /api/"
        told = "give the path of a GET, such as of=overview%3Fwindow%3D15m"
        raise Problem(422, "invalid", f"of: {path[:50]!r} {why}: {told}")


def _asked(route: Route, given: Mapping[str, str], query: str, path: str) -> Struct:
    try:
        return asked_by(route, {name: unquote(value) for name, value in given.items()}, query)
    except Problem as problem:
        raise Problem(problem.status, problem.code, f"of {path[:50]}: {problem.message}") from None


def _pattern(route: Route) -> re.Pattern[str]:
    parts = re.split(r"{(\w+)}", route.path)
    return re.compile(
        "".join(f"(?P<{part}>[^/]+)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
    )
