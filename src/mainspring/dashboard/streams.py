"""Streams: responses that are sent again whenever they change, as server-sent events, one or several per connection."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import unquote

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from mainspring.dashboard.responses import Fault, Problem, Refusal, encode, problem_of
from mainspring.dashboard.route import Call, Params, Route, parse_query

EVERY = 0.7
"""Seconds between two polls."""
PING = 15.0
"""Seconds after which a silent stream sends a keep-alive comment."""
LONGEST = 600.0
"""Seconds after which a stream ends, and the browser reconnects."""
MOST_EACH = 16
MOST = 256
_TICK = 0.5
"""Seconds between two checks whether the server is shutting down."""
_PATIENCE, _PATIENCE_AT_SHUTDOWN = 10.0, 1.0
"""Seconds for a client to read what it is sent; and during shutdown."""
ALLOWED = 3.0
"""Seconds between two checks with a host application whether access is still allowed."""
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MOST_WATCHED = 8


def wants_stream(request: Request) -> bool:
    """Return whether the request is for a stream."""
    return "text/event-stream" in request.headers.get("accept", "")


@dataclass(frozen=True, slots=True)
class Watched:
    """What is watched. Equal keys share a poll."""

    key: Hashable
    poll: Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Audience:
    """A client of a stream, and what it watches: one resource, or several with their index in every event."""

    client: str
    watched: tuple[Watched, ...]
    allowed: Callable[[], Awaitable[None]]
    """Raises Problem when access is no longer allowed."""
    pause: float
    """Seconds between two such checks."""
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    """The result of a poll: a body, or a problem."""

    body: bytes = b""
    problem: Problem | None = None

    def event(self, number: int | None) -> bytes:
        """Return it as an event, with the index of the resource if there are several."""
        if self.problem is None:
            if number is None:
                return b"data: %b\n\n" % self.body
            return b'event: body\ndata: {"of":%d,"body":%b}\n\n' % (number, self.body)
        code, message, status = self.problem.code, self.problem.message, self.problem.status
        data: Struct = Refusal(Fault(code, message))
        if number is not None:
            data = WatchEvent(number, error=WatchFault(code, message, status))
        return b"event: problem\ndata: %b\n\n" % encode(data)


@dataclass(slots=True, eq=False)
class _Watch:
    """One poll, shared by all clients that watch the same."""

    poll: Callable[[], Awaitable[Any]]
    listeners: set[asyncio.Event] = field(default_factory=set)
    seen: _Seen = field(default_factory=_Seen)
    number: int = 0
    """Increases with every change."""
    task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        before: bytes | None = None
        while True:
            began = time.monotonic()
            seen, timeless = await self._polled()
            if timeless != before:
                before, self.seen = timeless, seen
                self.number += 1
                for each in self.listeners:
                    each.set()
            took = time.monotonic() - began
            # Slow polls are less frequent: polling may take at most a quarter of the time.
            await asyncio.sleep(max(EVERY - took, 3 * took))

    async def _polled(self) -> tuple[_Seen, bytes]:
        """Return the result, and the part that counts as a change: not the time of the poll."""
        try:
            answer = await self.poll()
            return _Seen(encode(answer)), encode({**answer, "now": None})
        except Exception as error:  # noqa: BLE001 - the next poll may succeed
            seen = _Seen(problem=problem_of(error))
            return seen, seen.event(None)


class Live:
    """The streams of one dashboard. Equal ones share a poll, their number is limited, and all end with the server."""

    def __init__(self) -> None:
        self._watches: dict[Hashable, _Watch] = {}
        self._streams: Counter[str] = Counter()
        self._ended = False

    @property
    def count(self) -> int:
        """The number of open streams."""
        return self._streams.total()

    @property
    def polls(self) -> int:
        """The number of different polls."""
        return len(self._watches)

    @property
    def is_over(self) -> bool:
        """Whether the server is shutting down, by its own notice or by its state."""
        return self._ended or _server_exits()

    def response(self, audience: Audience) -> Response:
        """Return the stream, not started. Raises Problem if there are too many."""
        if self._streams[audience.client] >= MOST_EACH or self.count >= MOST:
            raise Problem(429, "too_many_streams", "too many streams are open: close some tabs", {"Retry-After": "10"})
        return _Stream(self, audience)

    def begin(self) -> None:
        """Allow streams again after a restart of the server."""
        self._ended = False

    async def aclose(self) -> None:
        """End all streams."""
        self._ended = True
        watches = tuple(self._watches.values())
        for watch in watches:
            for each in watch.listeners:
                each.set()
        tasks = [watch.task for watch in watches if watch.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def subscribe(self, audience: Audience, changed: asyncio.Event) -> list[_Watch]:
        """Start watching. Several resources count as one stream."""
        self._streams[audience.client] += 1
        watches = []
        for watched in audience.watched:
            watch = self._watches.get(watched.key)
            if watch is None:
                watch = self._watches[watched.key] = _Watch(watched.poll)
                watch.task = asyncio.create_task(watch.run(), name="mainspring-dashboard-watch")
            watch.listeners.add(changed)
            watches.append(watch)
        return watches

    def unsubscribe(self, audience: Audience, changed: asyncio.Event) -> None:
        """Stop watching. The last client of a poll ends it."""
        self._streams[audience.client] -= 1
        if self._streams[audience.client] <= 0:
            del self._streams[audience.client]
        for watched in audience.watched:
            watch = self._watches.get(watched.key)
            if watch is None:
                continue  # named twice
            watch.listeners.discard(changed)
            if not watch.listeners:
                del self._watches[watched.key]
                if watch.task is not None:
                    watch.task.cancel()


class _Stream(Response):
    """One browser's stream."""

    media_type = "text/event-stream"

    def __init__(self, live: Live, audience: Audience) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._live = live
        self._audience = audience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        changed = asyncio.Event()
        watches = self._live.subscribe(self._audience, changed)
        gone = asyncio.create_task(_until_gone(receive, changed))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send(send, b"retry: 1000\n\n")
            await self._serve(watches, changed, gone, send)
            await self._send(send, b"", more=False)
            if self._live.is_over:
                await _disconnect(receive, _PATIENCE_AT_SHUTDOWN)
        except TimeoutError:
            await _disconnect(receive)
        except OSError:
            pass  # the browser disconnected
        finally:
            gone.cancel()
            self._live.unsubscribe(self._audience, changed)

    async def _serve(self, watches: list[_Watch], changed: asyncio.Event, gone: asyncio.Task[None], send: Send) -> None:
        sent = [0] * len(watches)
        began = sent_at = checked_at = time.monotonic()
        while not gone.done() and not self._live.is_over and time.monotonic() - began < LONGEST:
            now = time.monotonic()
            if now - checked_at >= self._audience.pause:
                checked_at = now
                try:
                    await self._audience.allowed()
                except Exception as error:  # noqa: BLE001 - a failed check counts as a denial
                    seen = _Seen(problem=problem_of(error))
                    for number in range(len(watches)):
                        await self._send(send, self._event(number, seen))
                    return
            changed.clear()
            for number, watch in enumerate(watches):
                if watch.number != sent[number]:
                    sent[number], sent_at = watch.number, now
                    await self._send(send, self._event(number, watch.seen))
            if now - sent_at >= PING:
                sent_at = now
                await self._send(send, b": ping\n\n")
            if not gone.done():
                await _wait_for(changed)

    async def _send(self, send: Send, text: bytes, *, more: bool = True) -> None:
        """Send it. Raises TimeoutError if the client does not read: it must not delay the server."""
        sending = asyncio.ensure_future(send({"type": "http.response.body", "body": text, "more_body": more}))
        began = time.monotonic()
        try:
            while not (await asyncio.wait((sending,), timeout=_TICK))[0]:
                if time.monotonic() - began >= (_PATIENCE_AT_SHUTDOWN if self._live.is_over else _PATIENCE):
                    raise TimeoutError
            sending.result()
        finally:
            sending.cancel()

    def _event(self, number: int, seen: _Seen) -> bytes:
        return seen.event(number if self._audience.numbered else None)


async def _wait_for(changed: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_TICK):
            await changed.wait()
    except TimeoutError:
        return


async def _until_gone(receive: Receive, changed: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    changed.set()


async def _disconnect(receive: Receive, patience: float = 0.0) -> None:
    """Close the connection of a browser that does not read. Otherwise the server waits until it has read everything."""
    connection = getattr(getattr(receive, "__self__", None), "transport", None)
    if not isinstance(connection, asyncio.WriteTransport):
        return
    began = time.monotonic()
    while (unread := connection.get_write_buffer_size()) and time.monotonic() - began < patience:  # noqa: ASYNC110
        await asyncio.sleep(_TICK / 10)
    if unread:
        connection.abort()
        await asyncio.sleep(0)  # let the server notice


def _server_exits() -> bool:
    # Uvicorn notifies applications only after all streams have ended. Its exit flag is reachable by the signal handler.
    handler = signal.getsignal(signal.SIGTERM)
    return bool(getattr(getattr(handler, "__self__", None), "should_exit", False))


class WatchQuery(Params, frozen=True):
    """The resources: each is the path of a GET below /api/ and its query, such as ``overview?window=15m``."""

    of: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=4000)]], Meta(min_length=1, max_length=MOST_WATCHED)
    ]


class WatchFault(Fault, frozen=True):
    """The problem of one of them."""

    status: int


class WatchEvent(Struct, frozen=True):
    """The data of an event: the index of the resource in the request, from 0, and its response or problem."""

    of: int
    body: Any | UnsetType = UNSET
    error: WatchFault | UnsetType = UNSET


async def watch(_call: Call, _params: WatchQuery) -> WatchEvent:
    """Reject a request for anything but a stream."""
    raise Problem(406, "not_acceptable", "this path only streams: send `Accept: text/event-stream`")


# Each watched resource has its own role.
ROUTES = (Route("GET", "/api/watch", watch, "Several resources over one stream", role=None, only_streams=True),)


class Watchable:
    """The routes that can be watched together: all GET routes except the stream itself."""

    def __init__(self, table: Iterable[Route]) -> None:
        self._table = tuple((compile_path(route.path)[0], route) for route in table)

    def found(self, of: str) -> tuple[Route, Struct]:
        """Return the route and the parsed request of a path below /api/ and its query. Raises Problem."""
        path, _, query = of.partition("?")
        by_others = False
        for pattern, route in self._table:
            if (match := pattern.fullmatch(f"/api/{path}")) is None:
                continue
            if route.method == "GET" and not route.only_streams:
                return route, _parsed(route, match.groupdict(), query, path)
            by_others = True
        why = "cannot be watched" if by_others else "is not a path below /api/"
        remedy = "give the path of a GET, such as of=overview%3Fwindow%3D15m"
        raise Problem(422, "invalid", f"of: {path[:50]!r} {why}: {remedy}")


def _parsed(route: Route, given: Mapping[str, str], query: str, path: str) -> Struct:
    try:
        return parse_query(route, {name: unquote(value) for name, value in given.items()}, query)
    except Problem as problem:
        raise Problem(problem.status, problem.code, f"of {path[:50]}: {problem.message}") from None
