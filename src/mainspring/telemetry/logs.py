"""Log lines: text for people, JSON for collectors, and passwords and other secrets in neither."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from mainspring.model.redaction import is_secret, redacted
from mainspring.telemetry.tracing import trace_ids

Form = Literal["text", "json"]
"""How lines are written."""

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
TIME = "%H:%M:%S"

_KNOWN = ("worker", "group", "topic", "message_id", "attempt", "correlation_id", "trace_id", "span_id")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; the rest is what somebody has added."""
_DEEPEST = 8
_MASK = "…"


class TextLines(logging.Formatter):
    """A line for people, as ``logging.basicConfig`` writes it."""

    def __init__(self) -> None:
        super().__init__(TEXT, TIME)

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback goes on below it."""
        return redacted(super().format(record))


class JsonLines(logging.Formatter):
    """A JSON object on one line: ``time``, ``level``, ``logger``, ``message``, and what else is known of it.

    That is ``worker``, the message being handled (``group``, ``topic``, ``message_id``, ``attempt``,
    ``correlation_id``), ``trace_id`` and ``span_id``, whatever was given as ``extra``, and ``exception``. What is not
    known is left out. ``prefix`` is what goes before stored names, and is not shown. Passwords of URLs are masked
    (invariant 21), and so are the values of fields whose names say that they are secret, in text and in ``extra``.
    """

    def __init__(self, worker: str | None = None, *, prefix: str = "") -> None:
        super().__init__()
        self.worker: str | None = worker
        self._prefix = prefix

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said: dict[str, object] = {
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
        said |= {name: added.pop(name) for name in _KNOWN if name in added}
        said |= {name: str(said[name]).removeprefix(self._prefix) for name in ("group", "topic") if name in said}
        said |= {name: value for name, value in added.items() if name not in said}
        if record.exc_info is not None or record.exc_text:
            said["exception"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
        if record.stack_info:
            said["stack"] = record.stack_info
        shown = {name: _MASK if is_secret(name) else value for name, value in said.items()}
        return "{" + ", ".join(f"{json.dumps(name)}: {_written(value)}" for name, value in shown.items()) + "}"


def lines(form: Form, worker: str | None = None, prefix: str = "") -> logging.Formatter:
    """What writes lines in this form."""
    return TextLines() if form == "text" else JsonLines(worker, prefix=prefix)


def _written(value: object) -> str:
    try:
        return json.dumps(_plain(value))
    except Exception:  # noqa: BLE001 - whatever is wrong with one value, the line is written
        return json.dumps(_text(value))


def _plain(value: object, depth: int = 0) -> object:
    """What JSON has a form for, without secrets; anything else in its own words."""
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
    try:
        return redacted(str(value))
    except Exception as error:  # noqa: BLE001 - a value that cannot be printed must not lose the line
        return f"unprintable {type(value).__name__}: {type(error).__name__}"
