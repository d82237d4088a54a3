"""A real PgBouncer in front of a test's database."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from tests.services.cluster import ServerFailedError, as_servant, free_port
from tests.services.needs import need
from tests.services.watch import watch, watched_home

_PATIENCE = 60.0


@contextmanager
def pgbouncer(tmp_path: Path, server: str, mode: Literal["transaction", "session"] = "transaction") -> Iterator[str]:
    """The address of the same database through a pooler, whose log is `tmp_path/pgbouncer.log`."""
    program = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    need(program, "PgBouncer", "make services")
    assert program is not None
    parts, port, log = urlsplit(server), free_port(), tmp_path / "pgbouncer.log"
    with watched_home() as home:
        watch("keep", home)
        (home / "users.txt").write_text(f'"{parts.username}" "{parts.password or ""}"\n')
        (home / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={parts.hostname} port={parts.port or 5432}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {home}/users.txt\npool_mode = {mode}\n"
            f"max_client_conn = 200\ndefault_pool_size = 20\n"
        )
        with log.open("wb") as output:
            process = subprocess.Popen([program, home / "pgbouncer.ini"], start_new_session=True, **as_servant(output))
        try:
            _wait_until_open(process, port, log)
            yield urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
        finally:
            process.kill()
            process.wait()


def _wait_until_open(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    what = "is not reachable through PgBouncer"
    raise ServerFailedError(what, log)
