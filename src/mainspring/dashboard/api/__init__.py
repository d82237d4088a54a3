"""The dashboard's API, a file per screen: each declares its routes as values, and ``TABLE`` has them all."""

from __future__ import annotations

from mainspring.dashboard import streams
from mainspring.dashboard.api import (
    audit,
    brokers,
    bulk,
    consumers,
    fanouts,
    fleet,
    inbox,
    joins,
    leases,
    messages,
    overview,
    schedules,
    session,
    workers,
)
from mainspring.dashboard.route import Route

TABLE: tuple[Route, ...] = (
    *session.ROUTES,
    *overview.ROUTES,
    *messages.ROUTES,
    *bulk.ROUTES,
    *consumers.ROUTES,
    *brokers.ROUTES,
    *schedules.ROUTES,
    *joins.ROUTES,
    *inbox.ROUTES,
    *leases.ROUTES,
    *fanouts.ROUTES,
    *workers.ROUTES,
    *audit.ROUTES,
    *streams.ROUTES,
)

FLEET_TABLE: tuple[Route, ...] = (*session.ROUTES, *fleet.ROUTES, *streams.ROUTES)
"""Those of a fleet's overview."""
