"""The context of a handler's run, of one message or of a batch."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, Unpack
from uuid import UUID

from mainspring.app.blocking import Face, blocking, in_loop
from mainspring.app.message.envelope import MISSING, Addressed, JoinOptions, PublishOptions
from mainspring.app.options import length
from mainspring.model.errors import Misuse
from mainspring.model.join import JoinOutcome, JoinReceipt, outcome
from mainspring.model.message import Delivery, Receipt, Source, public, source_of
from mainspring.model.schedule import ONCE, RHYTHM_HEADER
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import ContextCall, Run
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.app.blocking import Background

Options = TypeVar("Options", PublishOptions, JoinOptions)

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Publishing(Protocol):
    """The part of an app that a context needs."""

    @property
    def clock(self) -> Clock:
        """The clock of deadlines."""
        ...

    @property
    def blocking(self) -> tuple[Publishing, Background]:
        """The publisher of plain functions as handlers, and its loop."""
        ...

    async def forward(self, message: object, payload: object, options: PublishOptions, causation_id: UUID) -> Receipt:
        """Publish on behalf of the message ``causation_id``."""
        ...

    async def fan_in(self, members: Any, options: JoinOptions, causation_id: UUID | None = None) -> JoinReceipt:
        """Join on behalf of the message ``causation_id``."""
        ...


class Context:
    """One attempt at one message, as its handler sees it. Made only for handlers that take it."""

    __slots__ = ("_app", "_delivery", "_message", "_run")

    def __init__(self, app: Publishing, delivery: Delivery, run: Run, message: Any = MISSING) -> None:
        self._app = app
        self._delivery = delivery
        self._run = run
        self._message = message

    def __repr__(self) -> str:
        """Show the message, the group and the attempt."""
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
        """The group of this delivery."""
        return self._delivery.group

    @property
    def content_type(self) -> str:
        """The payload's content type, with the version if it is not the first: ``application/json; version=2``."""
        return self._delivery.content_type

    @property
    def key(self) -> str | None:
        """The key it was published under."""
        return self._delivery.key

    @property
    def correlation_id(self) -> str | None:
        """The publisher's correlation id, if any."""
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
        """The attempt, from 1. Snoozes and shutdowns do not count."""
        return self._delivery.attempt

    @property
    def source(self) -> Source:
        """What has led to it: ``"message"``, ``"delayed"``, ``"schedule"``, ``"manual"`` or ``"replay"``.

        A schedule is run by hand by ``trigger`` and ``backfill``; a dead letter is replayed by ``revive``.
        """
        return source_of(self._delivery)

    @property
    def scheduled_for(self) -> datetime | None:
        """When it was due; a retry does not change it. None for a message that was published for now."""
        return self._delivery.scheduled_for if self.was_delayed or self.schedule is not None else None

    @property
    def started_at(self) -> datetime:
        """When this attempt started, by this host's clock."""
        started = self._run.started
        if started is None:  # in a process of cpu=True, which gets the time of its claim
            return self._delivery.claimed_at
        clock = self._app.clock
        return clock.now() - timedelta(seconds=clock.monotonic() - started)

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
        return (self._delivery.headers or {}).get(RHYTHM_HEADER) if self.schedule is not None else None

    @property
    def is_recurring(self) -> bool:
        """Whether a schedule made it that has a rhythm, not one that runs once."""
        return not (self.cron or ONCE).startswith(ONCE)

    @property
    def joined(self) -> JoinOutcome | None:
        """The outcome of the join that this message follows; None for other messages."""
        return outcome(self._delivery)

    @property
    def fence(self) -> int:
        """A number that grows with every claim: pass it on to have a slow predecessor's writes rejected."""
        return self._delivery.epoch

    @property
    def tx(self) -> Any:
        """The transaction of a transactional consumer: writes through it are committed with the verdict.

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
        """The time left until the limit, zero once it has passed; None without one."""
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
        if in_loop():
            raise Misuse("ctx.wait_cancelled() would block the event loop: an async handler is cancelled by itself")
        return self._run.stopped.wait(None if timeout is None else length(timeout, "timeout").total_seconds())

    def progress(self, text: object) -> None:
        """Report progress, ``ctx.progress("42 of 100")``: visible about a second later, while it runs.

        It only sets a value, so call it as often as you like, from any thread. The last counts, cut at 500
        characters.
        """
        self._run.report(text)

    def publish(
        self, message: object, payload: object = MISSING, **options: Unpack[PublishOptions]
    ) -> Coroutine[Any, Any, Receipt]:
        """Publish as ``app.publish`` does, with this message's correlation and with it as the cause."""
        # No `async def`: a plain function, which cannot await, gets the error if there is nothing to publish to.
        _within(self._run, options)
        call = self._app.forward(message, payload, _carried(self._delivery, options), self._delivery.message_id)
        return ContextCall(call, self._run, "ctx.publish", message)

    def join(self, members: Iterable[Addressed], **options: Unpack[JoinOptions]) -> Coroutine[Any, Any, JoinReceipt]:
        """Join as ``app.join`` does, with this message's correlation and with it as the cause."""
        _within(self._run, options)
        call = self._app.fan_in(members, _carried(self._delivery, options), self._delivery.message_id)
        return ContextCall(call, self._run, "ctx.join", members)

    @property
    def sync(self) -> SyncContext:
        """``ctx.sync.publish(…)`` and ``ctx.sync.join(…)``, for handlers that are plain functions."""
        return SyncContext(self._app, self._delivery, self._run)


class SyncContext(Face[Context]):
    """The blocking calls of a context."""

    def __init__(self, app: Publishing, delivery: Delivery, run: Run) -> None:
        publisher, background = app.blocking
        super().__init__(Context(publisher, delivery, run), background, "ctx.sync", "ctx")
        self._run = run

    publish: Final = blocking(Context.publish)
    join: Final = blocking(Context.join, listed=True)

    def _tx(self, options: Mapping[str, Any]) -> object:
        return options.get("tx", self._run.tx)


def _within(run: Run, options: PublishOptions | JoinOptions) -> None:
    """Enlist in the handler's transaction if there is one, unless the handler passes ``tx=`` or sends directly."""
    if run.tx is not None and "tx" not in options and not options.get("direct"):
        options["tx"] = run.tx
        run.posted = True


def _carried(delivery: Delivery, options: Options) -> Options:
    """Add the correlation of the handler's message."""
    if options.get("correlation_id") is None:
        options["correlation_id"] = delivery.correlation_id or str(delivery.message_id)
    return options


class BatchContext:
    """One call of a batch consumer, as its handler sees it. Made only for handlers that take it."""

    __slots__ = ("_app", "_batch", "_contexts", "_messages", "_whole")

    def __init__(self, app: Publishing, _: object, run: Batch, messages: Any = MISSING) -> None:
        self._app = app
        self._batch = run
        self._messages = messages
        self._contexts: Sequence[Context] | None = None
        self._whole = Context(app, run.delivery, run)

    def __repr__(self) -> str:
        """Show the size and the group."""
        return f"<BatchContext of {len(self._batch.taken)} messages for {self.group}>"

    @property
    def contexts(self) -> Sequence[Context]:
        """The context of each message, in the order of the list: its id, attempt, key, headers, its own ``publish``."""
        if self._messages is MISSING:  # in middleware: nothing is decoded for it
            return [Context(self._app, run.delivery, run) for run in self._batch.taken]
        if self._contexts is None:
            self._contexts = [
                Context(self._app, run.delivery, run, message)
                for run, message in zip(self._batch.taken, self._messages, strict=True)
            ]
        return self._contexts

    @property
    def unread(self) -> Sequence[tuple[Context, Exception]]:
        """The messages left out of the list because they cannot be read, each with why; set once it is made."""
        return [(Context(self._app, run.delivery, run), why) for run, why in self._batch.unread.items()]

    @property
    def group(self) -> str:
        """The group of these deliveries."""
        return self._whole.group

    @property
    def tx(self) -> Any:
        """The transaction of a transactional consumer, one for all messages: see ``Context.tx``."""
        return self._whole.tx

    @property
    def remaining(self) -> timedelta | None:
        """The time left until the limit of the batch, zero once it has passed; None without one."""
        return self._whole.remaining

    @property
    def deadline(self) -> datetime | None:
        """When the time limit of the batch ends by this host's clock; None without one."""
        return self._whole.deadline

    @property
    def cancelled(self) -> bool:
        """Whether all of it should stop: out of time, shutting down, or every message cancelled or lost."""
        return self._whole.cancelled

    def wait_cancelled(self, timeout: Duration | None = None) -> bool:
        """Sleep in a plain function until all of it should stop, at most ``timeout``. True: stop."""
        return self._whole.wait_cancelled(timeout)

    def progress(self, text: object) -> None:
        """Report progress for every message: see ``Context.progress``."""
        self._whole.progress(text)
