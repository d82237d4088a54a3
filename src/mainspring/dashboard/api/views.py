"""What several screens share: measures and percentiles, and pages that are found by scanning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from msgspec import Struct

from mainspring.app.mainspring import Mainspring
from mainspring.app.page import Page
from mainspring.dashboard.responses import shown
from mainspring.model.measures import Bucket, Histogram, MeasuresView, PacesView

V = TypeVar("V")
R = TypeVar("R")


class Percentiles(Struct, frozen=True):
    """The 50th, 95th and 99th percentiles in seconds; null without any values."""

    p50: float | None
    p95: float | None
    p99: float | None


class BucketShown(Struct, frozen=True):
    """The deliveries that ended within one span of time."""

    at: datetime
    done: int
    failed: int
    dead: int
    wait: Percentiles
    run: Percentiles


class MeasuresShown(Struct, frozen=True):
    """Ended deliveries by time, in spans of ``span`` seconds, without gaps."""

    span: float
    buckets: list[BucketShown]


def measures(view: MeasuresView) -> MeasuresShown:
    """Convert the measures of a window."""
    return MeasuresShown(view.span.total_seconds(), [_bucket(each) for each in view.buckets])


def _bucket(each: Bucket) -> BucketShown:
    return shown(BucketShown, each, wait=percentiles(each.wait), run=percentiles(each.run))


async def paces(app: Mainspring) -> PacesView:
    """Return the deliveries that ended within the last minute, by group."""
    return await app.paces("1m")


def percentiles(times: Histogram) -> Percentiles:
    """Return three percentiles; null without any values."""
    return Percentiles(times.quantile(0.5), times.quantile(0.95), times.quantile(0.99))


async def scan(
    read: Callable[[str | None, int], Awaitable[Page[V]]],
    cursor: Callable[[V], str],
    keep: Callable[[V], R | None],
    start: str | None,
    limit: int,
    bounds: tuple[int, int],
) -> tuple[list[R], str | None, int]:
    """Return one page of what ``keep`` returns, the cursor of the next page, and how many rows were scanned.

    ``bounds`` are the maximum number of rows scanned, and the number of rows read at a time.
    """
    found: list[R] = []
    (most, at_once), scanned, end = bounds, 0, start
    while scanned < most:
        rows = await read(start, at_once)
        for row in rows:
            scanned += 1
            if (kept := keep(row)) is not None:
                if len(found) == limit:
                    return found, end, scanned
                found.append(kept)
                end = cursor(row)
        start = rows.cursor
        if start is None or len(found) == limit:
            break
    return found, start, scanned
