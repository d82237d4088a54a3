"""A reverse proxy on this machine that adds no header, as nginx does by a plain ``proxy_pass``."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_HOST = re.compile(rb"(?im)^host:[^\r\n]*")


@contextmanager
def proxied(address: str) -> Iterator[str]:
    """The address of a proxy to this one. The request behind it has a Host that is the proxy's word, and no trace."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    listening = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def pipe(source: socket.socket, target: socket.socket, *, asking: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(_HOST.sub(f"Host: {host}:{port}".encode(), data, count=1) if asking else data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                asking, _ = listening.accept()
                answering = socket.create_connection((host, int(port)))
                connections.extend((asking, answering))
                for source, target in ((asking, answering), (answering, asking)):
                    kept = {"asking": source is asking}
                    threading.Thread(target=pipe, args=(source, target), kwargs=kept, daemon=True).start()

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        serving.join()
        for each in (listening, *connections):
            each.close()
