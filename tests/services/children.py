"""A forked child of a test: one that hangs shows where each of its threads is, and ends."""

import faulthandler
import os
import traceback
from collections.abc import Callable

MUCH_TOO_LONG = 60


def forked(do: Callable[[], object]) -> int:
    """Do it in a forked child, which ends with 1 if it raises or hangs. Returns its pid."""
    child = os.fork()
    if child:
        return child
    try:
        faulthandler.dump_traceback_later(MUCH_TOO_LONG, exit=True)
        do()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(1)


def ended_well(child: int) -> bool:
    """Wait for its end. Returns whether it did what it was to do."""
    return os.waitpid(child, 0)[1] == 0
