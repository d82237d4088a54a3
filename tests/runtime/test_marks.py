"""Where a claim begins, and when it looks everywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from mainspring.model.message import Delivery, Priority, Scan
from mainspring.runtime.fetcher import Marks

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def delivery(due_at: datetime, priority: int = Priority.NORMAL) -> Delivery:
    return Delivery(
        1, 1, uuid4(), "g", "t", b"", "application/json", None, None, None, None,
        priority, 1, 0, due_at, due_at, due_at, False, False, False, due_at,
    )  # fmt: skip


def since(scans: tuple[Scan, ...], level: int) -> datetime | None:
    return next(scan.since for scan in scans if scan.priority == level)


def test_the_first_claim_looks_everywhere_most_urgent_first() -> None:
    scans = Marks().scans(0.0)

    assert scans == (Scan(0, None), Scan(1, None), Scan(2, None), Scan(3, None))


def test_after_a_full_claim_the_next_begins_a_little_before_the_last_one_claimed() -> None:
    marks = Marks()
    marks.scans(0.0)
    marks.learn([delivery(NOON), delivery(NOON + SECOND)], short=False)

    scans = marks.scans(0.1)

    assert since(scans, Priority.NORMAL) == NOON + SECOND - timedelta(seconds=2)
    assert since(scans, Priority.URGENT) is None


def test_a_bell_a_short_claim_and_ten_seconds_each_make_the_next_claim_look_everywhere() -> None:
    marks = Marks()
    marks.scans(0.0)
    marks.learn([delivery(NOON)], short=False)
    assert since(marks.scans(1.0), Priority.NORMAL) is not None

    marks.rung()
    assert since(marks.scans(1.1), Priority.NORMAL) is None
    assert since(marks.scans(1.2), Priority.NORMAL) is not None

    marks.learn([], short=True)
    assert since(marks.scans(1.25), Priority.NORMAL) is not None
    assert since(marks.scans(1.4), Priority.NORMAL) is None

    marks.learn([delivery(NOON)], short=False)
    assert since(marks.scans(11.3), Priority.NORMAL) is not None
    assert since(marks.scans(11.5), Priority.NORMAL) is None


def test_older_rows_found_by_a_full_scan_pull_the_mark_down() -> None:
    marks = Marks()
    marks.scans(0.0)
    marks.learn([delivery(NOON)], short=False)
    marks.rung()
    marks.scans(1.0)

    marks.learn([delivery(NOON - 60 * SECOND)], short=False)

    assert since(marks.scans(1.1), Priority.NORMAL) == NOON - 62 * SECOND


def test_one_claim_in_eight_begins_with_the_lowest_level() -> None:
    marks = Marks()

    firsts = [marks.scans(0.0)[0].priority for _ in range(16)]

    assert firsts == [0, 0, 0, 0, 0, 0, 0, 3] * 2
