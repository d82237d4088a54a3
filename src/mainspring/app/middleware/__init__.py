"""Middleware: one behaviour around every publish and every handling; one per file."""

from __future__ import annotations

from mainspring.app.middleware.chain import Middleware, Next, Outgoing
from mainspring.app.middleware.context import LogContext
from mainspring.app.middleware.reporting import ReportErrors
from mainspring.app.middleware.slow import SlowHandlers

__all__ = ["LogContext", "Middleware", "Next", "Outgoing", "ReportErrors", "SlowHandlers"]
