"""What a worker and the processes of its ``cpu=True`` consumers say to each other: typed values, never pickles."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal, assert_never, cast

import msgspec

from mainspring.model.message import Delivery
from mainspring.model.verdict import Cancel, Done, Failure, Snooze, Verdict
from mainspring.runtime.handler import Program
from mainspring.telemetry.logs import Form

_LENGTH = struct.Struct("!I")
HEADER = _LENGTH.size
"""How many bytes go before every frame."""


class Briefing(msgspec.Struct, frozen=True):
    """The first word to a process: what it is for."""

    program: Program
    arguments: Sequence[bytes]
    """The worker's command line, which need not be text."""
    log_level: int | None
    """What the worker logs from; None where it has set up no logging at all."""
    log_form: Form = "text"
    worker: str | None = None
    """Who the worker is, where its log says so."""


class Errand(msgspec.Struct, frozen=True):
    """One message to be handled, and how long that may take."""

    delivery: Delivery
    seconds: float | None
    trace: Mapping[str, str] = {}
    """The context of the trace in which it is handled, as headers."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The handler was found; after an errand: it begins now."""


class Said(msgspec.Struct, frozen=True, tag="said"):
    """The handler has said how far it is; the answer is still to come."""

    text: str


class Outcome(msgspec.Struct, frozen=True, tag="outcome"):
    """The handler returned."""

    verdict: Literal["done", "snooze", "cancel"]
    text: str | None = None
    delay: timedelta | None = None


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The handler raised, or could not be found; ``kinds`` are the names of the error's class and of all above it."""

    failure: Failure
    kinds: Sequence[str]


Answer = Ready | Outcome | Failed
Word = Answer | Said
"""Whatever a process may say."""

_ENCODER = msgspec.msgpack.Encoder()
_BRIEFINGS = msgspec.msgpack.Decoder(Briefing)
_ERRANDS = msgspec.msgpack.Decoder(Errand)
_WORDS: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)


def framed(value: Briefing | Errand | Word) -> bytes:
    """The value as a frame: its length, then itself."""
    body = _ENCODER.encode(value)
    return _LENGTH.pack(len(body)) + body


def length(header: bytes) -> int:
    """How many bytes follow this header."""
    return cast("int", _LENGTH.unpack(header)[0])


def briefing(body: bytes) -> Briefing:
    """Read the first frame that a process is sent."""
    return _BRIEFINGS.decode(body)


def errand(body: bytes) -> Errand:
    """Read any later one."""
    return _ERRANDS.decode(body)


def word(body: bytes) -> Word:
    """Read what a process said; raises msgspec's errors for what is nothing of that."""
    return _WORDS.decode(body)


def outcome(verdict: Verdict) -> Outcome:
    """A handler's verdict, to be sent."""
    match verdict:
        case Done(output):
            return Outcome("done", output)
        case Cancel(reason):
            return Outcome("cancel", reason)
        case Snooze(timedelta() as delay, reason):
            return Outcome("snooze", reason, delay)
        case _:
            raise TypeError(f"a handler cannot return {verdict!r}")


def verdict(outcome: Outcome) -> Verdict:
    """The verdict that was sent."""
    match outcome.verdict:
        case "done":
            return Done(outcome.text)
        case "cancel":
            return Cancel(outcome.text)
        case "snooze":
            return Snooze(outcome.delay or timedelta(), outcome.text)
        case _:
            assert_never(outcome.verdict)
