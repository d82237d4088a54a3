"""A run is shared out as tests/sharing.py promises, by the pytest and the pytest-xdist that are installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.unmeasured import unmeasured
from tests.sharing import LONG, TOGETHER

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import pathlib, pytest

@pytest.mark.parametrize("n", range(8))
def test_it(n, worker_id):
    with pathlib.Path(__file__).with_suffix(".txt").open("a") as seen:
        seen.write(worker_id + "\\n")
"""


def _written(folder: Path, path: str) -> Path:
    """A file of tests that note, in a text of its name, who ran them."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_PROGRAM)
    return file.with_suffix(".txt")


def test_a_file_that_is_costly_to_prepare_is_run_by_one_worker(tmp_path: Path) -> None:
    seen = [_written(tmp_path, path if path.endswith(".py") else f"{path}test_it.py") for path in TOGETHER]
    environment = {name: value for name, value in unmeasured().items() if not name.startswith("PYTEST")}

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-p", "xdist", "-p", "tests.sharing", "--rootdir=."],
        cwd=tmp_path,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(_ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )

    assert f"{8 * len(TOGETHER)} passed" in run.stdout, run.stdout + run.stderr
    assert [len(set(each.read_text().split())) for each in seen] == [1] * len(TOGETHER)


def test_every_path_that_has_a_place_in_the_order_is_there() -> None:
    assert [path for path in (*TOGETHER, *LONG) if not (_ROOT / path).exists()] == []


def test_what_takes_long_begins_first(request: pytest.FixtureRequest) -> None:
    ids = [item.nodeid for item in request.session.items]

    turns = [next((turn for turn, start in enumerate(LONG) if id.startswith(start)), len(LONG)) for id in ids]
    assert turns == sorted(turns)
