"""``FleetDashboard``: the overview of a fleet, and the dashboard of each of its databases, as one ASGI application."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Unpack
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import Receive, Scope, Send

from mainspring.app.fleet.fleet import Fleet
from mainspring.app.fleet.report import of_member
from mainspring.app.fleet.state import FleetState
from mainspring.app.fleet.survey import survey_of
from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.api import FLEET_TABLE
from mainspring.dashboard.api.bulk import Bulks
from mainspring.dashboard.application import Application
from mainspring.dashboard.dashboard import app_site
from mainspring.dashboard.options import DashboardOptions, read_options
from mainspring.dashboard.readings import FleetReadings, Readings
from mainspring.dashboard.route import Services
from mainspring.dashboard.security.gate import HOME, ROOT
from mainspring.dashboard.security.headers import guarded
from mainspring.dashboard.site import Site
from mainspring.model.errors import BadOption, Misuse

_BELOW = "db"
"""The first part of the paths of databases."""


@functools.cache
def fleet_site() -> Site:
    """Return what serves the overview of a fleet, the same for all."""
    return Site(FLEET_TABLE)


class FleetDashboard(Application):
    """The dashboard of a fleet: an overview, and below ``/db/acme/`` the pages of each database, with one login.

    Logins and rejections are recorded in the audit of one database, ``home`` or else the first: senders that are
    unknown open no other.
    """

    def __init__(self, fleet: Fleet, **options: Unpack[DashboardOptions]) -> None:
        """Create it, without opening or connecting anything. The options are those of ``Dashboard``."""
        if not isinstance(fleet, Fleet):
            raise BadOption(f"FleetDashboard(fleet) takes a Fleet, not {fleet!r}: write Dashboard(app) for one app")
        super().__init__(fleet, read_options(options, "FleetDashboard(fleet)"))
        self._fleet = fleet
        survey_of(fleet).limits = self._policy.limits
        self._databases: dict[str, Services] = {}
        # No database: what is used of this app is its name.
        self._services = self._made(fleet._app, FleetReadings(fleet), fleet=fleet)  # noqa: SLF001 - the app it leads

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = named_database(scope)
        if named is None:
            await fleet_site().respond(scope, receive, send, self._services)
            return
        name, rest, is_canonical = named
        root = f"{scope[HOME]}/{_BELOW}/{quote(name, safe='')}"
        if not is_canonical and scope["method"] in ("GET", "HEAD"):
            # The pages compare their addresses with their root, and a name can be encoded in several ways.
            query = f"?{Request(scope).url.query}" if scope["query_string"] else ""
            await RedirectResponse(f"{root}{quote(rest)}{query}", 307)(scope, receive, guarded(send))
            return
        await app_site().respond({**scope, "path": rest, ROOT: root}, receive, send, self._of(name))

    def _of(self, name: str) -> Services:
        """Return the services for a database; those for a name that the fleet does not have use none."""
        known = self._databases.get(name)
        if name not in self._fleet:
            self._databases.pop(name, None)
            return self._made(self._services.app, FleetReadings(self._fleet), name, is_there=lambda: False)
        app = self._fleet[name]
        if known is None or known.app is not app:
            for gone in self._databases.keys() - set(self._fleet):
                del self._databases[gone]
            limits = self._policy.limits or self._fleet._app.health.limits  # noqa: SLF001 - those of all databases
            readings = Readings(app, limits, of_member)
            is_there = functools.partial(self._has, name, app)
            known = self._databases[name] = self._made(app, readings, name, is_there=is_there)
        return known

    def _has(self, name: str, app: Mainspring) -> bool:
        return name in self._fleet and self._fleet[name] is app

    def _made(
        self,
        app: Mainspring,
        readings: Readings | FleetReadings,
        database: str | None = None,
        *,
        fleet: Fleet | None = None,
        is_there: Callable[[], bool] = lambda: True,
    ) -> Services:
        gate, redaction = self._policy.gate, self._policy.redaction
        shared = (self._access_log, self._live, self._lifecycle)
        return Services(
            app, gate, redaction, Bulks(), readings, *shared, fleet=fleet, database=database, is_there=is_there
        )

    async def _end_bulks(self) -> None:
        await asyncio.gather(*(each.bulks.aclose() for each in self._databases.values()))

    def _audited(self) -> Mainspring:
        name = FleetState(self._fleet).home
        if name is None:
            raise Misuse("the fleet has no database")
        return self._fleet[name]


def named_database(scope: Scope) -> tuple[str, str, bool] | None:
    """Return the database that a path names, the path below it, and whether its name is encoded as in links.

    None: the path is none of a database. Only the path as it was sent tells a name with a slash.
    """
    path: str = scope["path"].strip("/")
    if path != _BELOW and not path.startswith(f"{_BELOW}/"):
        return None
    sent = scope.get("raw_path") or quote(path).encode()
    parts = sent.partition(b"?")[0].decode("latin-1").strip("/").split("/")
    for place, part in enumerate(parts[:-1]):
        if part == _BELOW and unquote("/".join(parts[place:])) == path:
            name = unquote(parts[place + 1])
            break
    else:
        return None
    rest = unquote("/".join(parts[place + 2 :]))
    return name, f"/{rest}", parts[place + 1] == quote(name, safe="")
