"""``Dashboard``: the pages and the API of an app, as one ASGI application."""

from __future__ import annotations

import functools
from typing import Unpack

from starlette.types import Receive, Scope, Send

from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.api import TABLE
from mainspring.dashboard.api.bulk import Bulks
from mainspring.dashboard.application import Application
from mainspring.dashboard.options import DashboardOptions, read_options
from mainspring.dashboard.readings import Readings
from mainspring.dashboard.route import Services
from mainspring.dashboard.site import Site


@functools.cache
def app_site() -> Site:
    """Return what serves the pages of an app, the same for all."""
    return Site(TABLE)


class Dashboard(Application):
    """The dashboard of one app: mount it in any ASGI application, or serve it standalone.

    It needs ``tokens`` or ``authenticate``: behind a proxy, it cannot tell whether a request comes from this machine.
    """

    def __init__(self, app: Mainspring, *, database_only: bool = False, **options: Unpack[DashboardOptions]) -> None:
        """Create it, without opening or connecting anything.

        ``database_only`` is for an app that stands for its database alone, as with ``mainspring dashboard --url``: what
        belongs to one application is rejected.
        """
        super().__init__(app, policy := read_options(options, "Dashboard(app)"))
        self._app = app
        self._services = Services(
            app,
            policy.gate,
            policy.redaction,
            Bulks(),
            Readings(app, policy.limits),
            self._access_log,
            self._live,
            self._lifecycle,
            database_only=database_only,
        )

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        await app_site().respond(scope, receive, send, self._services)

    async def _end_bulks(self) -> None:
        await self._services.bulks.aclose()

    def _audited(self) -> Mainspring:
        return self._app
