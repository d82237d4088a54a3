"""Histograms and buckets: which bin a time falls into, and which part of all times lay within how long."""

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.measures import (
    BINS,
    BOUNDS,
    SPANS,
    WINDOWS,
    Bucket,
    Histogram,
    Measure,
    RatesView,
    Sums,
    by_group,
    by_time,
    merged,
    slot,
    with_totals,
)
from mainspring.model.verdict import DONE
from mainspring.telemetry.measures import Meter

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def histogram(**counts: int) -> Histogram:
    """As in ``histogram(b10=3)``: three times in the eleventh bin."""
    return Histogram(tuple(counts.get(f"b{bin}", 0) for bin in range(BINS)))


def test_the_bounds_are_a_series_of_one_two_five() -> None:
    assert len(BOUNDS) == 24
    assert BOUNDS[:6] == (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005)
    assert BOUNDS[-6:] == (100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)


@pytest.mark.parametrize(
    ("seconds", "bin"),
    [(0.0, 0), (0.0001, 0), (0.00011, 1), (0.15, 10), (0.2, 10), (0.21, 11), (5000.0, 23), (5000.1, 24), (1e9, 24)],
)
def test_a_time_is_in_the_first_bin_whose_bound_is_not_below_it(seconds: float, bin: int) -> None:
    meter = Meter()
    meter.count("mailer", DONE, wait=seconds, run=seconds)

    counted = meter.read()["mailer"]
    assert counted.wait == counted.run == histogram(**{f"b{bin}": 1})


@pytest.mark.parametrize(
    ("counted", "q", "seconds"),
    [
        # Ten between 0.1 and 0.2: evenly spread.
        (histogram(b10=10), 0.0, 0.1),
        (histogram(b10=10), 0.5, 0.15),
        (histogram(b10=10), 0.95, 0.195),
        (histogram(b10=10), 1.0, 0.2),
        # Eight there, and two between 1 and 2.
        (histogram(b10=8, b13=2), 0.5, 0.1625),
        (histogram(b10=8, b13=2), 0.8, 0.2),
        (histogram(b10=8, b13=2), 0.95, 1.75),
        # The first bin begins at nothing.
        (histogram(b0=4), 0.5, 0.00005),
        # What is beyond the last bound is not known any closer.
        (histogram(b24=1), 0.5, 5000.0),
        (histogram(b0=1, b24=3), 0.9, 5000.0),
        (histogram(b23=1), 1.0, 5000.0),
    ],
)
def test_a_quantile_is_linear_within_its_bin(counted: Histogram, q: float, seconds: float) -> None:
    assert counted.quantile(q) == pytest.approx(seconds)


def test_nothing_has_no_quantile() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram().total == 0


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_a_part_of_all_is_from_nothing_to_everything(q: float) -> None:
    with pytest.raises(ValueError, match=r"quantile\(0\.95\)"):
        histogram(b1=1).quantile(q)


def test_what_groups_make_together_is_told_under_an_empty_name() -> None:
    told = [
        Measure("mailer", "done", 0, 1),
        Measure("audit", "done", 0, 2),
        Measure("audit", "dead", 0, 4),
        Measure("audit", "done", 0, 8),
    ]

    assert with_totals(told) == [
        Measure("", "dead", 0, 4),
        Measure("", "done", 0, 11),
        Measure("audit", "dead", 0, 4),
        Measure("audit", "done", 0, 10),
        Measure("mailer", "done", 0, 1),
    ]


def test_a_span_begins_at_a_multiple_of_its_seconds() -> None:
    moment = NOON + 17 * SECOND + timedelta(microseconds=999_999)

    assert slot(moment, 10) == NOON + 10 * SECOND
    assert slot(moment, 600) == NOON
    assert slot(NOON, 10) == NOON


def test_every_window_is_read_from_spans_that_are_kept_for_as_long() -> None:
    for span, many in WINDOWS.values():
        assert timedelta(seconds=span) * many <= SPANS[span]


def test_a_window_has_a_bucket_for_every_span_also_where_nothing_happened() -> None:
    sums: Sums[datetime] = Sums(
        NOON + 3 * SECOND,
        (
            (NOON - 20 * SECOND, "done", 0, 5),
            (NOON - 20 * SECOND, "run", 10, 4),
            (NOON - 20 * SECOND, "run", 13, 1),
            (NOON, "failed", 0, 2),
            (NOON, "dead", 0, 1),
            (NOON, "wait", 24, 3),
        ),
    )

    view = by_time(sums, "15m")

    assert (view.now, view.span) == (NOON + 3 * SECOND, 10 * SECOND)
    assert view.start == NOON - 890 * SECOND
    assert [bucket.at for bucket in view.buckets] == [view.start + 10 * SECOND * number for number in range(90)]
    assert view.buckets[-1] == Bucket(NOON, failed=2, dead=1, wait=histogram(b24=3))
    assert view.buckets[-2] == Bucket(NOON - 10 * SECOND)
    assert view.buckets[-3] == Bucket(NOON - 20 * SECOND, done=5, run=histogram(b10=4, b13=1))
    assert view.total == Bucket(
        view.start, done=5, failed=2, dead=1, wait=histogram(b24=3), run=histogram(b10=4, b13=1)
    )


@pytest.mark.parametrize(
    ("window", "span", "many"), [("15m", 10, 90), ("2h", 10, 720), ("24h", 600, 144), ("7d", 600, 1008)]
)
def test_the_windows_are_as_long_as_they_are_called(window: str, span: int, many: int) -> None:
    view = by_time(Sums(NOON, ()), window)  # type: ignore[arg-type]

    assert (view.span, len(view.buckets)) == (timedelta(seconds=span), many)
    assert view.buckets[-1].at == NOON


def test_buckets_are_added_up() -> None:
    one = Bucket(NOON, done=1, failed=2, dead=3, snoozed=4, cancelled=5, wait=histogram(b0=1), run=histogram(b24=2))

    both = merged(NOON - SECOND, [one, one])

    assert both == Bucket(NOON - SECOND, 2, 4, 6, 8, 10, histogram(b0=2), histogram(b24=4))
    assert (one.ended, both.ended) == (15, 30)


def test_paces_tell_how_many_there_were_in_a_second() -> None:
    sums: Sums[str] = Sums(
        NOON + 4 * SECOND,
        (("mailer", "done", 0, 128), ("mailer", "dead", 0, 16), ("mailer", "failed", 0, 16), ("audit", "run", 3, 1)),
    )

    paces = by_group(sums, timedelta(minutes=1))

    assert (paces.start, paces.seconds) == (NOON - timedelta(minutes=1), 64.0)
    assert list(paces.groups) == ["audit", "mailer"]
    assert (paces.rate("mailer"), paces.failing("mailer")) == (2.0, 0.5)
    assert (paces.rate("unknown"), paces.of("unknown")) == (0.0, Bucket(paces.start))


def test_no_time_at_all_has_no_pace() -> None:
    assert RatesView(NOON, NOON, {"mailer": Bucket(NOON, done=1)}).rate("mailer") == 0.0
