"""Causes of death are counted within so many rows, however many causes there are."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring.model.search import CAUSES_SCAN, Causes
from mainspring.storage.portable.search import causes
from mainspring.storage.postgres.columns import PostgresValues
from mainspring.storage.script import Row, Statement

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Books:
    """A database with so many dead letters of each cause, which counts the rows it reads."""

    def __init__(self, dead: Sequence[int]) -> None:
        self.dead = {("grave", f"{place:04x}"): count for place, count in enumerate(dead)}
        self.read = 0
        self.trips = 0

    def __call__(self, name: str, *args: Any) -> Statement:
        return Statement(name, args)

    def answer(self, statement: Statement) -> list[Row]:
        self.trips += 1
        match statement:
            case ("causes_known", (None, steps)):
                return [*list(self.dead)[:steps]]
            case ("causes_count", (groups, fingerprints, most)):
                causes = zip(groups, fingerprints, strict=True)
                counts = [min(self.dead[cause], most) for cause in causes]
                self.read += sum(counts)
                return [(place, count, NOON, NOON) for place, count in enumerate(counts)]
            case _:
                return [(place, "error", "boom") for place, _ in enumerate(statement.args[0])]

    def ask(self, cap: int, limit: int, scan: int = CAUSES_SCAN) -> Causes:
        script = causes(self, PostgresValues(), None, cap, limit, scan)
        rows = None
        try:
            while True:
                rows = self.answer(script.send(rows) if rows is not None else next(script))
        except StopIteration as stop:
            answer: Causes = stop.value
            return answer


@pytest.mark.parametrize("dead", [[1_000] * 1_000, [1_000_000], [900_000, *[1] * 999], [10_000] * 100, [1] * 5_000])
def test_no_more_rows_are_read_than_were_allowed(dead: list[int]) -> None:
    books = Books(dead)

    found = books.ask(10_000, 100)

    assert books.read <= CAUSES_SCAN
    assert books.trips <= 4
    truth = books.dead
    assert all(row.count <= truth[row.group, row.fingerprint] for row in found.rows)
    assert all(row.more or row.count == truth[row.group, row.fingerprint] for row in found.rows)


def test_what_the_rare_ones_leave_is_for_the_frequent() -> None:
    first, second, *others = Books([900_000, *[1] * 998, 20_000]).ask(10_000, 100).rows

    assert [(each.count, each.more) for each in (first, second)] == [(10_000, True), (10_000, True)]
    assert {(each.count, each.more) for each in others} == {(1, False)}


def test_more_causes_than_anybody_goes_through_are_told_of() -> None:
    few, many = Books([1] * 1_999).ask(10, 5_000), Books([1] * 2_001).ask(10, 5_000)

    assert (len(few.rows), few.more) == (1_999, False)
    assert (len(many.rows), many.more) == (2_000, True)
