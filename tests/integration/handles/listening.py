"""A wire to PostgreSQL that writes down every statement that goes over it."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

from tests.faults.wire import Requests


class Wire:
    """Passes everything on; ``statements`` grows with each that a client has executed."""

    def __init__(self, server: str) -> None:
        self._parts = urlsplit(server)
        self._connection = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = [self._connection]
        self.statements: list[str] = []

    @property
    def url(self) -> str:
        port = self._connection.getsockname()[1]
        return urlunsplit(self._parts._replace(netloc=f"{self._parts.username}@127.0.0.1:{port}"))

    def serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._connection.accept()
                server = socket.create_connection((self._parts.hostname or "", self._parts.port or 5432))
                self._ends += [client, server]
                _start(self._pass_on, client, server, Requests())
                _start(self._pass_on, server, client, None)

    def close(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _pass_on(self, source: socket.socket, target: socket.socket, requests: Requests | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if requests is not None:
                    self.statements += requests.feed(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def _start(target: object, *args: object) -> None:
    threading.Thread(target=target, args=args, daemon=True).start()  # type: ignore[arg-type]


@contextmanager
def wire_to(server: str) -> Iterator[Wire]:
    """A wire to the server, open while the block lasts."""
    wire = Wire(server)
    _start(wire.serve)
    try:
        yield wire
    finally:
        wire.close()
