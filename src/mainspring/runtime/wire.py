"""The protocol between a worker and the processes of its ``cpu=True`` consumers: typed values, never pickles."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal, assert_never, cast

import msgspec

from mainspring.model.message import Delivery
from mainspring.model.verdict import Bury, Cancel, Done, Failure, Retry, Snooze, Verdict
from mainspring.runtime.handler import Program
from mainspring.telemetry.logs import Form

_LENGTH = struct.Struct("!I")
HEADER = _LENGTH.size
"""The length of the header of a frame."""


class Setup(msgspec.Struct, frozen=True):
    """The first frame to a process: what it runs."""

    program: Program
    arguments: Sequence[bytes]
    """The worker's command line, which need not be text."""
    log_level: int | None
    """The worker's log level; None if it has set up no logging at all."""
    log_form: Form = "text"
    worker: str | None = None
    """The worker's name, if its log shows it."""


class Request(msgspec.Struct, frozen=True):
    """One message to be handled, and its timeout."""

    delivery: Delivery
    seconds: float | None
    trace: Mapping[str, str] = {}
    """The trace context in which it is handled, as headers."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The handler was found; after a request: it starts now."""


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """The handler has reported progress; the result follows later."""

    text: str


class Outcome(msgspec.Struct, frozen=True, tag="outcome"):
    """The handler returned."""

    verdict: Literal["done", "snooze", "cancel", "retry", "bury"]
    text: str | None = None
    delay: timedelta | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The handler raised, or was not found; ``kinds`` are the names of the error's class and its base classes."""

    failure: Failure
    kinds: Sequence[str]


Response = Ready | Outcome | Failed
Frame = Response | Progress
"""Every frame that a process may send."""

_ENCODER = msgspec.msgpack.Encoder()
SETUPS = msgspec.msgpack.Decoder(Setup)
REQUESTS = msgspec.msgpack.Decoder(Request)
FRAMES: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def framed(value: Setup | Request | Frame) -> bytes:
    """Encode a value as a frame: its length, then itself."""
    body = _ENCODER.encode(value)
    return _LENGTH.pack(len(body)) + body


def length(header: bytes) -> int:
    """Return how many bytes follow this header."""
    return cast("int", _LENGTH.unpack(header)[0])


def outcome(verdict: Verdict) -> Outcome:
    """Convert a handler's verdict into a frame."""
    match verdict:
        case Done(output):
            return Outcome("done", output)
        case Cancel(reason):
            return Outcome("cancel", reason)
        case Snooze(timedelta() as delay, reason):
            return Outcome("snooze", reason, delay)
        case Retry(delay, failure):
            return Outcome("retry", failure.error, delay)
        case Bury(failure):
            return Outcome("bury", failure.error)
        case _:
            raise TypeError(f"a handler cannot return {verdict!r}")


def verdict(outcome: Outcome) -> Verdict:
    """Convert a frame into a verdict."""
    match outcome.verdict:
        case "done":
            return Done(outcome.text)
        case "cancel":
            return Cancel(outcome.text)
        case "snooze":
            return Snooze(outcome.delay or timedelta(), outcome.text)
        case "retry":
            return Retry(outcome.delay, outcome.text or "")
        case "bury":
            return Bury(outcome.text or "")
        case _:
            assert_never(outcome.verdict)
