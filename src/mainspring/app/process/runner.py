"""Workers in this process: how one is built, wake-ups, and ``app.run()``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from mainspring.app.blocking import in_loop
from mainspring.app.config import MOST_AT_ONCE, Options, unnamed
from mainspring.app.consume.consumer import Registration
from mainspring.app.options import whole
from mainspring.app.publisher import Publisher
from mainspring.model.errors import BadOption, Misuse
from mainspring.storage.contract import Storage
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.measures import Meters

if TYPE_CHECKING:
    from mainspring.runtime.schedules.declarations import Declared
    from mainspring.runtime.worker import Worker

_logger = logging.getLogger("mainspring.app")
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAME_SIGNAL = 0.1
"""Seconds within which a repeated signal is the same one."""


def build_worker(
    storage: Storage,
    chosen: Sequence[Registration],
    known: Iterable[Registration],
    name: str | None,
    options: Options,
    publisher: Publisher,
    schedules: Mapping[str, Declared],
    bus: Bus,
    meters: Meters,
    concurrency: int | None = None,
    *,
    tended: bool = False,
) -> Worker:
    """Build a worker for the chosen of all known consumers and every schedule of the app; it is not started."""
    # Imported here: a process that publishes starts without the runtime.
    from mainspring.runtime.schedules.declarations import Scheduling
    from mainspring.runtime.settings import WorkerSettings, owner_name
    from mainspring.runtime.worker import Worker

    settings = WorkerSettings(
        app=options.name,
        name=name or owner_name(),
        claim_time=options.claim_time,
        grace=options.grace,
        idle_poll=options.idle_poll,
        concurrency=_concurrency(concurrency, options, chosen),
        code=frozenset(each.group for each in known),
        retention=options.retention,
        tended=tended,
    )
    lending = publisher.lending(storage.lender(options.handler_pool))
    outermost = publisher.outermost()
    handlers = [each.handler(publisher, lending, outermost) for each in chosen]
    declarations = [each.declaration(options.name, options.version) for each in chosen]
    scheduling = Scheduling(settings.app, schedules, options.version, publisher.around_occurrences())
    meter = meters.new_meter()
    feeds = [feed for each in chosen if (feed := each.feed(publisher.spans)) is not None]
    worker = Worker(storage, handlers, declarations, settings, publisher.clock, bus, scheduling, meter, feeds)
    meter.worker = worker
    return worker


def warn_unnamed(options: Options, engine: str) -> None:
    """Log that a worker has the default name; memory is shared with no other application."""
    if (lacking := unnamed(options)) is not None and engine != "memory":
        _logger.warning("%s: %s", *lacking)


def _concurrency(given: int | None, options: Options, chosen: Sequence[Registration]) -> int | None:
    """Return the cap of a worker: its own or the app's. Raises BadOption."""
    name = "worker_concurrency" if given is None else "concurrency"
    most = options.worker_concurrency if given is None else whole(given, name, least=1, most=MOST_AT_ONCE)
    for each in chosen:
        if most is not None and each.batching is not None and each.batching.size > most and not each.takes_less:
            raise BadOption(
                f"{each.name} takes batches of {each.batching.size}, and {name}={most} is less, so that none would be "
                f"full: write {name}={each.batching.size} or more, or batch={most} or less"
            )
    return most


def wake(workers: Iterable[Worker]) -> None:
    """Wake them to check for due work."""
    for worker in workers:
        worker.wake()


@contextlib.asynccontextmanager
async def at_work(worker: Worker, *lists: list[Worker]) -> AsyncIterator[Worker]:
    """Start a worker, list it among this process' workers, and stop it at the end of the block.

    Raises MissingExtra if the client of a broker that it serves is not installed: a process that publishes needs none.
    """
    for _, link in worker.links():
        link.broker.require()
    for workers in lists:
        workers.append(worker)
    try:
        await worker.start()
        yield worker
    finally:
        try:
            await worker.stop()
        except asyncio.CancelledError:
            # The caller stops waiting: running work is released rather than left to lapse.
            await worker.stop_now()
            raise
        finally:
            for workers in lists:
                workers.remove(worker)


class Working(Protocol):
    """A worker, as what runs it until a signal sees it."""

    async def stop(self) -> None:
        """Let what runs finish within the grace."""
        ...

    async def stop_now(self) -> None:
        """Do not wait for what runs."""
        ...

    async def finished(self) -> None:
        """Wait until it has ended."""
        ...


def run(worker: AbstractAsyncContextManager[Working], line: int | None = None) -> bool:
    """Work until stopped: the first SIGTERM or SIGINT lets handlers finish, the second does not.

    ``line`` leads to a parent process: its end counts as a signal. False: without any signal, the worker ended by
    itself.
    """
    if in_loop():
        raise Misuse("app.run() would block the event loop it is called on: write `async with app.worker():`")
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve(worker, line))


async def serve(worker: AbstractAsyncContextManager[Working], line: int | None = None) -> bool:
    """Do the same on a running loop."""
    async with worker as working:
        with _stopped_by_signals(working, line) as stops:
            await working.finished()
            return bool(stops)


@contextlib.contextmanager
def _stopped_by_signals(worker: Working, line: int | None) -> Iterator[list[asyncio.Task[None]]]:
    loop = asyncio.get_running_loop()
    stops: list[asyncio.Task[None]] = []
    last = -_SAME_SIGNAL

    def stop(number: signal.Signals) -> None:
        nonlocal last
        # Signals to the process and then to its group count once.
        before, last = last, loop.time()
        if last - before < _SAME_SIGNAL:
            return
        again = bool(stops)
        _logger.info("%s: %s", number.name, "stopping at once" if again else "stopping when handlers have finished")
        stops.append(asyncio.ensure_future(worker.stop_now() if again else worker.stop()))

    def left_alone(line: int) -> None:
        loop.remove_reader(line)
        if not stops:  # a parent that ends during the stop does not speed it up
            _logger.info("the parent process is gone: stopping when handlers have finished")
            stops.append(asyncio.ensure_future(worker.stop()))

    installed = []
    for number in _SIGNALS:
        # Only the main thread of a POSIX process receives signals; otherwise the caller stops the worker.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop, number)
            installed.append(number)
    if line is not None:
        loop.add_reader(line, left_alone, line)  # only its end is ever read
    try:
        yield stops
    finally:
        if line is not None:
            loop.remove_reader(line)
        for number in installed:
            loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
