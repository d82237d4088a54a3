"""Values as people read them: relative times, payloads, text that cannot play tricks on a terminal."""

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
    """The text on one line, without control characters: a stored error must not steer anybody's terminal."""
    return _CONTROL.sub("", " ".join(text.split()))


def visible(text: str) -> str:
    """The text with its lines, without control characters."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").expandtabs(4))


def first_line(text: str | None) -> str:
    """The first line that says something."""
    return clean(next((line for line in (text or "").splitlines() if line.strip()), ""))


def when(instant: datetime | None, now: datetime | None = None) -> str:
    """How far away an instant is, in its largest unit: ``in 14m``, ``3s ago``, ``now``."""
    if instant is None:
        return ""
    # In UTC: two times of one zone would be compared by their clocks, whatever those have done in between.
    seconds = (instant.astimezone(UTC) - (now or datetime.now(UTC)).astimezone(UTC)) / timedelta(seconds=1)
    if abs(seconds) < 1:
        return "now"
    # Half a second is given back to the future, or what was delayed by 15m would be shown as 14m at once.
    distance = round(seconds + 0.49) if seconds > 0 else int(-seconds)
    unit, size = next((unit, size) for unit, size in _UNITS if distance >= size)
    return f"in {distance // size}{unit}" if seconds > 0 else f"{distance // size}{unit} ago"


def progress_of(delivery: DeliveryView) -> str:
    """What its handler last said, and when; nothing where it has said nothing."""
    said = clean(delivery.progress or "")
    return f"{said} ({when(delivery.progress_at)})" if said else ""


def many(count: int, one: str, more: str | None = None) -> str:
    """A count with its noun: ``1 delivery``, ``1,204 deliveries``."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def payload_of(message: MessageView) -> tuple[Any, str]:
    """The payload as a value, and how it was read: ``json`` or ``base64``."""
    if message.content_type.partition(";")[0].strip().endswith("json"):
        try:
            return json.loads(message.payload), "json"
        except ValueError:
            pass
    return base64.b64encode(message.payload).decode(), "base64"


def plain(value: Any) -> Any:
    """A view as JSON values: ISO instants in UTC, ids as text, durations in seconds."""
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
    """One JSON document."""
    values = [plain(each) for each in value] if isinstance(value, list | tuple) else plain(value)
    return json.dumps(values, ensure_ascii=False, indent=2)
