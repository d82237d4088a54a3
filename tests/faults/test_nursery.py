"""A process that is forked says, does and ends as one that starts anew."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.nursery import nursery

PATIENCE = 60.0
ENDLESS = "import threading; threading.Event().wait()"


@pytest.mark.parametrize("file", ["there.json", "broken.json", "nowhere.json"])
def test_it_writes_and_ends_as_one_that_starts_anew(tmp_path: Path, file: str) -> None:
    (tmp_path / "there.json").write_text('{"a": [1, 2]}')
    (tmp_path / "broken.json").write_text('{"a": [1, 2}')
    command = [sys.executable, "-m", "json.tool", str(tmp_path / file)]
    anew = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    with (tmp_path / "log").open("wb") as log:
        forked = nursery().start("json.tool", str(tmp_path / file), log)

    assert forked.wait(PATIENCE) == anew.returncode
    assert (tmp_path / "log").read_text().splitlines()[-1] == anew.stdout.decode().splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_can_be_signalled_while_it_lives_and_its_end_is_known_ever_after(
    tmp_path: Path, number: signal.Signals
) -> None:
    with (tmp_path / "log").open("wb") as log:
        forked, other = [nursery().start("timeit", ENDLESS, log) for _ in range(2)]
    assert forked.poll() is None

    forked.send_signal(number)

    assert forked.wait(PATIENCE) == -number
    assert forked.poll() == -number
    forked.kill()  # there is nobody to kill any more
    assert other.poll() is None
    other.kill()
    assert other.wait(PATIENCE) == -signal.SIGKILL
