"""Routes: groups whose deliveries are sent to a broker, and settled when it has confirmed them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import product
from typing import Any, TypedDict, cast

from mainspring.app.broker.state import shown_route
from mainspring.app.config import KEEPS, MOST_AT_ONCE, Options
from mainspring.app.consume import signature
from mainspring.app.consume.backpressure import WhenFull, read_pending_limit
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.consumers import Consumers
from mainspring.app.consume.context import Publishing
from mainspring.app.consume.limits import read_limits
from mainspring.app.consume.middleware import Middleware, around
from mainspring.app.names import check_own_group, check_pattern
from mainspring.app.options import choice, flag, given, length, refuse_unknown, whole
from mainspring.app.transaction.consumers import LentConnections
from mainspring.brokers.contract import Broker, SendResult, WireMessage
from mainspring.brokers.link import Link
from mainspring.brokers.wire import FORMATS, Outbound, WireFormat, write
from mainspring.model.errors import BadOption
from mainspring.model.limits import OnFailure
from mainspring.model.message import Delivery, Keep
from mainspring.model.text import described
from mainspring.model.verdict import Bury, Failure, Snooze
from mainspring.model.views import Declaration
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Batching, Handler, Run
from mainspring.storage.patterns import matches, shared_topic
from mainspring.timing.backoff import MESSAGES
from mainspring.timing.breaker import Breaker
from mainspring.timing.duration import Duration

BATCH = 250
"""How many confirms are awaited at once: beyond this no broker got faster."""
LINGER = timedelta(milliseconds=5)
CONCURRENCY = 2
"""One batch is on its way while the next is written."""
_MOST_BATCH = 1000
PATIENCE = 1.0
"""Seconds for which claimed deliveries wait for a connection before they are put off."""
AWAY = Breaker(failures=5, within=timedelta(seconds=5), pause=timedelta(seconds=1), share=0.5, snoozes=True)
"""While the broker is away nothing is claimed: an outage costs the database one probe at a time, however long the
backlog, and however much was sent until seconds ago."""
_LONGEST_PAUSE = 10.0
"""Seconds for which a delivery is put off at most. A longer time would spare nothing while the breaker is open."""


class RouteOptions(TypedDict, total=False):
    """Options of ``app.route(*topics, to=…)``; None is the same as leaving an option out."""

    group: str | None
    """The route's name in the database [made of the broker and the topics]."""
    format: WireFormat | None
    """How messages are written: "cloudevents" (binary mode), "structured", "masstransit" or "cap" ["cloudevents"]."""
    batch: int | None
    """How many confirms are awaited together, at most 1,000 [250]."""
    linger: Duration | None
    """How long the first message of a batch that is not full waits for others ["5ms"]."""
    concurrency: int | None
    """How many batches are sent at once by one process [2]."""
    keep: Keep | None
    """How much history its deliveries leave [the app's]."""
    ordered: bool | None
    """Send messages of one key one at a time, in publish order, over all workers [False]."""
    on_failure: OnFailure | None
    """What a rejected message of an ordered route does to those behind it: "block" or "skip" ["block"]."""
    global_concurrency: int | None
    """How many are sent at once, over all workers [any number]."""
    rate: str | None
    """How many are sent in what time, over all workers, as in "100/1m" [any number]."""
    pending_limit: int | None
    """How many may wait before publishing to its topics raises or waits [any number]."""
    when_full: WhenFull | None
    """What a publish over the limit does: "raise" Backlogged, or "wait" for room, half a minute ["raise"]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Registration):
    """A route as registered: a group that the worker serves by sending."""

    broker: Broker
    format: WireFormat
    app: str

    def handler(
        self,
        app: Publishing,
        lending: LentConnections | None = None,  # noqa: ARG002 - a route has no transaction
        outermost: tuple[Middleware, ...] = (),
    ) -> Handler:
        """Return what the runtime runs: a relay with a connection of its own."""
        relay = Relay(Link(self.broker), self.app, self.format)
        return Handler(
            group=self.group,
            call=relay.send,
            retry=self.retry,
            concurrency=self.concurrency,
            keep=self.keep,
            keep_scheduled=self.keep_scheduled,
            dead=self.dead,
            around=around(outermost, app, batch=True),
            breaker=AWAY,
            ended=relay.close,
            batching=self.batching,
            limits=self.limits,
            link=relay.link,
        )

    def declaration(self, owner: str, version: int = 0) -> Declaration:
        """Return its declaration, with where it sends to."""
        declared = Registration.declaration(self, owner, version)
        shown = shown_route(self.broker.kind, self.broker.shown, self.format)
        return Declaration(
            declared.group, declared.app, declared.patterns, declared.handler, {**declared.options, **shown}
        )


class Relay:
    """Sends the deliveries of one route, in batches, and judges each by what the broker did with it.

    Only what the broker has confirmed is done (invariant 32). What is unknown is sent again: the receiver knows it by
    its id. While the broker is away no attempt is counted, and nothing is buried.
    """

    def __init__(self, link: Link, app: str, format: WireFormat) -> None:
        self.link: Link = link
        self._app = app
        self._format = format
        self._failures = 0

    async def send(self, _: Delivery, run: Run) -> object:
        """Send a batch; return an outcome per message."""
        runs = cast("Batch", run).taken
        prefix = self.link.broker.prefix
        written = [self._written(each.delivery, prefix) for each in runs]
        sendable = [each for each in written if isinstance(each, WireMessage)]
        sent = iter(await self.link.send(sendable, PATIENCE))
        results = [next(sent) if isinstance(each, WireMessage) else each for each in written]
        if any(each.status == "sent" for each in results):
            self._failures = 0
        elif any(each.status == "later" for each in results):
            self._failures += 1
        return [self._outcome(each) for each in results]

    def _written(self, delivery: Delivery, prefix: str) -> WireMessage | SendResult:
        try:
            return write(outbound(delivery), self._app, self._format, prefix)
        except Exception as error:  # noqa: BLE001 - one that cannot be written decides about no other
            return SendResult("rejected", f"it cannot be written: {described(error)}")

    async def close(self) -> None:
        """Close the connection, at the end of the worker."""
        await self.link.close()

    def _outcome(self, result: SendResult) -> object:
        if result.status == "sent":
            return None
        if result.status == "rejected":
            return Bury(Failure("rejected", f"{self.link.broker.shown} rejected it: {result.reason}"))
        pause = min(_LONGEST_PAUSE, 0.25 * 2.0 ** min(self._failures, 16)) * random.uniform(0.5, 1.0)
        return Snooze(timedelta(seconds=pause), result.reason)


def outbound(delivery: Delivery) -> Outbound:
    """Return a delivery as what is sent."""
    return Outbound(
        delivery.message_id,
        delivery.topic,
        delivery.payload,
        delivery.content_type,
        delivery.headers,
        delivery.key,
        delivery.correlation_id,
        delivery.causation_id,
        delivery.published_at,
    )


def overlapping(first: Route, second: Route) -> str | None:
    """Return a topic that both would send to the same address; None if there is none.

    Of the topics that two patterns share, those of mappings and one more are tried: a function may treat others alike.
    """
    if first.broker.url != second.broker.url:
        return None
    mappings = [each.broker.addressing for each in (first, second)]
    named = [topic for each in mappings if isinstance(each, Mapping) for topic in each]
    for one, other in product(first.topics, second.topics):
        shared = shared_topic(one, other)
        if shared is None:
            continue
        for topic in (shared, *(each for each in named if matches(one, each) and matches(other, each))):
            if _address(first, topic) == _address(second, topic) is not None:
                return _in_words(one, other) if topic == shared else topic
    return None


def _in_words(one: str, other: str) -> str:
    """Return what two patterns share, for people: the narrower one where the other is wider, else an example."""
    example = shared_topic(one, other) or ""
    return next((each for each in (one, other) if matches(one, each) and matches(other, each)), example)


def _address(route: Route, topic: str) -> str | None:
    """Return where a route sends a topic; None if its mapping does not have it."""
    try:
        return route.broker.address(topic)
    except Exception:  # noqa: BLE001 - a function of the application's, which has not this example
        return None


def read_route(
    topics: Sequence[Any], to: object, given_options: Mapping[str, Any], consumers: Consumers, app: Options
) -> Route:
    """Check and return a route. Raises BadOption."""
    refuse_unknown(given_options, RouteOptions.__annotations__, "app.route(…)")
    options = given(given_options)
    if not isinstance(to, Broker):
        raise BadOption(
            f"app.route(…, to={to!r}): pass a broker, as in to=RabbitMQ('amqp://localhost', exchange='shop'), "
            "with `from mainspring.brokers import RabbitMQ`"
        )
    for each in topics:
        if isinstance(each, list | tuple | set):
            raise BadOption(f"app.route({each!r}, …) takes topics one by one: write app.route('orders.*', …, to=…)")
    patterns = tuple(
        dict.fromkeys(check_pattern(each) if isinstance(each, str) else consumers.topic_of(each) for each in topics)
    )
    if not patterns:
        raise BadOption("app.route(…) has no topic: name the topics to send, as in app.route('orders.*', to=…)")
    lacking = [each for each in patterns if isinstance(to.addressing, Mapping) and not _has(to.addressing, each)]
    if lacking:
        raise BadOption(
            f"app.route({lacking[0]!r}, …): the mapping of {type(to).__name__}(…) has no such topic: add it there"
        )
    group = check_own_group(options.get("group") or default_group(to, patterns))
    name = f"the route {group}"
    function = _relayed()
    size = whole(options.get("batch", BATCH), "batch", least=1, most=_MOST_BATCH)
    linger = length(options.get("linger", LINGER), "linger", least=timedelta(), most=timedelta(minutes=1))
    if flag(options.get("ordered", False), "ordered") and not to.keeps_order:
        raise BadOption(f"{name} is ordered, and {to.kind} keeps no order: leave out ordered=True")
    return Route(
        group=group,
        name=name,
        function=function,
        shape=signature.read(function, None),
        decode=None,
        topics=patterns,
        topic=patterns[0],
        retry=MESSAGES,
        timeout=None,
        concurrency=whole(options.get("concurrency", CONCURRENCY), "concurrency", least=1, most=MOST_AT_ONCE),
        keep=cast("Keep", choice(options.get("keep", app.keep), KEEPS, "keep")),
        threaded=False,
        dead=app.dead,
        batching=Batching(size, linger.total_seconds()),
        pending_limit=read_pending_limit(options, name),
        limits=read_limits(options, name, keyless=False),
        broker=to,
        format=cast("WireFormat", choice(options.get("format", "cloudevents"), FORMATS, "format")),
        app=app.name,
    )


def _has(mapping: Mapping[str, str], pattern: str) -> bool:
    """Return whether a mapping has an address for a topic of this pattern."""
    return any(matches(pattern, topic) for topic in mapping)


def default_group(broker: Broker, patterns: Sequence[str]) -> str:
    """Return the name of a route that was given none: as long as its topics stay, so does its name."""
    return re.sub(r"[^\w.:#*+-]+", "-", f"{broker.kind}:{'+'.join(patterns)}")


def _relayed() -> Callable[..., Any]:
    """Return a function of its own for each route: consumers are told apart by theirs."""

    async def relayed() -> None:
        raise AssertionError("a route has no handler of the application's")

    return relayed
