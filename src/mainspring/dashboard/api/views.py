"""What several screens share: measures and percentiles, and pages that are found by scanning."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

from mainspring.app.page import Page
from mainspring.dashboard.responses import shown
from mainspring.dashboard.route import PageQuery
from mainspring.model.measures import Bucket, Histogram, MeasuresView

V = TypeVar("V")
R = TypeVar("R")


class Rows(Struct, Generic[R], frozen=True):
    """A complete list."""

    rows: Sequence[R]


class RowsPage(Rows[R], Generic[R], frozen=True):
    """One page of a list."""

    cursor: str | None
    """The cursor of the next page; null: there is none."""


class ScannedPage(RowsPage[R], Generic[R], frozen=True):
    """One page of a list. A short or even empty page is not necessarily the last."""

    scanned: int


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


def percentiles(times: Histogram) -> Percentiles:
    """Return three percentiles; null without any values."""
    return Percentiles(times.quantile(0.5), times.quantile(0.95), times.quantile(0.99))


async def scan(
    read: Callable[..., Awaitable[Page[V]]],
    cursor: Callable[[V], str],
    keep: Callable[[V], R | None],
    params: PageQuery,
    *,
    most: int,
    at_once: int,
) -> tuple[list[R], str | None, int]:
    """Return one page of what ``keep`` returns, the cursor of the next page, and how many rows were scanned.

    ``read`` is a listing call. At most ``most`` rows are scanned, ``at_once`` of them at a time.
    """
    found: list[R] = []
    scanned, start, limit = 0, params.cursor, params.limit
    end = start
    while scanned < most:
        rows = await read(cursor=start, limit=at_once)
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
