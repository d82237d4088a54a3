"""Brokers of one test's own, which it may start, stop, kill −9 and empty; their ports outlive each of these."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.services.cluster import free_port
from tests.services.needs import need

_PATIENCE = 60.0
_STEP = 0.02
_LEASH = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""Ends it with the process of the test, however that ends."""


T = TypeVar("T", bound="PrivateBroker")


class BrokerFailedError(Exception):
    """The broker did not start; the message ends with its log."""


class PrivateBroker(ABC):
    """A server in a directory of its own, on this host only. It is not started yet."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.port = free_port()
        self._data = home / "data"
        self._options = options
        self._log = home / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def _command(self) -> Sequence[str]: ...

    def _environment(self) -> Mapping[str, str]:
        return {}

    async def start(self) -> None:
        """Start it, with the data that it has, and return when it accepts connections."""
        self._data.mkdir(exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*_LEASH, *self._command()],
                cwd=self.home,
                env={**os.environ, **self._environment()},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + _PATIENCE
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BrokerFailedError(f"{type(self).__name__}\n{self._log.read_text(errors='replace')[-4000:]}")
            await asyncio.sleep(_STEP)

    async def kill(self) -> None:
        """Kill it −9, if it runs."""
        self.end()

    def end(self) -> None:
        """Do so for good."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def wipe(self) -> None:
        """Remove its data, while it does not run."""
        shutil.rmtree(self._data)

    def freeze(self) -> None:
        """Let it fall silent, with its connections open, until it is killed."""
        assert self._process is not None, "it was not started"
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class PrivateRedis(PrivateBroker):
    """Redis, whose reply means that an entry is on disk: ``appendfsync always``."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> Sequence[str]:
        place = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._data), "--save", "")
        durable = ("--appendonly", "yes", "--appendfsync", "always")
        return ("redis-server", *place, "--unixsocket", f"{self.home}/redis.sock", *durable, *self._options)


class PrivateNats(PrivateBroker):
    """NATS; with the option ``-js``, with JetStream."""

    @property
    def url(self) -> str:
        return self.url_of()

    def url_of(self, user: str = "") -> str:
        """Its address for ``user``, which ends with "@"."""
        return f"nats://{user}127.0.0.1:{self.port}"

    def _command(self) -> Sequence[str]:
        program = str(Path(sys.executable).parent / "nats-server")
        return (program, "-a", "127.0.0.1", "-p", str(self.port), "-sd", str(self._data), *self._options)


class PrivateRabbitMQ(PrivateBroker):
    """RabbitMQ without plugins, on one scheduler; ``MAINSPRING_TEST_RABBITMQ_SERVER`` names another program."""

    PROGRAM = os.environ.get("MAINSPRING_TEST_RABBITMQ_SERVER", "/usr/lib/rabbitmq/bin/rabbitmq-server")

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def _command(self) -> Sequence[str]:
        (self.home / "plugins").write_text("[].")
        return (self.PROGRAM, *self._options)

    def _environment(self) -> Mapping[str, str]:
        return {
            "HOME": str(self.home),  # of the cookie
            "RABBITMQ_NODENAME": f"mainspring-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self._data),
            "RABBITMQ_LOG_BASE": str(self.home),
            "RABBITMQ_CONFIG_FILE": str(self.home / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
            "RUNNING_UNDER_SYSTEMD": "1",  # then it is this process, and no child of it
        }


_PROGRAMS = {PrivateRedis: "redis-server", PrivateRabbitMQ: PrivateRabbitMQ.PROGRAM}


@contextmanager
def private_broker(kind: type[T], *options: str) -> Iterator[T]:
    """A broker that is not started; it ends, and its data go, with the block."""
    program = _PROGRAMS.get(kind)
    need(program is None or shutil.which(program), kind.__name__.removeprefix("Private"), "make services")
    with tempfile.TemporaryDirectory(prefix="ms-") as home:
        made = kind(Path(home), *options)
        try:
            yield made
        finally:
            made.end()
