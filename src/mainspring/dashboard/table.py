"""The table of all routes of the API."""

from __future__ import annotations

from mainspring.dashboard.api import (
    acting,
    audit,
    bulks,
    consumer,
    consumers,
    dead,
    fanouts,
    history,
    leases,
    messages,
    overview,
    preview,
    schedules,
    session,
    steering,
    watch,
    workers,
)
from mainspring.dashboard.route import Route

TABLE: tuple[Route, ...] = (
    *session.ROUTES,
    *overview.ROUTES,
    *messages.ROUTES,
    *acting.ROUTES,
    *history.ROUTES,
    *bulks.ROUTES,
    *consumers.ROUTES,
    *consumer.ROUTES,
    *schedules.ROUTES,
    *steering.ROUTES,
    *preview.ROUTES,
    *dead.ROUTES,
    *leases.ROUTES,
    *fanouts.ROUTES,
    *workers.ROUTES,
    *audit.ROUTES,
    *watch.ROUTES,
)
