"""The dashboard: observing and controlling an app in a browser, as an ASGI application.

::

    from mainspring.dashboard import Dashboard

    api.mount("/ops", Dashboard(app, tokens={"operator": "…", "viewer": "…"}))
"""

from __future__ import annotations

from mainspring.model.errors import MissingExtra

try:
    import starlette  # noqa: F401
except ImportError as _error:
    raise MissingExtra("starlette", "web", "the dashboard") from _error

from mainspring.dashboard.dashboard import Dashboard
from mainspring.dashboard.fleet import FleetDashboard
from mainspring.dashboard.probes import Probes
from mainspring.dashboard.security.identity import Identity, Role
from mainspring.dashboard.security.redaction import REDACTED

__all__ = ["REDACTED", "Dashboard", "FleetDashboard", "Identity", "Probes", "Role"]
