"""Publishing straight to the brokers of routes, without the outbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mainspring.app.broker.route import BATCH, Route
from mainspring.app.connection import Connection
from mainspring.app.consume.consumer import Registration
from mainspring.brokers.contract import SendResult, WireMessage
from mainspring.brokers.link import Link
from mainspring.brokers.wire import Outbound, write
from mainspring.model.errors import BadOption, NotSent
from mainspring.model.message import Draft, Receipt
from mainspring.storage.contract import Storage
from mainspring.storage.patterns import matches
from mainspring.timing.clock import Clock

PATIENCE = 5.0
"""Seconds for which a caller waits for a connection."""
_STORED = ("tx", "delay", "at", "unique", "expires", "priority", "past", "spread")
"""Options of what is stored."""


class DirectSender:
    """Sends to the brokers of an app's routes, and returns when they have confirmed.

    Nothing is stored: what a broker does not confirm is the caller's to send again. Its connections are opened when
    they are first used, on the loop on which the app is open, and closed with it.
    """

    def __init__(self, connection: Connection, consumers: Iterable[Registration], clock: Clock) -> None:
        self._connection = connection
        self._consumers = consumers
        self._clock = clock
        self._links: dict[str, Link] = {}
        self._pid = os.getpid()
        connection.before_close.append(self._close)

    def check(self, options: Mapping[str, Any], call: str) -> None:
        """Raise BadOption for an option that only a stored message has."""
        for name in _STORED:
            if options.get(name) is not None:
                raise BadOption(
                    f"{call} with direct=True stores nothing and sends now, so it takes no {name}=: leave out one of "
                    "them"
                )

    async def send(self, drafts: Sequence[Draft], call: str) -> list[Receipt]:
        """Send each to every route of its topic. Raises NotSent if one is not confirmed, BadOption without a route."""
        routed = self._routed(drafts, call)
        await self._connection.opening(call)
        stand_in = self._connection.stand_in
        if stand_in is None:
            results = await asyncio.gather(*(self._sent(route, taken) for route, taken in routed))
        else:
            results = [
                [stand_in.relay(route.group, route.broker.address(each.topic), each) for each in messages]
                for route, messages in ((route, self._written(route, taken)) for route, taken in routed)
            ]
        failed = [
            (route.group, draft.id, result.reason, result.status == "rejected")
            for (route, taken), answers in zip(routed, results, strict=True)
            for draft, result in zip(taken, answers, strict=True)
            if result.status != "sent"
        ]
        if failed:
            raise NotSent(call, failed, len(drafts))
        self._connection.published(drafts)
        return [Receipt(each.id, "sent") for each in drafts]

    def _routed(self, drafts: Sequence[Draft], call: str) -> list[tuple[Route, list[Draft]]]:
        """Return what each route sends. Raises BadOption for a topic that none does."""
        routes = [each for each in self._consumers if isinstance(each, Route)]
        taken: dict[str, list[Draft]] = {}
        for draft in drafts:
            found = [each for each in routes if any(matches(pattern, draft.topic) for pattern in each.topics)]
            if not found:
                raise BadOption(
                    f"{call} with direct=True: no route of this app sends {draft.topic!r}: register one by "
                    f"app.route({draft.topic!r}, to=…), or leave out direct=True"
                )
            for each in found:
                taken.setdefault(each.group, []).append(draft)
        return [(each, taken[each.group]) for each in routes if each.group in taken]

    async def _sent(self, route: Route, drafts: Sequence[Draft]) -> list[SendResult]:
        link, messages = self._link(route), self._written(route, drafts)
        results: list[SendResult] = []
        for start in range(0, len(messages), BATCH):
            results += await link.send(messages[start : start + BATCH], PATIENCE)
        return results

    def _written(self, route: Route, drafts: Sequence[Draft]) -> list[WireMessage]:
        now = self._clock.now()
        return [
            write(
                Outbound(
                    each.id,
                    each.topic,
                    each.payload,
                    each.content_type,
                    each.headers,
                    each.key,
                    each.correlation_id,
                    each.causation_id,
                    now,
                ),
                route.app,
                route.format,
                route.broker.prefix,
            )
            for each in drafts
        ]

    def _link(self, route: Route) -> Link:
        if self._pid != os.getpid():  # a forked child has its own: those of its parent are not closed here
            self._pid, self._links = os.getpid(), {}
        return self._links.setdefault(route.group, Link(route.broker))

    async def _close(self, _storage: Storage) -> None:
        links, self._links = self._links, {}
        if self._pid == os.getpid():
            await asyncio.gather(*(each.close() for each in links.values()))
