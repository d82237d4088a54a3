from pathlib import Path

import pytest

from mainspring import Mainspring, Testing, errors


async def test_the_real_database_is_not_touched(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")

    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    with app.testing() as kit:
        async with app:
            await app.publish("orders.placed", 1)
        await app.publish("orders.placed", 2)
        assert len(await kit.drain()) == 2

    assert list(tmp_path.iterdir()) == []


async def test_afterwards_the_app_is_as_before(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db")

    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    async with app:
        await app.publish("orders.placed", 1)
        with app.testing() as kit:
            await app.publish("orders.placed", 2)
            assert len(kit.published()) == 1
        await app.publish("orders.placed", 3)

        listed = await app.messages.list(state="parked")
    assert len(listed) == 2
    with pytest.raises(errors.NotOpen):
        await app.publish("orders.placed", 4)


async def test_an_inner_kit_replaces_the_outer_for_its_time(app: Mainspring) -> None:
    with app.testing() as outer:
        began = outer.now
        await app.publish("orders.placed", "outer")
        async with app.testing() as inner:
            await app.publish("orders.placed", "inner")
            await inner.advance("1h")
            assert [sent.payload for sent in inner.published()] == ["inner"]
        await app.publish("orders.placed", "outer again")

        assert [sent.payload for sent in outer.published()] == ["outer", "outer again"]
        assert outer.now == began
    with pytest.raises(errors.Misuse, match="outside its block"):
        inner.published()


async def test_a_worker_within_a_test_leaves_the_running_to_the_kit(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    async with app.worker() as worker:
        assert not worker.ready
        await app.publish("orders.placed", 1)

        assert len(await kit.drain()) == 1


async def test_a_transaction_given_to_publish_is_accepted_whatever_it_is(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    await app.publish("orders.placed", 1, tx=object())
    assert (await app.cancel("orders.placed", key="none", tx=object())).cancelled == 0
    many = await app.publish_many([("orders.placed", 2), ("orders.placed", 3)], tx=object())

    assert [receipt.status for receipt in many] == ["stored", "stored"]
    assert [ran.payload for ran in await kit.drain()] == [1, 2, 3]


def test_a_kit_that_was_not_entered_says_so(app: Mainspring) -> None:
    kit = app.testing()

    assert repr(kit) == "<Testing, not entered>"
    with pytest.raises(errors.Misuse, match=r"write `with app\.testing"):
        kit.sync.drain()


def test_a_kit_is_entered_once(app: Mainspring, kit: Testing) -> None:
    with pytest.raises(errors.Misuse, match=r"call app.testing\(\) for another"), kit:
        pass


@pytest.mark.parametrize(
    "wrong",
    [{"patience": "0s"}, {"patience": 5}, {"limit": 0}, {"start": "noon"}, {"tx": object()}],
)
def test_what_cannot_be_meant_is_refused(app: Mainspring, wrong: dict[str, object]) -> None:
    with pytest.raises((errors.BadOption, errors.BadHandle)), app.testing(**wrong):  # type: ignore[arg-type]
        pass


def test_memory_has_no_transaction_to_test_in() -> None:
    import sqlite3

    with (
        pytest.raises(errors.BadHandle),
        Mainspring("memory://").testing(tx=sqlite3.connect(":memory:")),
    ):
        pass


def test_pytest_does_not_take_it_for_a_test() -> None:
    assert Testing.__test__ is False
