"""Metrics for OpenTelemetry: what its readers are shown of an app, in whatever thread they ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from mainspring.app.door import Door
from mainspring.app.metrics import Metrics
from mainspring.telemetry.metrics import Family
from mainspring.telemetry.otel_metrics import configured, observe

_logger = logging.getLogger("mainspring.app")
EVERY = 15.0
"""Seconds between two looks at the database."""


class Observing:
    """Shows the metrics of an app to the meter provider that is configured in this process, if there is one.

    Readers ask in threads of their own, which cannot wait for the database: while a worker runs here, it is looked at
    every now and then, if it is this process' turn to tell of it.
    """

    def __init__(self, metrics: Metrics, door: Door, app: str) -> None:
        self._app = app
        self._metrics = metrics
        self._door = door
        self._shown = False
        self._of_database: list[Family] = []

    def look(self) -> bool:
        """Whether somebody observes. Who has configured a provider meanwhile does from now on."""
        if not self._shown and (provider := configured()) is not None:
            self._shown = True
            try:
                observe(provider, self.read, self._app)
            except Exception:
                # Whatever a provider objects to, an app opens and works all the same.
                _logger.exception("the configured meter provider does not observe the metrics of %r", self._app)
        return self._shown

    def read(self) -> Mapping[str, Family]:
        """What there is to tell now, by name. From any thread."""
        return {each.metric.name: each for each in (*self._metrics.of_process(self._door), *self._of_database)}

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """While a worker runs: look at the database now and then, if somebody observes."""
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
        """Look at the database once."""
        self._of_database = await self._metrics.of_database(self._door, "app.worker()")

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self.refresh()
            except Exception:
                _logger.exception("the metrics of the database are not known")
            await asyncio.sleep(EVERY)
