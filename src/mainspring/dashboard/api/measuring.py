"""Measures as they travel: counts by time, and the percentiles of waiting and running."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.app.mainspring import Mainspring
from mainspring.dashboard.answers import shown
from mainspring.dashboard.api.shapes import Percentiles
from mainspring.model.measures import Bucket, Histogram, MeasuresView, PacesView


class BucketShown(Struct, frozen=True):
    """What ended within one span of time."""

    at: datetime
    done: int
    failed: int
    dead: int
    wait: Percentiles
    run: Percentiles


class MeasuresShown(Struct, frozen=True):
    """What ended, by time: ``span`` seconds each, without gaps."""

    span: float
    buckets: list[BucketShown]


def measures(view: MeasuresView) -> MeasuresShown:
    """What ended within a window."""
    return MeasuresShown(view.span.total_seconds(), [_bucket(each) for each in view.buckets])


def _bucket(each: Bucket) -> BucketShown:
    return shown(BucketShown, each, wait=percentiles(each.wait), run=percentiles(each.run))


async def paces(app: Mainspring) -> PacesView:
    """What ended within the last minute, by group."""
    return await app.paces("1m")


def percentiles(times: Histogram) -> Percentiles:
    """Three of them; none where nothing was measured."""
    return Percentiles(times.quantile(0.5), times.quantile(0.95), times.quantile(0.99))
