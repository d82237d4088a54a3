"""Log formatters: text for people, JSON for collectors, both without passwords and other secrets."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from mainspring.model.interrupts import is_interrupt
from mainspring.model.redaction import is_secret, redacted
from mainspring.model.text import LONGEST, described, plain, text_of
from mainspring.telemetry.tracing import trace_ids

Form = Literal["text", "json"]
"""The format of log lines."""

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
TIME = "%H:%M:%S"

_KNOWN = ("worker", "group", "topic", "message_id", "attempt", "correlation_id", "trace_id", "span_id")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record; all others were added by a caller."""
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal or end a line; a tab does neither."""
_BELOW = "  | "
"""The prefix of every continuation line, so that no text can look like the beginning of another record."""
_DEEPEST = 8
_MASK = "…"


class TextLines(logging.Formatter):
    """Formats a record for people: one line, with the lines of its traceback marked as continuations.

    Newlines and other control characters of a message are escaped, so that no text ends a line or controls a terminal.
    """

    def __init__(self) -> None:
        super().__init__(TEXT, TIME)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by a traceback if there is one."""
        record.message = record.getMessage()
        record.asctime = self.formatTime(record, self.datefmt)
        below = [record.exc_text or self.formatException(record.exc_info)] if record.exc_info else []
        if record.stack_info:
            below.append(self.formatStack(record.stack_info))
        # Masked before it is split and escaped: a password on two lines would not be recognised.
        first = _escaped(redacted(self.formatMessage(record)))
        return "\n".join([first, *(_BELOW + _escaped(line) for each in below for line in redacted(each).split("\n"))])


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object on one line: ``time``, ``level``, ``logger``, ``message``, and known context.

    The context is ``worker``, the message being handled (``group``, ``topic``, ``message_id``, ``attempt``,
    ``correlation_id``), ``trace_id`` and ``span_id``, everything given as ``extra``, and ``exception``; unknown fields
    are left out. Passwords in URLs are masked (invariant 21), and so are values of fields with secret names, in text
    and in ``extra``.
    """

    def __init__(self, worker: str | None = None) -> None:
        super().__init__()
        self.worker: str | None = worker

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        added = {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}
        if self.worker is not None:
            added.setdefault("worker", self.worker)
        if "trace_id" not in added and (ids := trace_ids()) is not None:
            added["trace_id"], added["span_id"] = ids
        fields |= {name: added.pop(name) for name in _KNOWN if name in added}
        fields |= {name: value for name, value in added.items() if name not in fields}
        if record.exc_info is not None or record.exc_text:
            fields["exception"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
        if record.stack_info:
            fields["stack"] = record.stack_info
        shown = {name: _MASK if is_secret(name) else value for name, value in fields.items()}
        return "{" + ", ".join(f"{json.dumps(name)}: {_written(value)}" for name, value in shown.items()) + "}"


def log(
    logger: logging.Logger,
    level: int,
    text: str,
    *args: object,
    error: BaseException | None = None,
    facts: Mapping[str, object] | None = None,
) -> None:
    """Log a line, with the traceback of ``error``. Errors of filters and handlers are caught; only Ctrl-C is raised.

    An error whose text is too long is shortened, and logged without its traceback, which would repeat it.
    """
    if error is not None and len(shown := text_of(error, LONGEST)) >= LONGEST:
        text, args, error = f"{text}: %s", (*args, shown), None
    try:
        logger.log(level, text, *args, exc_info=error, extra=facts)
    except BaseException as failed:  # logging must not end the work that it reports
        if is_interrupt(failed):
            raise
        _last_resort(
            f"mainspring: a log line was lost, because its filter or handler raised {described(failed)}: {text}"
        )


def _last_resort(line: str) -> None:
    with contextlib.suppress(BaseException):  # nowhere is left to report it
        sys.stderr.write(line + "\n")


def lines(form: Form, worker: str | None = None) -> logging.Formatter:
    """Return the formatter of this format."""
    return TextLines() if form == "text" else JsonLines(worker)


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _written(value: object) -> str:
    try:
        return json.dumps(_plain(value))
    except Exception:  # noqa: BLE001 - one bad value must not lose the line
        return json.dumps(_text(value))


def _plain(value: object, depth: int = 0) -> object:
    """Return a value that JSON can encode, without secrets; other objects as text."""
    match value:
        case str():
            return redacted(value)
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping() if depth < _DEEPEST:
            named = ((_text(name), each) for name, each in value.items())
            return {name: _MASK if is_secret(name) else _plain(each, depth + 1) for name, each in named}
        case list() | tuple() if depth < _DEEPEST:
            return [_plain(each, depth + 1) for each in value]
        case _:
            return _text(value)


def _text(value: object) -> str:
    return redacted(plain(value))
