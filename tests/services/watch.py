"""A small process that outlives the tests: it ends their server when nobody uses it any more.

Users hold a shared lock on a file in the server's home. The kernel frees it however they end, by
return, by Ctrl-C or by kill −9; then this process, which waits for the exclusive lock, cleans up.

    python -m tests.services.watch keep HOME     ends the server that someone else starts in HOME
    python -m tests.services.watch serve HOME    starts one first, and writes its address to HOME/url
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.services.cluster import SHARED, Cluster, end, new_home
from tests.services.unmeasured import unmeasured

_ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0

Task = Literal["keep", "serve"]


class WatcherFailedError(Exception):
    """The watcher did not get ready; the message is what it said."""


@contextmanager
def watched_home() -> Iterator[Path]:
    """A directory for a server: whatever runs in it is ended, and it is removed, when the block is left."""
    home = new_home()
    with locked(home / "users", fcntl.LOCK_SH):
        yield home
    if not (home / "watched").exists():
        end(home)
    deadline = time.monotonic() + _PATIENCE
    while home.exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def watch(task: Task, home: Path) -> None:
    """Start the watcher of a home and return when it is ready."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.services.watch", task, str(home)],
        cwd=_ROOT,
        env=unmeasured(),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        said = starter.stdout.readline()
        if said != "ready\n":
            raise WatcherFailedError(said + starter.stdout.read())


@contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    """Hold a lock on a file; the kernel lets go of it however this process ends."""
    with path.open("ab") as file:
        fcntl.flock(file, kind)
        yield


def _main(task: str, home: Path) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if os.fork():  # the caller waits for this process; its child stays
        os._exit(0)
    if task == "serve":
        server = Cluster(home, log=home / "log", settings=SHARED)
        server.start()
        (home / "url.part").write_text(server.url)
        (home / "url.part").rename(home / "url")
    (home / "watched").touch()
    try:
        print("ready", flush=True)
        with locked(home / "users", fcntl.LOCK_EX):
            pass
    finally:
        end(home)


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]))
