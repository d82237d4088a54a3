"""What is kept of a traceback: the user's own code, and ours without the place it is installed at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainspring
from mainspring.model.message import Delivery
from mainspring.runtime.handler import Run
from mainspring.timing.duration import duration
from tests.runtime.stage import Stage

PACKAGE = str(Path(mainspring.__file__).parent)


async def kept(stage: Stage, call: Any, **options: Any) -> str:
    """The traceback that a worker keeps of a handler's failure."""
    await stage.publish()
    async with stage.worker(stage.handler(call, **options)):
        await stage.until(stage.empty)
    [run] = await stage.runs()
    assert run.traceback is not None
    return run.traceback


def broken(_: Delivery, __: Run) -> None:
    raise LookupError("no such order")


def asks_us(_: Delivery, __: Run) -> None:
    duration("soon")


def raises_several(delivery: Delivery, run: Run) -> None:
    try:
        asks_us(delivery, run)
    except ValueError as error:
        try:
            broken(delivery, run)
        except LookupError as other:
            raise ExceptionGroup("both", [other, KeyError(1)]) from error


@pytest.mark.parametrize("threaded", [False, True])
async def test_the_way_to_the_handler_is_left_out(stage: Stage, threaded: bool) -> None:
    text = await kept(stage, broken, threaded=threaded)

    first, frame, *_ = text.splitlines()
    assert (first, frame.startswith('  File "')) == ("Traceback (most recent call last):", True)
    assert "stage.py" in frame  # the handler's outermost frame
    assert "in broken" in text
    assert "mainspring" not in text
    assert text.endswith("LookupError: no such order\n")


async def test_what_we_did_for_the_handler_is_shown_relative_to_the_package(stage: Stage) -> None:
    text = await kept(stage, asks_us)

    assert "in asks_us" in text
    assert 'File "mainspring/timing/duration.py", line ' in text
    assert "raise DurationError(" in text
    assert PACKAGE not in text


async def test_causes_and_members_of_groups_are_shown_alike(stage: Stage) -> None:
    text = await kept(stage, raises_several)

    assert "direct cause" in text
    assert "LookupError: no such order" in text
    assert 'File "mainspring/timing/duration.py", line ' in text
    assert PACKAGE not in text


async def test_what_is_all_ours_is_kept(stage: Stage) -> None:
    text = await kept(stage, lambda _delivery, _run: mainspring.Snooze)

    assert 'File "mainspring/runtime/' in text
    assert "pass a delay" in text
    assert PACKAGE not in text
