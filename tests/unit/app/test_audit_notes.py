"""Lines of one's own in the audit."""

from mainspring import Mainspring


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
