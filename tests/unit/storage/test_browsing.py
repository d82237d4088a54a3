"""However much another namespace has in front, a page reads no more of it than so many rows, and the next goes on."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from mainspring.model.search import Filter, Matches
from mainspring.model.views import DeliveryView
from mainspring.storage.portable.search import browse
from mainspring.storage.script import Row, Statement

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Backlog:
    """So many rows that may match by their own columns, the oldest few of which do."""

    def __init__(self, rows: int, ours: int, size: int = 100) -> None:
        self.rows = rows
        self.ours = ours
        self.size = size
        self.read_rows = 0
        self.searched = 0

    def via_index(self, most: int) -> Statement | None:
        assert most
        return None

    def scan_newest(self, before: int, count: int) -> Statement:
        return Statement("walk", (before, count))

    def seqs(self, which: list[int]) -> list[int]:
        return which

    def payload_sizes(self, seqs: list[int]) -> Statement:
        return Statement("payload_sizes", (seqs,))

    def read(self, seqs: list[int], limit: int) -> Statement:
        return Statement("read", (seqs, limit))

    def view(self, row: Row) -> DeliveryView:
        seq: int = row[0]
        return DeliveryView(seq, UUID(int=seq), "ours", "topic", None, "ready", 2, 0, 0, NOON, NOON, NOON)

    def answer(self, statement: Statement) -> Sequence[Row]:
        match statement:
            case ("walk", (before, count)):
                met = list(range(min(before, self.rows + 1) - 1, 0, -1))[:count]
                return [(len(met), met[-1] if met else None, met)]
            case ("payload_sizes", (seqs,)):
                return [(seq, self.size) for seq in seqs]
            case (_, (seqs, limit)):
                self.read_rows += len(seqs)
                self.searched += self.size * len(seqs)
                return [(seq,) for seq in seqs if seq <= self.ours][:limit]
        raise AssertionError(statement)

    def ask(self, wanted: Filter) -> Matches:
        self.read_rows = self.searched = 0
        script = browse(self, wanted)
        statement = next(script)
        try:
            while True:
                statement = script.send(self.answer(statement))
        except StopIteration as stop:
            page: Matches = stop.value
            return page


def test_a_page_reads_so_many_rows_and_the_next_goes_on_from_there() -> None:
    backlog, wanted = Backlog(35_000, 3), Filter("live", since=NOON, scan=200_000)
    found: list[int] = []
    pages = 0

    while True:
        page = backlog.ask(wanted)
        pages += 1
        assert backlog.read_rows <= 10_000
        found += [row.seq for row in page.rows]
        if page.before is None:
            break
        wanted = replace(wanted, before=page.before)

    assert (pages, found) == (4, [3, 2, 1])


def test_a_page_searches_so_many_bytes_and_the_next_goes_on_from_there() -> None:
    backlog, wanted = Backlog(200, 1, 192 * 1024), Filter("live", text="needle", scan=8_000)
    pages = [backlog.ask(wanted)]

    while (before := pages[-1].before) is not None:
        pages.append(backlog.ask(replace(wanted, before=before)))
        assert backlog.searched <= wanted.weight

    assert len(pages) == 5
    assert [row.seq for page in pages for row in page.rows] == [1]
