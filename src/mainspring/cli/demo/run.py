"""Running the demo: the shop, its dashboard, and the live view."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console

from mainspring.app.mainspring import Mainspring
from mainspring.cli.dashboard import usual_socket
from mainspring.cli.demo.shop import GROUPS, REPORT, Customers, Journal, build, feed_prices
from mainspring.cli.demo.view import GroupLine, Scene, add_up, draw, print_summary, total_of
from mainspring.cli.output import print_line, stdout
from mainspring.model.errors import MissingExtra
from mainspring.model.views import Tally

_WITHOUT_TERMINAL = 15.0
"""Seconds to run if the output is not a terminal."""
_PAUSE = 0.18
"""Average seconds between customers."""
_FRAME, _LINE = 0.125, 3.0
_TOPICS = {"send_receipt": "orders.placed", "analytics": "orders.placed", "expire_unpaid": "payments.timeout"}


@asynccontextmanager
async def dashboard(app: Mainspring) -> AsyncIterator[str]:
    """Serve the dashboard and yield its address, with a token; or, without the ``web`` extra, why there is none."""
    try:
        from mainspring.dashboard import Dashboard
        from mainspring.dashboard.server import Server, address_of
    except MissingExtra as error:
        yield str(error)
        return
    listening = usual_socket("127.0.0.1")
    token = secrets.token_urlsafe(24)
    board = Dashboard(app, tokens={"operator": token}, hosts=())
    async with Server(board, lifespan=False, closing=board.end_streams).beside(listening):
        yield f"http://{address_of(listening)}/login#token={token}"


async def run(seconds: float | None, file: Path | None) -> int:
    """Run the demo. Return 0 if all numbers agree, or 1, which is a bug to report."""
    console = stdout()
    drawn = console.is_terminal and not console.is_dumb_terminal
    limit = seconds if drawn else seconds or _WITHOUT_TERMINAL
    path = (file or Path(tempfile.mkdtemp(prefix="mainspring-demo-")) / "shop.db").absolute()
    # Retries are part of the demo; log lines about them would break the live view.
    logging.getLogger("mainspring").addHandler(logging.NullHandler())
    journal = Journal()
    app = build(f"sqlite:///{path}", journal)
    with _interrupted() as interrupted:
        async with app.worker(name="demo"), dashboard(app) as address:
            show = Show(app, journal, limit, address)
            feeding = asyncio.create_task(feed_prices(app))
            closing_time = threading.Event()
            shopping = asyncio.create_task(
                asyncio.to_thread(Customers(app, path, journal).shop_until, closing_time, pause=_PAUSE)
            )
            try:
                await (show.draw(console, interrupted) if drawn else show.print_lines(path, interrupted))
            finally:
                closing_time.set()
                feeding.cancel()
                await asyncio.wait([feeding])
                await shopping
    async with app:
        account = await add_up(app, path, journal)
    print_summary(account, path)
    return 0 if account.right else 1


class Show:
    """The live view while the shop is open."""

    def __init__(self, app: Mainspring, journal: Journal, limit: float | None, address: str) -> None:
        self._app = app
        self._journal = journal
        self._limit = limit
        self._address = address
        self._start = time.monotonic()
        self._pace: deque[int] = deque(maxlen=30)
        self._second = 0
        self._handled = 0
        self._buried = 0

    async def draw(self, console: Console, interrupted: asyncio.Event) -> None:
        """Draw the live view until the time is up or it is interrupted."""
        from rich.live import Live

        with Live(console=console, screen=True, auto_refresh=False) as live:
            while not await self._over(interrupted, _FRAME):
                live.update(draw(await self._scene(), console.width, console.height), refresh=True)

    async def print_lines(self, path: Path, interrupted: asyncio.Event) -> None:
        """Print a line at intervals, for files and pipes."""
        limit = self._limit or _WITHOUT_TERMINAL
        print_line(f"a small shop on one SQLite file, for {limit:g} s: {path}")
        print_line(f"dashboard: {self._address}")
        while not await self._over(interrupted, min(_LINE, max(0.1, limit - self._elapsed))):
            scene = await self._scene()
            total = scene.totals
            print_line(
                f"{scene.elapsed:4.0f} s  orders {scene.placed}  rolled back {scene.undone}  handled {total.handled}  "
                f"retried {total.retried}  cancelled {total.cancelled}  dead {total.dead}  waiting {total.waiting}  "
                f"reports {scene.reports}"
            )

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    async def _over(self, interrupted: asyncio.Event, pause: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(interrupted.wait(), pause)
        return interrupted.is_set() or (self._limit is not None and self._elapsed >= self._limit)

    async def _scene(self) -> Scene:
        tally = await self._app.stats.tally()
        await self._note_dead_letters(tally)
        counts = self._journal.counts
        groups = [self._line(name, tally) for name in GROUPS]
        self._keep_pace(total_of(groups).handled)
        return Scene(
            elapsed=self._elapsed,
            limit=self._limit,
            dashboard=self._address,
            placed=counts["placed"],
            undone=counts["undone"],
            expired=counts["expired"],
            pace=tuple(self._pace),
            groups=groups,
            schedule=await self._app.schedules.get(REPORT),
            reports=counts["report"],
            events=self._journal.recent(40),
        )

    def _line(self, name: str, tally: Tally) -> GroupLine:
        journal = self._journal
        found = next((each for each in tally.groups if each.group == name), None)
        return GroupLine(
            name=name,
            topic=_TOPICS[name],
            published=journal.counts["placed"],
            handled=journal.handled[name],
            retried=journal.retried[name],
            cancelled=journal.counts["paid"] if name == "expire_unpaid" else 0,
            dead=found.dead if found else 0,
            waiting=found.scheduled + found.ready + found.running + found.lapsed if found else 0,
        )

    def _keep_pace(self, handled: int) -> None:
        second = int(self._elapsed)
        if second > self._second:
            self._pace.append((handled - self._handled) // (second - self._second))
            self._second, self._handled = second, handled

    async def _note_dead_letters(self, tally: Tally) -> None:
        buried = sum(each.dead for each in tally.groups)
        if buried > self._buried:
            for each in await self._app.dead.list(limit=buried - self._buried):
                self._journal.note("dead", each.group, f"dead after {each.attempt} attempts: {each.error}")
        self._buried = buried


@contextlib.contextmanager
def _interrupted() -> Iterator[asyncio.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; a second Ctrl-C interrupts the summary."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def interrupt() -> None:
        event.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, event.set)
    try:
        yield event
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
