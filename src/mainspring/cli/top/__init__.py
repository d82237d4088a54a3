"""``mainspring top``: a live view."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from mainspring.app.options import length
from mainspring.cli.groups import NO_GROUPS, SEE_PARKED, parked_in_words
from mainspring.cli.output import Column, print_json, print_line, print_table, stdout, when
from mainspring.cli.target import UNNAMED, Json, Spec, Target
from mainspring.model.errors import StorageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mainspring.cli.top.picture import Picture, Watcher

_LEAST = timedelta(milliseconds=200)
_MOST = timedelta(hours=1)
_SILENT = 3.0
"""Seconds without a reply after which the view reports it, long before the connection fails."""
_TICK = 1.0
"""The maximum seconds between two frames while a read is in progress."""
_KEYS_AT_ONCE = 64


async def top(app: Spec | None = None, /, *, every: str = "1s", target: Target = UNNAMED, json: Json = False) -> None:
    """Watch groups, workers, schedules and failures live; q quits, p pauses the view.

    Prints once if the output is not a terminal, or with --json.

    Parameters
    ----------
    every
        The interval between reads.
    """
    pause = length(every, "every", least=_LEAST, most=_MOST).total_seconds()
    from mainspring.cli.top.picture import Watcher

    async with target.of(app).opened() as opened:
        watcher = Watcher(opened)
        if json:
            print_json(await watcher.picture())
        elif not stdout().is_terminal or stdout().is_dumb_terminal:
            _print(await watcher.picture())
        else:
            await Show(watcher, pause).run()


class Show:
    """The live view, until the user quits. If the database does not reply, the view reports it and waits."""

    def __init__(self, watcher: Watcher, pause: float) -> None:
        self._watcher = watcher
        self._pause = pause
        self._over = False
        self._held = False
        self._changed = asyncio.Event()
        self._picture: Picture | None = None
        self._trouble = ""
        self._requested_at = 0.0

    async def run(self) -> None:
        """Draw until the user quits."""
        from rich.live import Live

        console = stdout()
        self._picture = await self._first()
        with Live(console=console, screen=True, auto_refresh=False) as live, key_presses(self._key), self._signals():
            loop, reading = asyncio.get_running_loop(), None
            due = loop.time() + self._pause
            while not self._over:
                silent = 0.0 if reading is None else self._silent()
                live.update(self._frame(console.width, console.height, silent), refresh=True)
                if reading is not None and reading.done():
                    reading.result()
                    reading = None
                if reading is None and loop.time() >= due:
                    due = loop.time() + self._pause
                    self._requested_at = time.monotonic()
                    reading = asyncio.create_task(self._read())
                await self._wait(min(self._pause, _TICK) if reading is not None else max(due - loop.time(), 0.0))
            if reading is not None:
                reading.cancel()
                await asyncio.wait([reading])

    async def _first(self) -> Picture:
        """Read the first picture. An error here is reported as by any command."""
        reading = asyncio.ensure_future(self._watcher.picture())
        try:
            done, _ = await asyncio.wait([reading], timeout=_SILENT)
            if not done:
                print_line(f"the database has not replied for {_SILENT:g} s; press Ctrl-C to stop waiting")
            return await reading
        finally:
            reading.cancel()

    def _silent(self) -> float:
        """Return the seconds since the database last replied, during a read."""
        return time.monotonic() - max(self._requested_at, self._watcher.replied_at)

    async def _read(self) -> None:
        try:
            picture = await self._watcher.picture()
        except StorageError as error:
            self._trouble = f"the database does not reply, showing the last known state: {error}"
        else:
            self._trouble = ""
            if not self._held:
                self._picture = picture
        self._changed.set()

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
        self._changed.clear()

    def _frame(self, width: int, height: int, silent: float) -> RenderableType:
        from mainspring.cli.top.view import draw

        assert self._picture is not None, "read before drawing"
        trouble = self._trouble
        if silent >= _SILENT and not trouble:
            trouble = f"the database has not replied for {silent:.0f} s, showing the last known state"
        return draw(self._picture, width, height, held=self._held, trouble=trouble)

    def _key(self, key: str) -> None:
        match key:
            case "q" | "Q":
                self._end()
            case "p" | "P":
                self._held = not self._held
                self._changed.set()
            case _:
                pass

    def _end(self) -> None:
        self._over = True
        self._changed.set()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Quit on Ctrl-C, and redraw at once when the terminal is resized."""
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGINT: self._end, signal.SIGTERM: self._end, signal.SIGWINCH: self._changed.set}
        for number, call in handlers.items():
            loop.add_signal_handler(number, call)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)


def _print(picture: Picture) -> None:
    """Print the picture once, for files and pipes."""
    from mainspring.cli.top.view import COLUMNS, cells, countdown, heading

    print_line(f"{'  '.join(text for text, _ in heading(picture))}  {picture.now:%Y-%m-%d %H:%M:%S} UTC")
    for reason in picture.reasons:
        print_line(f"{picture.health}: {reason}")
    if picture.groups:
        # Unlike in the live view, white space in a cell is insignificant.
        rows = [cells(each, picture.cap) for each in picture.groups]
        print_table(COLUMNS, [[*row[:-1], row[-1].replace(" ", "·")] for row in rows])
    else:
        print_line(NO_GROUPS)
    if picture.parked:
        print_line(f"{parked_in_words(picture.parked)}: {SEE_PARKED}")
    if picture.upcoming:
        print_table(
            (Column("schedule"), Column("next"), Column("rhythm", elastic=True)),
            [(each.name, countdown(each, picture), each.description) for each in picture.upcoming],
        )
    if picture.failures:
        print_table(
            (Column("failed", right=True), Column("status"), Column("group"), Column("error", elastic=True)),
            [(when(each.at, picture.now), each.status, each.group, each.error) for each in picture.failures],
        )


@contextlib.contextmanager
def key_presses(pressed: Callable[[str], None]) -> Iterator[None]:
    """Call ``pressed`` with each key. Without a terminal, as behind a pipe, do nothing."""
    try:
        import termios
        import tty

        source = sys.stdin.fileno()
        before = termios.tcgetattr(source)
    except (ImportError, OSError, ValueError, AttributeError):
        yield
        return
    except termios.error:
        yield
        return

    def read() -> None:
        # An arrow key is three characters, none of them a command: skip whatever begins with an escape.
        keys = os.read(source, _KEYS_AT_ONCE).decode(errors="replace")
        if not keys.startswith("\x1b"):
            for key in keys:
                pressed(key)

    loop = asyncio.get_running_loop()
    tty.setcbreak(source, termios.TCSANOW)  # keep what was typed ahead
    loop.add_reader(source, read)
    try:
        yield
    finally:
        loop.remove_reader(source)
        termios.tcsetattr(source, termios.TCSADRAIN, before)
