"""``app.run()`` in a process of its own, ended by signals."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mainspring import Mainspring

PROGRAM = """
import asyncio, logging, signal, sys
from mainspring import Context, Mainspring

logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")

# A shell without job control starts its children deaf to SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
app = Mainspring("sqlite:///shop.db", grace="100s")

@app.consumer("a")
async def handler(value: str, ctx: Context) -> None:
    print("started", value, flush=True)
    try:
        await asyncio.sleep(0.3 if value == "short" else 600)
    except asyncio.CancelledError:
        print("cancelled", value, flush=True)
        raise
    print("finished", value, flush=True)

if __name__ == "__main__":
    app.run()
    print("ended", flush=True)
"""


class Service:
    """The program as a process, with what it prints."""

    def __init__(self, directory: Path, value: str) -> None:
        (directory / "service.py").write_text(PROGRAM)
        sender = Mainspring(f"sqlite:///{directory}/shop.db", name="sender").sync
        sender.publish("a", value)  # parked, until the service declares its consumer
        sender.close()
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "service.py"],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def heard(self, said: str) -> None:
        """Wait for the log to say so, and until what follows does not count as the same signal."""
        assert self._process.stderr is not None
        while said not in self._process.stderr.readline():
            assert self._process.poll() is None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.3)

    def ended(self) -> tuple[int, list[str]]:
        """The exit code and what was printed; that it takes less than the grace shows that it was not waited out."""
        out, _ = self._process.communicate(timeout=80)
        return self._process.returncode, out.splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_handlers_finish(tmp_path: Path, number: signal.Signals) -> None:
    service = Service(tmp_path, "short")
    assert service.line() == "started short"

    service.signal(number)

    assert service.ended() == (0, ["finished short", "ended"])


def test_the_second_signal_does_not_wait(tmp_path: Path) -> None:
    service = Service(tmp_path, "long")
    assert service.line() == "started long"

    service.signal(signal.SIGTERM)
    service.heard("SIGTERM: stopping when handlers have finished")
    service.signal(signal.SIGINT)

    assert service.ended() == (0, ["cancelled long", "ended"])
