"""Values as text: relative times, payloads, text that is safe to print on a terminal."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from mainspring.model.views import DeliveryView, MessageView

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def clean(text: str) -> str:
    """Return the text on one line, without control characters: a stored error must not control the terminal."""
    return _CONTROL.sub("", " ".join(text.split()))


def visible(text: str) -> str:
    """Return the text with its lines, without control characters."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").expandtabs(4))


def first_line(text: str | None) -> str:
    """Return the first line that is not empty."""
    return clean(next((line for line in (text or "").splitlines() if line.strip()), ""))


def when(instant: datetime | None, now: datetime | None = None) -> str:
    """Format the distance of an instant, in its largest unit: ``in 14m``, ``3s ago``, ``now``."""
    if instant is None:
        return ""
    # In UTC: two times in one zone would be compared by local time, ignoring offset changes.
    seconds = (instant.astimezone(UTC) - (now or datetime.now(UTC)).astimezone(UTC)) / timedelta(seconds=1)
    if abs(seconds) < 1:
        return "now"
    # Future times are rounded up by half a second, or a delay of 15m would at once be shown as 14m.
    distance = round(seconds + 0.49) if seconds > 0 else int(-seconds)
    unit, size = next((unit, size) for unit, size in _UNITS if distance >= size)
    return f"in {distance // size}{unit}" if seconds > 0 else f"{distance // size}{unit} ago"


def progress_of(delivery: DeliveryView) -> str:
    """Format the last progress report of its handler and its time; empty if there is none."""
    said = clean(delivery.progress or "")
    return f"{said} ({when(delivery.progress_at)})" if said else ""


def many(count: int, one: str, more: str | None = None) -> str:
    """Format a count with its noun: ``1 delivery``, ``1,204 deliveries``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def payload_of(message: MessageView) -> tuple[Any, str]:
    """Return the payload as a value, and its encoding: ``json`` or ``base64``."""
    if message.content_type.partition(";")[0].strip().endswith("json"):
        try:
            return json.loads(message.payload), "json"
        except ValueError:
            pass
    return base64.b64encode(message.payload).decode(), "base64"


def plain(value: Any) -> Any:
    """Convert a view to JSON values: ISO instants in UTC, ids as text, durations in seconds."""
    if isinstance(value, MessageView):
        payload, encoding = payload_of(value)
        return {**_builtins(value), "payload": payload, "payload_encoding": encoding}
    return _builtins(value)


def _builtins(value: Any) -> Any:
    return _seconds(msgspec.to_builtins(value, builtin_types=(timedelta,)))


def _seconds(value: Any) -> Any:
    match value:
        case timedelta():
            return value / timedelta(seconds=1)
        case dict():
            return {name: _seconds(each) for name, each in value.items()}
        case list() | tuple():
            return [_seconds(each) for each in value]
        case _:
            return value


def to_json(value: Any) -> str:
    """Return one JSON document."""
    values = [plain(each) for each in value] if isinstance(value, list | tuple) else plain(value)
    return json.dumps(values, ensure_ascii=False, indent=2)
