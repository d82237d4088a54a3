"""A preview of a rhythm."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mainspring.app.preview import preview as previewed
from mainspring.dashboard.api.instants import Instant, instants
from mainspring.dashboard.route import Visit, viewing
from mainspring.model.errors import Misuse
from mainspring.timing.cron import CronError


class PreviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A rhythm: a cron expression, or an interval such as ``every 90s``."""

    rhythm: Annotated[str, Meta(min_length=1, max_length=200)]
    timezone: Annotated[str, Meta(min_length=1, max_length=100)] = "UTC"
    day_match: Literal["and", "or"] = "and"
    on_gap: Literal["fire", "skip"] = "fire"
    count: Annotated[int, Meta(ge=1, le=50)] = 5


class Preview(Struct, frozen=True):
    """The rhythm in words and its next times, or what is wrong with it."""

    description: str
    next: list[Instant]
    error: str | None


async def preview(_visit: Visit, asked: PreviewQuery) -> Preview:
    """Preview a rhythm. A parse error is a normal response, because it is requested while the user types."""
    try:
        seen = previewed(
            asked.rhythm, asked.count, timezone=asked.timezone, day_match=asked.day_match, on_gap=asked.on_gap
        )
    except (Misuse, CronError, ValueError) as error:
        return Preview("", [], str(error))
    return Preview(seen.rhythm.describe(), instants(seen.times, seen.after), None)


ROUTES = (viewing("/api/preview", preview, "A rhythm in words, and its next times", Preview, PreviewQuery),)
