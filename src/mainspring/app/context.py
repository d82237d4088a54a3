"""What a handler may know about its run, and what it may do from within it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, Unpack
from uuid import UUID

from mainspring.app.blocking import Face, blocking
from mainspring.app.envelope import MISSING, PublishOptions
from mainspring.app.following import Addressed, JoinOptions
from mainspring.app.options import length
from mainspring.model.errors import Misuse
from mainspring.model.headers import public
from mainspring.model.join import JoinOutcome, JoinReceipt, outcome
from mainspring.model.message import Delivery, Receipt
from mainspring.model.schedule import RHYTHM_HEADER
from mainspring.runtime.handler import Run
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.app.background import Background

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Publishing(Protocol):
    """The part of an app that a context needs."""

    @property
    def clock(self) -> Clock:
        """The clock by which deadlines are told."""
        ...

    @property
    def blocking(self) -> tuple[Publishing, Background]:
        """What publishes for handlers that are plain functions, and where."""
        ...

    async def forward(self, message: object, payload: object, options: PublishOptions, causation_id: UUID) -> Receipt:
        """Publish on behalf of the message ``causation_id``."""
        ...

    async def fan_in(self, members: Any, options: JoinOptions, causation_id: UUID | None = None) -> JoinReceipt:
        """Join on behalf of the message ``causation_id``."""
        ...


class Context:
    """One attempt at one message, as its handler sees it. Made only for handlers that ask for it."""

    __slots__ = ("_app", "_delivery", "_message", "_run")

    def __init__(self, app: Publishing, delivery: Delivery, run: Run, message: Any = MISSING) -> None:
        self._app = app
        self._delivery = delivery
        self._run = run
        self._message = message

    def __repr__(self) -> str:
        """For people: which message, whose copy, which attempt."""
        return f"<Context {self.topic} {self.message_id} for {self.group}, attempt {self.attempt}>"

    @property
    def message(self) -> Any:
        """The message, decoded as the type the handler names, in its payload's annotation or as ``Consumer[T]``."""
        if self._message is MISSING:
            raise Misuse(
                f"ctx.message of {self.group}: its handler names no type to read it as, take it as a parameter"
            )
        return self._message

    @property
    def message_id(self) -> UUID:
        """The message's id: the same in every attempt and for every group."""
        return self._delivery.message_id

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        return self._delivery.topic

    @property
    def group(self) -> str:
        """The group whose copy this is."""
        return self._delivery.group

    @property
    def content_type(self) -> str:
        """What its payload is stored as, with its version if it is not the first: ``application/json; version=2``."""
        return self._delivery.content_type

    @property
    def key(self) -> str | None:
        """The key it was published under."""
        return self._delivery.key

    @property
    def correlation_id(self) -> str | None:
        """What it belongs to, if the publisher said so."""
        return self._delivery.correlation_id

    @property
    def causation_id(self) -> UUID | None:
        """The message whose handler published this one."""
        return self._delivery.causation_id

    @property
    def headers(self) -> Mapping[str, str]:
        """The publisher's headers; empty when there were none."""
        headers = self._delivery.headers
        return _NO_HEADERS if headers is None else MappingProxyType(public(headers))

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1. Snoozes and shutdowns count none."""
        return self._delivery.attempt

    @property
    def scheduled_for(self) -> datetime:
        """When it was meant to be delivered; a retry does not move it."""
        return self._delivery.scheduled_for

    @property
    def published_at(self) -> datetime:
        """When it was stored, by the database's clock."""
        return self._delivery.published_at

    @property
    def was_delayed(self) -> bool:
        """Whether the publisher asked for a later delivery."""
        return self._delivery.scheduled_for > self._delivery.published_at

    @property
    def schedule(self) -> str | None:
        """The schedule that made it; None for other messages."""
        return self._delivery.schedule

    @property
    def cron(self) -> str | None:
        """The rhythm of the schedule that made it, as it was then; None for other messages."""
        return (self._delivery.headers or {}).get(RHYTHM_HEADER) if self.is_recurring else None

    @property
    def is_recurring(self) -> bool:
        """Whether a schedule made it."""
        return self._delivery.schedule is not None

    @property
    def joined(self) -> JoinOutcome | None:
        """What became of the members of the join that this message follows; None for other messages."""
        return outcome(self._delivery)

    @property
    def fence(self) -> int:
        """A number that grows with every claim: hand it to whatever must refuse a slow predecessor's writes."""
        return self._delivery.epoch

    @property
    def tx(self) -> Any:
        """The transaction of a transactional consumer: what is written through it is committed with the verdict.

        The driver's own connection, or the session that its factory makes. Never commit it, nor roll it back: raise.
        """
        if self._run.handler.bare is None:
            raise Misuse(f"ctx.tx of {self.group}: it is not transactional, write @app.consumer(…, transactional=True)")
        if self._run.tx is None:
            raise Misuse(
                f"ctx.tx of {self.group}: its transaction is not open here. A handler has it while it runs, and in a "
                "test only with app.testing(tx=…), which lends it yours"
            )
        return self._run.tx

    @property
    def remaining(self) -> timedelta | None:
        """What is left until the time limit, zero once it has passed; None without one."""
        deadline = self._run.deadline
        if deadline is None:
            return None
        return timedelta(seconds=max(deadline - self._app.clock.monotonic(), 0.0))

    @property
    def deadline(self) -> datetime | None:
        """When the time limit ends by this host's clock; None without one."""
        remaining = self.remaining
        return None if remaining is None else self._app.clock.now() + remaining

    @property
    def cancelled(self) -> bool:
        """Whether this run should stop: cancelled, out of time, lost to another worker, or shutting down."""
        return self._run.stop_reason is not None

    def wait_cancelled(self, timeout: Duration | None = None) -> bool:
        """Sleep in a plain function until it should stop, at most ``timeout``. True: stop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            seconds = None if timeout is None else length(timeout, "timeout").total_seconds()
            return self._run.stopped.wait(seconds)
        raise Misuse("ctx.wait_cancelled() would block the event loop: an async handler is cancelled by itself")

    def progress(self, text: object) -> None:
        """Say how far it is, ``ctx.progress("42 of 100")``: it is seen about a second later, while it runs.

        It only leaves a note, so call it as often as you like, from any thread. The latest counts, cut at 500
        characters.
        """
        self._run.report(text)

    def publish(
        self, message: object, payload: object = MISSING, **options: Unpack[PublishOptions]
    ) -> Coroutine[Any, Any, Receipt]:
        """Publish as ``app.publish`` does, carrying on the correlation and naming this message as the cause."""
        # No `async def`: where there is nothing to publish to, a plain function hears so although it cannot await.
        _within(self._run, options)
        return self._app.forward(message, payload, _carried(self._delivery, options), self._delivery.message_id)

    def join(self, members: Iterable[Addressed], **options: Unpack[JoinOptions]) -> Coroutine[Any, Any, JoinReceipt]:
        """Join as ``app.join`` does, carrying on the correlation and naming this message as the cause of all of it."""
        _within(self._run, options)
        return self._app.fan_in(members, _carried_on(self._delivery, options), self._delivery.message_id)

    @property
    def sync(self) -> SyncContext:
        """``ctx.sync.publish(…)`` and ``ctx.sync.join(…)``, for handlers that are plain functions."""
        return SyncContext(self._app, self._delivery, self._run)


class SyncContext(Face[Context]):
    """What a plain function may do from within its run."""

    def __init__(self, app: Publishing, delivery: Delivery, run: Run) -> None:
        behind, background = app.blocking
        super().__init__(Context(behind, delivery, run), background, "ctx.sync", "ctx")
        self._run = run

    publish: Final = blocking(Context.publish)
    join: Final = blocking(Context.join, listed=True)

    def _tx(self, options: Mapping[str, Any]) -> object:
        return options.get("tx", self._run.tx)


def _within(run: Run, options: PublishOptions | JoinOptions) -> None:
    """Let it join the handler's transaction where there is one, unless the handler says which, or None."""
    if run.tx is not None and "tx" not in options:
        options["tx"] = run.tx
        run.posted = True


def _carried(delivery: Delivery, options: PublishOptions) -> PublishOptions:
    if options.get("correlation_id") is None:
        options["correlation_id"] = _correlation(delivery)
    return options


def _carried_on(delivery: Delivery, options: JoinOptions) -> JoinOptions:
    if options.get("correlation_id") is None:
        options["correlation_id"] = _correlation(delivery)
    return options


def _correlation(delivery: Delivery) -> str:
    return delivery.correlation_id or str(delivery.message_id)
