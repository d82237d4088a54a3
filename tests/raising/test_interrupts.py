"""Ctrl-C, where it is raised as KeyboardInterrupt: it ends the program, and is no failure of the message it hits."""

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from mainspring import Mainspring
from mainspring.model.interrupts import is_interrupt
from mainspring.model.text import stack_of, text_of
from mainspring.runtime.verdicts import formatted
from mainspring.telemetry.logs import log

PATIENCE = 60

HEAD = """
import asyncio, signal, sys, time
from mainspring import Mainspring, events

# A shell without job control starts its children deaf to SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
app = Mainspring("memory://", name="work", grace="100s")
app.on(events.Dead, lambda _: print("dead", flush=True))

def compute(kind):
    print("started", flush=True)
    until = time.monotonic() + 50
    while time.monotonic() < until:
        pass
    print("finished", flush=True)
"""

BARE = """
@app.consumer("work", group="work", concurrency=1, keep="all", retry="none"{options})
async def work(kind: {kind}) -> None:
    compute(kind)

async def begin():
    await app.__aenter__()
    working = app.worker()
    await working.__aenter__()
    return working

async def go():
    await app.publish("work", "one")
    await asyncio.sleep(100)

async def end(working):
    await working.__aexit__(None, None, None)
    [found] = await app.messages.list()
    print(found.state, found.attempt, flush=True)

loop = asyncio.new_event_loop()
working = loop.run_until_complete(begin())
try:
    loop.run_until_complete(go())
except KeyboardInterrupt:
    print("interrupted", flush=True)
loop.run_until_complete(end(working))
"""

TWICE = """
@app.consumer("work", group="work", retry="none")
async def work(kind: str) -> None:
    print("started", flush=True)
    try:
        await asyncio.sleep(100)
    finally:
        print("let go", flush=True)

async def main():
    async with app, app.worker():
        await app.publish("work", "one")
        try:
            await asyncio.sleep(100)
        finally:
            # Said when the worker is stopping, and not by this coroutine: it would be the one that is interrupted.
            asyncio.get_running_loop().call_later(0.1, lambda: print("stopping", flush=True))

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

COMPUTING = TWICE.replace(
    '    try:\n        await asyncio.sleep(100)\n    finally:\n        print("let go", flush=True)',
    "    compute(kind)",
    1,
)

LEFT = """
@app.consumer("work", group="work")
async def work(kind: str) -> None:
    if kind == "long":
        begun.set()
        await asyncio.sleep(100)

async def main():
    global begun, working
    begun, working = asyncio.Event(), app.worker()
    await app.__aenter__()
    await working.__aenter__()
    for kind in ("short", "long"):
        await app.publish("work", kind)
    await begun.wait()

asyncio.run(main())
print("ended", flush=True)
"""


class Program:
    """A script as a process, with what it prints."""

    def __init__(self, directory: Path, text: str) -> None:
        script = directory / "program.py"
        script.write_text(HEAD + text)
        self._process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, list[str]]:
        """Its exit code and what it still says; that it ends at all is what most tests are about."""
        try:
            said, _ = self._process.communicate(timeout=PATIENCE)
        finally:
            self._process.kill()
        return self._process.returncode, said.splitlines()


@pytest.mark.parametrize(("kind", "options"), [("str", ""), ("list[str]", ", batch=1")], ids=["alone", "batch"])
def test_it_comes_out_of_a_bare_loop_and_its_message_is_handed_back(tmp_path: Path, kind: str, options: str) -> None:
    program = Program(tmp_path, BARE.format(kind=kind, options=options))
    assert program.line() == "started"

    program.interrupt()

    assert program.ended() == (0, ["interrupted", "ready 0"])


def test_the_second_one_under_asyncio_run_ends_the_program(tmp_path: Path) -> None:
    program = Program(tmp_path, TWICE)
    assert program.line() == "started"

    program.interrupt()
    assert program.line() == "stopping"
    program.interrupt()

    assert program.ended() == (0, ["let go", "interrupted"])


def test_the_second_one_ends_the_program_while_a_handler_computes(tmp_path: Path) -> None:
    program = Program(tmp_path, COMPUTING)
    assert program.line() == "started"

    program.interrupt()
    with pytest.raises(subprocess.TimeoutExpired):
        program._process.wait(0.3)  # two that are pending at once are one
    program.interrupt()

    code, said = program.ended()
    assert (code, said[-1]) == (0, "interrupted")
    assert "dead" not in said


def test_a_worker_that_is_never_stopped_does_not_keep_asyncio_run_from_ending(tmp_path: Path) -> None:
    program = Program(tmp_path, LEFT)

    assert program.ended() == (0, ["ended"])


@pytest.fixture
def deaf_to_none() -> Iterator[None]:
    """SIGINT raises, as in any program that does not say otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def raised(code: object) -> BaseException:
    with pytest.raises(KeyboardInterrupt) as caught:
        code()  # type: ignore[operator]
    return caught.value


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def own() -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("deaf_to_none")
def test_it_is_told_from_what_code_raises_itself() -> None:
    assert is_interrupt(raised(press))
    assert not is_interrupt(raised(own))
    assert not is_interrupt(SystemExit())


@pytest.mark.usefixtures("deaf_to_none")
def test_there_is_none_in_another_thread_or_where_the_program_hears_signals() -> None:
    error, told = raised(press), list[bool]()

    thread = threading.Thread(target=lambda: told.append(is_interrupt(error)))
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, lambda *_: None)
    told.append(is_interrupt(error))

    assert told == [False, False]


class Pressed(Exception):
    """Ctrl-C comes while its text is asked for."""

    def __str__(self) -> str:
        press()
        return ""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        press()
        return []


@pytest.mark.usefixtures("deaf_to_none")
def test_it_is_not_taken_for_a_text_that_cannot_be_had() -> None:
    for words in (text_of, stack_of, lambda error: formatted(error, 1_000)):
        with pytest.raises(KeyboardInterrupt):
            words(Pressed())


@pytest.mark.usefixtures("deaf_to_none")
def test_it_is_not_taken_for_a_log_filter_that_fails() -> None:
    def pressing(_: logging.LogRecord) -> bool:
        press()
        return True

    logger = logging.getLogger("mainspring.interrupts")
    logger.addFilter(pressing)

    with pytest.raises(KeyboardInterrupt):
        log(logger, logging.ERROR, "a line")


@pytest.mark.usefixtures("deaf_to_none")
def test_it_ends_a_test_and_its_message_stays_as_it_was() -> None:
    app = Mainspring("memory://", name="work")

    @app.consumer("work", group="work", retry="none")
    async def work(_: str) -> None:
        press()

    with app.testing() as kit:
        app.sync.publish("work", "press")
        with pytest.raises(KeyboardInterrupt):
            kit.sync.drain()
        assert len(kit.pending) == 1
