"""Lines of one's own in the audit."""

import pytest

from mainspring import Mainspring
from mainspring.app import maintenance


async def test_a_line_of_ones_own_is_in_the_audit() -> None:
    app = Mainspring("memory://", name="shop")

    async with app:
        await app.note("export", "orders", by="ada", detail="12 rows")
        (line,) = await app.audit()

    assert (line.by, line.action, line.subject, line.detail) == ("ada", "export", "orders", "12 rows")


def test_so_it_is_without_await() -> None:
    app = Mainspring("memory://", name="shop")

    app.sync.note("export", "orders", by="ada")
    (line,) = app.sync.audit()
    app.sync.close()

    assert (line.by, line.action, line.subject, line.detail) == ("ada", "export", "orders", "")


async def test_lines_are_found_by_what_they_contain_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_AUDIT_AT_ONCE", 4)
    app = Mainspring("memory://", name="shop")
    async with app:
        for number in range(12):
            who, done = ("ada", "export") if number % 3 else ("bert", "import")
            await app.note(done, f"orders of day {number}", by=who, detail="ada asked for it")

        async def found(**sought: str) -> list[int]:
            page = await app.audit(**sought, limit=3)
            lines = list(page)
            while page.cursor is not None:
                assert len(page) == 3
                page = await app.audit(**sought, limit=3, cursor=page.cursor)
                lines += page
            return [int(line.subject.rpartition(" ")[2]) for line in lines]

        assert await found() == list(range(11, -1, -1))
        assert await found(by="BERT") == [9, 6, 3, 0]
        assert await found(by="ada", action="import") == []
        assert await found(text="ada", action="import") == [9, 6, 3, 0]
        assert await found(subject="day 1") == [11, 10, 1]
        assert await found(subject="ada") == []
