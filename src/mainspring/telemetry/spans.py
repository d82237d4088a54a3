"""Spans of messages through OpenTelemetry: imported only if a tracer provider may record them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Final, assert_never

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mainspring.model.message import Delivery, Draft
from mainspring.model.redaction import redacted
from mainspring.model.text import stack_of, text_of
from mainspring.model.verdict import Bury, Cancel, Done, Failure, Release, Retry, Snooze, Verdict

SYSTEM: Final = "messaging.system"
DESTINATION: Final = "messaging.destination.name"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION_ID: Final = "messaging.message.conversation_id"
BODY_SIZE: Final = "messaging.message.body.size"
BATCH_COUNT: Final = "messaging.batch.message_count"
CONSUMER_GROUP: Final = "messaging.consumer.group.name"
ERROR_TYPE: Final = "error.type"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_STACK: Final = "exception.stacktrace"

ATTEMPT: Final = "mainspring.attempt"
OUTCOME: Final = "mainspring.outcome"
"""The outcome of an attempt: ``done``, ``failed``, ``snoozed``, ``cancelled``, ``released`` or ``lost``."""
REASON: Final = "mainspring.reason"
DELAY: Final = "mainspring.delay"
"""Seconds until a snoozed message is delivered again."""
WAIT: Final = "mainspring.wait"
"""Seconds that a message had been due when it was claimed."""
CAUSATION_ID: Final = "mainspring.causation_id"
SCHEDULE: Final = "mainspring.schedule"
SCHEDULED_FOR: Final = "mainspring.scheduled_for"
SOURCE: Final = "mainspring.source"
"""What was read on a broker, as in "rabbitmq:billing"."""
IN_TRANSACTION: Final = "mainspring.in_transaction"
"""Whether a publish enlisted in the caller's transaction: it takes effect when that commits."""
MIXED: Final = "mixed"
"""The outcome of a batch without failures whose messages have different outcomes."""
COUNTS: Final = {
    outcome: f"mainspring.{outcome}_count" for outcome in ("done", "failed", "snoozed", "cancelled", "released", "lost")
}
"""How many messages of a batch had each outcome."""

MAINSPRING: Final = "mainspring"
TRACEPARENT: Final = "traceparent"
"""The header that carries the trace context, in the format of the W3C."""

Outbound = tuple[Draft, dict[str, str]]
"""A draft to be published, and its headers, to which the trace context is added."""
Value = str | bool | int | float

_W3C = TraceContextTextMapPropagator()
# Baggage is not propagated: a caller's values would be stored with the message.


class Spans:
    """Creates the spans of one app, by the conventions for messaging.

    A single message is published in one span, whose context is sent with it. Of several, each has a span for its
    creation, and the call has one more, which links to them.
    """

    def __init__(self) -> None:
        self._tracer = trace.get_tracer("mainspring", _version())

    @contextmanager
    def publishing(self, outbound: Sequence[Outbound], *, enlisted: bool) -> Iterator[None]:
        """Open a span around storing these; ``enlisted``: in the caller's transaction."""
        if len(outbound) == 1:
            draft, headers = outbound[0]
            given = _context_in(headers)
            attributes = {**_of_draft(draft, "publish", "send"), IN_TRANSACTION: enlisted}
            links = () if given is None else (Link(given),)
            with self._entered(f"publish {draft.topic}", SpanKind.PRODUCER, attributes, links) as span:
                _put(span, headers)
                yield
            return
        topics = {draft.topic for draft, _ in outbound}
        several = {DESTINATION: _only(topics), BATCH_COUNT: len(outbound), IN_TRANSACTION: enlisted}
        created = [self._created(draft, headers) for draft, headers in outbound]
        with self._entered(_name("publish", topics), SpanKind.CLIENT, _attributes("publish", "send", several), created):
            yield

    @contextmanager
    def processing(self, delivery: Delivery) -> Iterator[Span]:
        """Open a span around one attempt. It belongs to the publisher's trace, unless it is within another."""
        creation = _context_in(delivery.headers)
        with self._entered(
            f"process {delivery.topic}",
            SpanKind.CONSUMER,
            _of_delivery(delivery, "process"),
            () if creation is None else (Link(creation),),
            parent=None if creation is None or _is_inside() else _within(creation),
        ) as span:
            yield span

    @contextmanager
    def processing_batch(self, deliveries: Sequence[Delivery]) -> Iterator[Span]:
        """Open a span around one call of a batch consumer. It links to its messages' traces, and is in none of them."""
        topics = {each.topic for each in deliveries}
        several = {
            DESTINATION: _only(topics),
            CONSUMER_GROUP: deliveries[0].group,
            BATCH_COUNT: len(deliveries),
        }
        links = [
            Link(creation, {MESSAGE_ID: str(each.message_id), ATTEMPT: each.attempt})
            for each in deliveries
            if (creation := _context_in(each.headers)) is not None
        ]
        attributes = _attributes("process", "process", several)
        with self._entered(_name("process", topics), SpanKind.CONSUMER, attributes, links) as span:
            yield span

    @contextmanager
    def sending(self, deliveries: Sequence[Delivery], system: str) -> Iterator[list[Span]]:
        """Open a span for each message on its way to a broker, in its publisher's trace, and so sampled as that is."""
        opened = [
            self._beside(each.topic, each.headers, {**_of_delivery(each, "send"), SYSTEM: system})
            for each in deliveries
        ]
        try:
            yield opened
        finally:
            for span in opened:
                span.end()

    def received(
        self, drafts: Mapping[str, Draft], stored: Container[str], source: tuple[str, str], began: int
    ) -> None:
        """Record that these were read from a broker, each in its publisher's trace, and which of them were stored.

        ``source`` is the kind of broker and what was read there; ``began`` is when they came, in nanoseconds.
        """
        system, name = source
        for id, draft in drafts.items():
            more = {SYSTEM: system, SOURCE: name, OUTCOME: "stored" if id in stored else "repeat"}
            attributes = {**_of_draft(draft, "receive", "receive"), **more}
            self._beside(draft.topic, draft.headers, attributes, began).end()

    def _beside(
        self, topic: str, headers: Mapping[str, str] | None, attributes: Mapping[str, Value], began: int | None = None
    ) -> Span:
        """Start a span of a broker's client as a child of the publish: its context goes on with the message."""
        creation = _context_in(headers)
        parent = Context() if creation is None else _within(creation)
        name = f"{attributes[OPERATION]} {topic}"
        return self._tracer.start_span(name, parent, SpanKind.CLIENT, attributes, start_time=began)

    @contextmanager
    def _entered(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, Value],
        links: Sequence[Link],
        parent: Context | None = None,
    ) -> Iterator[Span]:
        span = self._tracer.start_span(name, parent, kind, attributes, links)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            if kind is SpanKind.CONSUMER:
                yield span  # the outcome is set by the caller, which knows why the attempt ended
                return
            try:
                yield span
            except Exception as error:
                failed(span, error)
                raise

    def _created(self, draft: Draft, headers: dict[str, str]) -> Link:
        """Create the span of one message of several, and return the context sent with it: the user's own, if given."""
        named = {MESSAGE_ID: str(draft.id)}
        given = _context_in(headers)
        if given is not None:
            return Link(given, named)
        attributes = _of_draft(draft, "create", "create")
        span = self._tracer.start_span(f"create {draft.topic}", None, SpanKind.PRODUCER, attributes)
        _put(span, headers)
        span.end()
        return Link(span.get_span_context(), named)


def _attributes(operation: str, kind: str, others: Mapping[str, Value | None]) -> dict[str, Value]:
    """Return the attributes of a span, without those that are None."""
    given = {name: value for name, value in others.items() if value is not None}
    return {SYSTEM: MAINSPRING, OPERATION: operation, OPERATION_TYPE: kind, **given}


def _of_draft(draft: Draft, operation: str, kind: str) -> dict[str, Value]:
    others = {
        DESTINATION: draft.topic,
        CONSUMER_GROUP: draft.group,
        MESSAGE_ID: str(draft.id),
        BODY_SIZE: len(draft.payload),
        CONVERSATION_ID: draft.correlation_id,
        CAUSATION_ID: None if draft.causation_id is None else str(draft.causation_id),
    }
    return _attributes(operation, kind, others)


def _of_delivery(delivery: Delivery, operation: str) -> dict[str, Value]:
    others: dict[str, Value | None] = {
        DESTINATION: delivery.topic,
        CONSUMER_GROUP: delivery.group,
        MESSAGE_ID: str(delivery.message_id),
        BODY_SIZE: len(delivery.payload),
        ATTEMPT: delivery.attempt,
        WAIT: max((delivery.claimed_at - delivery.due_at).total_seconds(), 0.0),
        CONVERSATION_ID: delivery.correlation_id,
        CAUSATION_ID: None if delivery.causation_id is None else str(delivery.causation_id),
        SCHEDULE: delivery.schedule,
        SCHEDULED_FOR: None if delivery.schedule is None else delivery.scheduled_for.isoformat(),
    }
    return _attributes(operation, operation, others)


def judged(span: Span, verdict: Verdict) -> None:
    """Record the outcome of an attempt that ended by itself."""
    span.set_attribute(OUTCOME, outcome(verdict))
    match verdict:
        case Snooze(delay, reason):
            span.add_event("snoozed", {DELAY: _seconds(delay), **_because(reason)})
        case Cancel(reason):
            span.add_event("cancelled", _because(reason))
        case _:
            pass


def outcome(verdict: Verdict) -> str:
    """Return a verdict as one word."""
    match verdict:
        case Done():
            return "done"
        case Snooze():
            return "snoozed"
        case Cancel():
            return "cancelled"
        case Release():
            return "released"
        case Retry() | Bury():
            return "failed"
        case _:
            assert_never(verdict)


def counted(span: Span, outcomes: Counter[str]) -> None:
    """Record the outcomes of a batch: the common one, if there is one, and how many had each."""
    common = "failed" if outcomes["failed"] else next(iter(outcomes)) if len(outcomes) == 1 else MIXED
    span.set_attribute(OUTCOME, common)
    span.set_attributes({COUNTS[each]: count for each, count in outcomes.items()})


def failed(span: Span, error: BaseException, message_id: str | None = None) -> None:
    """Record a failure and its error; in a batch, of which message."""
    recorded(span, error, {} if message_id is None else {MESSAGE_ID: message_id})
    _failed(span, _kind(type(error)), text_of(error))


def recorded(span: Span, error: BaseException, more: Mapping[str, Value] | None = None) -> None:
    """Record the exception, without passwords of URLs that its text may quote (invariant 21)."""
    # Not by record_exception, which calls the error's own methods unguarded.
    attributes: dict[str, Value] = {
        EXCEPTION_TYPE: _kind(type(error)),
        EXCEPTION_MESSAGE: redacted(text_of(error)),
        "exception.escaped": "False",
        **(more or {}),
    }
    if (stack := stack_of(error)) is not None:
        attributes[EXCEPTION_STACK] = redacted(stack)
    span.add_event("exception", attributes)


def failed_some(span: Span, count: int, total: int) -> None:
    """Record how many messages of a batch failed."""
    span.set_status(StatusCode.ERROR, f"{count} of {total} messages failed")


def failed_elsewhere(span: Span, failure: Failure, kind: str) -> None:
    """Record a failure in another process, known here only as text."""
    attributes = {EXCEPTION_TYPE: kind, EXCEPTION_MESSAGE: redacted(failure.error)}
    if failure.traceback is not None:
        attributes[EXCEPTION_STACK] = redacted(failure.traceback)
    span.add_event("exception", attributes)
    _failed(span, kind, failure.error)


def _failed(span: Span, kind: str, text: str) -> None:
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(StatusCode.ERROR, redacted(text))


def _kind(error: type[BaseException]) -> str:
    module = error.__module__
    return error.__qualname__ if module == "builtins" else f"{module}.{error.__qualname__}"


def _because(reason: object) -> dict[str, str]:
    return {} if reason is None else {REASON: str(reason)}


def _seconds(delay: timedelta | str) -> float:
    assert isinstance(delay, timedelta), "what a handler wrote has been read"
    return delay.total_seconds()


def _name(operation: str, topics: set[str]) -> str:
    """Return the name of a span, which contains the topic if there is one: names of spans must be few."""
    topic = _only(topics)
    return operation if topic is None else f"{operation} {topic}"


def _only(topics: set[str]) -> str | None:
    return next(iter(topics)) if len(topics) == 1 else None


def _put(span: Span, headers: dict[str, str]) -> None:
    """Send the context of the span with the message, unless the user has given one."""
    if TRACEPARENT not in headers:
        _W3C.inject(headers, trace.set_span_in_context(span, Context()))


def _context_in(headers: Mapping[str, str] | None) -> SpanContext | None:
    """Return the context sent with a message; None if missing or malformed: any publisher may write headers."""
    if not headers or TRACEPARENT not in headers:
        return None
    context = trace.get_current_span(_W3C.extract(headers)).get_span_context()
    return context if context.is_valid else None


def _is_inside() -> bool:
    # An ended span, as the one in which the worker was started, is no parent.
    span = trace.get_current_span()
    return span.get_span_context().is_valid and span.is_recording()


def _within(context: SpanContext) -> Context:
    return trace.set_span_in_context(trace.NonRecordingSpan(context))


def _version() -> str | None:
    try:
        return version("mainspring")
    except PackageNotFoundError:
        return None
