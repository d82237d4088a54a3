"""Responses: JSON, and problems with what to change."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct
from starlette.responses import Response

from mainspring.dashboard.security.redaction import Redaction
from mainspring.model.errors import (
    Backlogged,
    BadPayload,
    Conflict,
    LeaseHeld,
    MainspringError,
    Misuse,
    NotGranted,
    NotOpen,
    PayloadTooLarge,
    Rejected,
    StorageError,
)
from mainspring.model.redaction import redacted
from mainspring.timing.cron import CronError

T = TypeVar("T")

_logger = logging.getLogger("mainspring.dashboard")
_encoder = msgspec.json.Encoder()
JSON = "application/json"
TEXTS = frozenset(
    (
        "detail",
        "drain_reason",
        "error",
        "freeze_reason",
        "output",
        "pause_reason",
        "problem",
        "progress",
        "subject",
        "summary",
        "traceback",
    )
)
"""Fields with text that was written by handlers, applications or operators, and may quote a secret."""


class Fault(Struct, frozen=True):
    """The code and message of a problem."""

    code: str
    message: str


class Refusal(Struct, frozen=True):
    """The body of every response that is not a success."""

    error: Fault


class Problem(Exception):
    """A rejected request: the status, a code for programs, and a message with what to change."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None, *, quotes: bool = True
    ) -> None:
        """Create it; a message without ``quotes`` may mention headers and tokens without being masked."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message: str = redacted(message) if quotes else message
        self.headers: dict[str, str] = dict(headers or {})
        self.by: str | None = None
        """The name of the sender, if known."""

    def response(self, *, ending: bool = False) -> Response:
        """Return the response; ``ending`` closes the connection, even if the request is not fully received."""
        body = encode(Refusal(Fault(self.code, self.message)))
        headers = {**self.headers, "Connection": "close"} if ending else self.headers
        return Response(body, self.status, headers, media_type=JSON)


def encode(value: object) -> bytes:
    """Encode the value as JSON."""
    return _encoder.encode(value)


def shown(kind: type[T], view: object, **more: Any) -> T:
    """Return the fields of ``kind`` that a view has, and these."""
    return kind(**{name: getattr(view, name) for name in _names(kind) if name not in more}, **more)


def plain(value: Any, redaction: Redaction | None = None) -> Any:
    """Convert a response to JSON values: instants in UTC, durations in seconds, and ``TEXTS`` masked."""
    match value:
        case str() | int() | float() | None:
            return value
        case datetime():
            return value.astimezone(UTC)
        case timedelta():
            return value.total_seconds()
        case Mapping():
            return {str(key): plain(each, redaction) for key, each in value.items()}
        case list() | tuple():
            return [plain(each, redaction) for each in value]
        case _:
            found = {name: getattr(value, name) for name in _names(type(value))}
            return _masked(found, redaction) if found else value


def _masked(found: Mapping[str, Any], redaction: Redaction | None) -> dict[str, Any]:
    return {name: _one_masked(name, each, redaction) for name, each in found.items() if each is not UNSET}


def _one_masked(name: str, value: Any, redaction: Redaction | None) -> Any:
    if redaction is None or not isinstance(value, str):
        return plain(value, redaction)
    if name == "preview":
        return redaction.preview(value)
    return redaction.text(value) if name in TEXTS else value


def _names(kind: type[object]) -> Iterable[str]:
    """Return the fields of a response or a view; none of any other type."""
    found: Iterable[str] = getattr(kind, "__dataclass_fields__", ()) or getattr(kind, "__struct_fields__", ())
    return found


def problem_of(error: Exception) -> Problem:  # noqa: PLR0911 - a line per kind of error
    """Return the problem to report for an error of the app. An unexpected error is logged, not reported."""
    match error:
        case Problem():
            return error
        case NotOpen():
            return Problem(503, "not_open", "the application is not open: it is starting, or has been closed")
        case NotGranted():
            return Problem(500, "not_granted", str(error))  # no outage: to try again is useless before it is granted
        case StorageError():
            return Problem(503, "storage", f"the database is unavailable: {error}", {"Retry-After": "5"})
        case TimeoutError():
            return Problem(503, "storage", "the database did not reply in time: retry", {"Retry-After": "5"})
        case PayloadTooLarge():
            return Problem(413, "too_large", str(error))
        case BadPayload():
            return Problem(422, "invalid", error.advising('send "validate": false beside it'))
        case LeaseHeld() | Conflict() | Backlogged():
            return Problem(409, "conflict", str(error))
        case Misuse() | Rejected() | CronError() | MainspringError():
            return Problem(422, "invalid", str(error))
        case _:
            _logger.error("a request failed: %s", redacted("".join(traceback.format_exception(error))))
            return Problem(500, "internal", "internal error: see the server's log")
