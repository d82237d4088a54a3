"""What the tests run in processes of their own: this module is its own entry, and its functions are the handlers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from mainspring.model.message import Delivery
from mainspring.model.verdict import Bury, Cancel, Done, Retry, Snooze
from mainspring.runtime import child
from mainspring.runtime.handler import Handler, Program, Run
from mainspring.timing.backoff import NO_RETRY

HERE = "tests.runtime.computing"


class Jammed(OSError):
    pass


def program(qualname: str) -> Program:
    """How a worker is told to run a function of this module."""
    return Program(entry=HERE, group="work", module=HERE, qualname=qualname, source=HERE)


def main(channel: int, lifeline: int) -> None:
    child.serve(channel, lifeline, _find)


def _find(program: Program) -> Handler:
    if program.qualname == "found_late":
        time.sleep(3)
    return Handler(program.group, globals()[program.qualname], NO_RETRY)


def note_pid(delivery: Delivery, _run: Run) -> None:
    """Leave the number of this process in the file that the payload names."""
    with Path(_given(delivery)["file"]).open("a") as file:
        file.write(f"{os.getpid()}\n")


def compute_forever(delivery: Delivery, run: Run) -> None:
    note_pid(delivery, run)
    while True:
        pass


def hold_the_interpreter(delivery: Delivery, run: Run) -> None:
    """A single C call that lasts for hours and lets no other thread run."""
    note_pid(delivery, run)
    re.match(r"(a+)+$", "a" * 60 + "b")


def start_another_and_wait(delivery: Delivery, run: Run) -> None:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note_pid(delivery, run)
    with Path(_given(delivery)["file"]).open("a") as file:
        file.write(f"{started.pid}\n")
    started.wait()


def wait_if_told(delivery: Delivery, run: Run) -> Done:
    if _given(delivery).get("wait"):
        compute_forever(delivery, run)
    return Done("did not wait")


def segfault(_delivery: Delivery, _run: Run) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def segfault_at_first(delivery: Delivery, _run: Run) -> Done:
    if delivery.attempt == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    return Done(f"attempt {delivery.attempt}")


def run_out_of_memory(_delivery: Delivery, _run: Run) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave(_delivery: Delivery, _run: Run) -> None:
    os._exit(3)


def leave_a_fork_behind(delivery: Delivery, run: Run) -> None:
    if os.fork() == 0:
        note_pid(delivery, run)
        time.sleep(600)
    while not Path(_given(delivery)["file"]).exists():
        pass
    os._exit(4)


def talk_nonsense(_delivery: Delivery, _run: Run) -> None:
    for descriptor in range(3, 4096):  # whichever number the parent had for it
        try:
            os.write(descriptor, b"\x00\x00\x00\x02{}")
        except OSError:
            continue
    time.sleep(600)


def measure(delivery: Delivery, _run: Run) -> Done:
    return Done(f"{len(delivery.payload)} bytes of {delivery.content_type}")


def snooze(delivery: Delivery, _run: Run) -> object:
    return Snooze("1h", "not yet")


def cancel(_delivery: Delivery, _run: Run) -> object:
    return Cancel("obsolete")


def retry(_delivery: Delivery, _run: Run) -> object:
    return Retry("1h", "no paper")


def bury(_delivery: Delivery, _run: Run) -> object:
    return Bury("no such tray")


def return_anything(_delivery: Delivery, _run: Run) -> object:
    return {"rows": 3}


def fail(_delivery: Delivery, _run: Run) -> None:
    raise Jammed("no paper left")


def leave_by_exit(_delivery: Delivery, _run: Run) -> None:
    sys.exit("enough")


def shrug_off_signals(_delivery: Delivery, _run: Run) -> Done:
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(os.getpid(), number)
    return Done("still here")


def time_left(_delivery: Delivery, run: Run) -> Done:
    assert run.deadline is not None
    return Done(f"{run.deadline - time.monotonic():.0f} s")


found_late = return_anything


def compute_until_told(delivery: Delivery, run: Run) -> None:
    note_pid(delivery, run)
    told = Path(_given(delivery)["until"])
    while not told.exists():
        pass


def say_and_wait(delivery: Delivery, run: Run) -> Done:
    for number in range(100):
        run.report(f"attempt {delivery.attempt}, {number} of 100 \ud800")
    told = Path(_given(delivery)["until"])
    while not told.exists():
        pass
    run.report("and over")
    return Done("said")


def _given(delivery: Delivery) -> Any:
    return json.loads(delivery.payload)
