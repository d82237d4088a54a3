"""Metrics for OpenTelemetry, for readers in any thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mainspring.app.connection import Connection
from mainspring.app.observe.metrics import Metrics
from mainspring.telemetry.exporters import meter_provider, observe
from mainspring.telemetry.metrics import Family

_logger = logging.getLogger("mainspring.app")
EVERY = 15.0
"""Seconds between two reads of the database."""


class OtelMetrics:
    """The metrics of an app, exported to the meter provider that is configured in this process, if any.

    Readers run in threads of their own, which cannot wait for the database: while a worker runs here, it is read
    regularly, if this process reports on it.
    """

    def __init__(self, metrics: Metrics, connection: Connection, app: str) -> None:
        self._app = app
        self._metrics = metrics
        self._connection = connection
        self._shown = False
        self._of_database: list[Family] = []

    def look(self) -> bool:
        """Return whether a provider observes; registers one that was configured since."""
        if not self._shown and (provider := meter_provider()) is not None:
            self._shown = True
            try:
                observe(provider, self.read, self._app)
            except Exception:
                # Whatever a provider raises, the app opens and works.
                _logger.exception("the configured meter provider does not observe the metrics of %r", self._app)
        return self._shown

    def read(self) -> Mapping[str, Family]:
        """Return the current metrics, by name. Thread-safe."""
        return {each.metric.name: each for each in (*self._metrics.of_process(self._connection), *self._of_database)}

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Read the database regularly while a worker runs, if a provider observes."""
        if not self.look():
            yield
            return
        looking = asyncio.create_task(self._keep_looking(), name="mainspring-metrics")
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait([looking])
            self._of_database = []

    async def refresh(self) -> None:
        """Read the database once."""
        self._of_database = await self._metrics.of_database(self._connection, "app.worker()")

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self.refresh()
            except Exception:
                _logger.exception("failed to read the database's metrics")
            await asyncio.sleep(EVERY)
