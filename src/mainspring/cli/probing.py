"""HTTP probes of a worker: liveness, readiness and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mainspring.app.announcing import say
from mainspring.app.mainspring import Mainspring
from mainspring.cli.failures import Refused


@asynccontextmanager
async def probed(app: Mainspring, worker: AbstractAsyncContextManager[Any], probe: str | None) -> AsyncIterator[Any]:
    """Run the worker and, if an address is given, its probes, from before it starts until it has stopped."""
    if probe is None:
        async with worker as working:
            yield working
        return
    from mainspring.dashboard.probes import Probes
    from mainspring.dashboard.server import Server, address_of, bound

    listening = bound(*read_address(probe))
    server = Server(Probes(app), lifespan=False)
    server.listens_to_signals = False  # the worker handles them
    serving = asyncio.create_task(server.serve([listening]), name="mainspring-probes")
    told = f"mainspring probes: http://{address_of(listening)}/health/ready"
    try:
        async with worker as working:
            # Printed once the worker handles signals, so that a process that has printed it can be stopped.
            asyncio.get_running_loop().call_soon(say, told)
            yield working
    finally:
        server.should_exit = True
        await serving


def read_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``. Raises Refused."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004
        raise Refused(f"--probe {text!r} must be HOST:PORT, such as 127.0.0.1:9000")
    return host.strip("[]"), int(port)
