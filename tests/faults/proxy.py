"""A TCP proxy in front of a server that can delay, freeze and cut; of PostgreSQL, lose an answer after the deed."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from tests.faults.wire import Frames, Requests, matches

Trap = Literal["lose", "before", "after"]

_CHUNK = 65536


class _Link:
    """One client's connection and the server's side of it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.requests = Requests()
        self.swallowing: Frames | None = None
        self.then: Trap = "lose"

    def cut(self) -> None:
        for side in (self.client, self.server):
            # Reset, not closed in good order: neither side gets to say goodbye.
            side.transport.abort()


class Proxy:
    """Runs in a thread and loop of its own, so that a test that blocks does not stop the traffic."""

    def __init__(self, server: str, latency: float = 0.0) -> None:
        self._parts = urlsplit(server)
        self._latency = latency
        self._loop = asyncio.new_event_loop()
        self._links: set[_Link] = set()
        self._frozen = False
        self._trap: tuple[str, Trap] | None = None
        self._within = ""
        self._port = 0
        self.lost = 0
        """How many answers were lost."""
        self.halted = threading.Event()
        """Set when a connection stands still at the statement it was to halt at."""
        self.opened = 0
        """How many connections were made."""

    @property
    def url(self) -> str:
        user, at, _ = self._parts.netloc.rpartition("@")
        return urlunsplit(self._parts._replace(netloc=f"{user}{at}127.0.0.1:{self._port}"))

    def lead_to(self, server: str) -> None:
        """From now on connect to another server, as a name does that was pointed elsewhere."""
        self._parts = urlsplit(server)

    def black_hole(self, *, also_new: bool) -> None:
        """Forward nothing more on the connections there are, and keep them open."""
        self._do(self._freeze, also_new)

    def heal(self) -> None:
        """Forward again; what was frozen stays frozen, as a half-open connection does."""
        self._do(self._thaw_new)

    def cut(self) -> None:
        """Reset every connection."""
        self._do(self._cut)

    def lose_next_answer(self, pattern: str, within: str = "") -> None:
        """Let the next statement that matches be executed, swallow the answer, then cut that connection."""
        self._within = within
        self._trap = (pattern, "lose")

    def halt_at_next(self, pattern: str, when: Literal["before", "after"], within: str = "") -> None:
        """Stand still at the next statement that matches: before the server gets it, or when it is done.

        ``within`` is matched by a statement of the same transaction: a COMMIT does not tell whose it is.
        """
        self.halted.clear()
        self._within = within
        self._trap = (pattern, when)

    def start(self) -> None:
        ready = threading.Event()

        def main() -> None:
            asyncio.set_event_loop(self._loop)
            server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
            self._port = server.sockets[0].getsockname()[1]
            ready.set()
            self._loop.run_forever()
            server.close()
            self._cut()
            self._loop.run_until_complete(self._end())
            self._loop.close()

        self._thread = threading.Thread(target=main, name="proxy", daemon=True)
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            answers, server = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        except OSError:
            client.transport.abort()
            return
        link = _Link(client, server)
        if self._frozen:
            link.flowing.clear()
        self._links.add(link)
        try:
            await asyncio.gather(self._forward(link, reader), self._answer(link, answers))
        except asyncio.CancelledError:
            pass  # the proxy ends, and a cancelled server task would be reported as an error
        finally:
            self._links.discard(link)
            link.cut()

    async def _forward(self, link: _Link, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await link.flowing.wait()
                await asyncio.sleep(self._latency)
                if self._parts.scheme == "postgresql":
                    statements = link.requests.feed(data)
                    if self._trap is not None and self._is_caught(link, self._trap[0], statements):
                        await self._spring(link, self._trap[1])
                link.server.write(data)
                await link.server.drain()
        link.cut()

    async def _answer(self, link: _Link, answers: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await answers.read(_CHUNK):
                await link.flowing.wait()
                await asyncio.sleep(self._latency)
                if link.swallowing is None:
                    link.client.write(data)
                    await link.client.drain()
                elif any(kind == b"Z" for kind, _ in link.swallowing.feed(data)):
                    # Ready for the next query: the statement is committed, and nobody will ever hear of it.
                    if link.then == "lose":
                        self.lost += 1
                        break
                    await self._halt(link)
        link.cut()

    def _is_caught(self, link: _Link, pattern: str, statements: list[str]) -> bool:
        return matches(pattern, statements) and matches(self._within, link.requests.transaction)

    async def _spring(self, link: _Link, trap: Trap) -> None:
        self._trap = None
        if trap == "before":
            await self._halt(link)
        else:
            link.swallowing, link.then = Frames(), trap

    async def _halt(self, link: _Link) -> None:
        link.flowing.clear()
        self.halted.set()
        await link.flowing.wait()

    def _freeze(self, also_new: bool) -> None:
        self._frozen = also_new
        for link in self._links:
            link.flowing.clear()

    def _thaw_new(self) -> None:
        self._frozen = False

    def _cut(self) -> None:
        for link in list(self._links):
            link.cut()

    def _do(self, what: Callable[..., None], *args: object) -> None:
        done = threading.Event()

        def run() -> None:
            what(*args)
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(10)


@contextmanager
def proxy_to(server: str, latency: float = 0.0) -> Iterator[Proxy]:
    """A proxy that runs for as long as the block lasts; ``latency`` is in seconds, per packet, each way."""
    proxy = Proxy(server, latency)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
