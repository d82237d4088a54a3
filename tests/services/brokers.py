"""The brokers that tests talk to, on this host at their standard ports; as a script it starts them."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

PATIENCE = 60.0


class Server(NamedTuple):
    """A server: where the tests look for it, and how it is started."""

    name: str
    url: str
    command: tuple[str, ...]


SERVERS = {
    "rabbitmq": Server(
        "RabbitMQ",
        os.environ.get("MAINSPRING_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/"),
        ("rabbitmq-server", "-detached"),
    ),
    "redis": Server(
        "Redis",
        os.environ.get("MAINSPRING_TEST_REDIS", "redis://127.0.0.1:6379/0"),
        ("redis-server", "--daemonize", "yes", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"),
    ),
    "nats": Server(
        "NATS",
        os.environ.get("MAINSPRING_TEST_NATS", "nats://127.0.0.1:4222"),
        ("nats-server", "-a", "127.0.0.1", "-js"),
    ),
}


def listens(server: Server) -> bool:
    """Whether a server accepts connections."""
    parts = urlsplit(server.url)
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((parts.hostname or "127.0.0.1", parts.port or 0)) == 0


def start(server: Server) -> str:
    """Start a server that does not listen, and wait for it; return what was done."""
    if listens(server):
        return "listens"
    program = shutil.which(server.command[0], path=f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin")
    if program is None:
        return "is not installed"
    subprocess.Popen(  # it goes on when this process has ended
        [program, *server.command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    until = time.monotonic() + PATIENCE
    while not listens(server):
        if time.monotonic() > until:
            return f"was started, and does not listen after {PATIENCE:g} s"
        time.sleep(0.2)
    return "started"


if __name__ == "__main__":
    print("services:", ", ".join(f"{each.name} {start(each)}" for each in SERVERS.values()))
