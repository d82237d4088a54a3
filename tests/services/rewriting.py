"""What pytest makes of the asserts, made once: else each worker of a first run makes it of every file for itself.

    python -m tests.services.rewriting FILE...     makes it of these files

The files that hold it are pytest's own: it finds and checks them as if it had written them.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc_fp, get_cache_dir

from tests.services.unmeasured import unmeasured

_ROOT = Path(__file__).parents[2]
_AT_ONCE = 2
_HEAD = 16  # bytes of a compiled file that tell of which Python and of which source it is


def rewrite(folder: Path) -> None:
    """Make it of every file of tests in this folder of which there is none yet."""
    files = sorted(path for name in ("test_*.py", "conftest.py") for path in folder.rglob(name))
    missing = [str(path) for path in files if not _is_there(path)]
    shares = [share for start in range(_AT_ONCE) if (share := missing[start::_AT_ONCE])]
    command = [sys.executable, "-m", "tests.services.rewriting"]
    started = [subprocess.Popen([*command, *share], cwd=_ROOT, env=unmeasured()) for share in shares]
    for process in started:
        process.wait()


def place(path: Path) -> Path:
    """Where pytest looks for it."""
    return get_cache_dir(path) / (path.name[:-3] + PYC_TAIL)


def _is_there(path: Path) -> bool:
    try:
        with place(path).open("rb") as file:
            head = file.read(_HEAD)
    except FileNotFoundError:
        return False
    return head[:4] == importlib.util.MAGIC_NUMBER and head[8:] == importlib.util.source_hash(path.read_bytes())


def _make(path: Path) -> None:
    source_hash, code = _rewrite_test(path, None)  # type: ignore[arg-type] # without options of anybody
    made = place(path)
    made.parent.mkdir(exist_ok=True)
    part = made.with_suffix(f".{os.getpid()}")
    with part.open("wb") as file:
        _write_pyc_fp(file, source_hash, code)
    part.replace(made)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        _make(Path(name))
