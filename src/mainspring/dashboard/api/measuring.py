"""Measures for JSON: counts by time, and percentiles of waiting and running times."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.answers import shown
from mainspring.dashboard.api.shapes import Percentiles
from mainspring.model.measures import Bucket, Histogram, MeasuresView, PacesView


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
