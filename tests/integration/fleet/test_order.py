"""How long a busy database keeps its turn while others wait: slices, weights, and until it has no work."""

import asyncio
import time
from typing import Any

import pytest

from mainspring import Database, Fleet, Mainspring
from mainspring.app.fleet import worker
from mainspring.model.errors import BadOption
from tests.integration.fleet.conftest import Make, until

ONE: dict[str, Any] = {"most_open": 1, "longest_pause": "200ms", "idle": "1s"}


class Shop:
    """An app whose handlers take a moment, and note when they ended and in which database."""

    def __init__(self) -> None:
        self.app = Mainspring("fleet://", name="shop")
        self.done: list[tuple[float, str]] = []
        self.app.consumer("orders.placed", concurrency=1)(self._handled)

    async def _handled(self, tenant: str) -> None:
        await asyncio.sleep(0.01)
        self.done.append((time.monotonic(), tenant))

    @property
    def tenants(self) -> list[str]:
        return [tenant for _, tenant in self.done]

    async def begin(self, fleet: Fleet) -> None:
        """Wait until *full* has its first turn, and let *light* want one."""
        await until(lambda: self.done)
        await fleet.publish("orders.placed", "light", database="light")


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(worker, "_SLICE", 0.3)
    return Shop()


async def stored(fleet: Fleet, count: int) -> None:
    """Store many messages in *full*."""
    await fleet.declare()
    await fleet["full"].publish_many([("orders.placed", "full")] * count)


async def test_a_busy_database_makes_room_after_its_slice(shop: Shop, files: Make) -> None:
    async with Fleet(shop.app, files("full", "light")) as fleet:
        await stored(fleet, 5_000)
        async with fleet.worker(**ONE):
            await shop.begin(fleet)
            await until(lambda: "light" in shop.tenants)

    assert shop.tenants.index("light") < 5_000


async def test_a_busy_database_keeps_its_turn_until_it_has_no_work(shop: Shop, files: Make) -> None:
    async with Fleet(shop.app, files("full", "light")) as fleet:
        await stored(fleet, 300)
        async with fleet.worker(order="drain-first", **ONE):
            await shop.begin(fleet)
            await until(lambda: "light" in shop.tenants)

    assert shop.tenants == [*["full"] * 300, "light"]


async def test_a_heavy_database_keeps_its_turn_longer(shop: Shop, files: Make) -> None:
    urls = files("full", "light")
    async with Fleet(shop.app, {**urls, "full": Database(urls["full"], weight=8)}) as fleet:
        await stored(fleet, 5_000)
        async with fleet.worker(**ONE):
            await shop.begin(fleet)
            await until(lambda: "light" in shop.tenants)

    (first, _), *_ = shop.done
    at = next(at for at, tenant in shop.done if tenant == "light")
    assert at - first > 8 * 0.3 - 0.2  # the first message was done a little after the turn began


async def test_what_an_application_keeps_with_a_database_may_change(shop: Shop, files: Make) -> None:
    urls = files("acme", "bolt")
    named: dict[str, Any] = {"acme": Database(urls["acme"], weight=3, about={"plan": "free"}), "bolt": urls["bolt"]}
    async with Fleet(shop.app, lambda: dict(named)) as fleet:
        acme = fleet["acme"]
        await acme.migrate()
        assert fleet.databases["acme"].about == {"plan": "free"}
        assert fleet.databases == named | {"bolt": Database(urls["bolt"])}
        assert urls["acme"] not in repr(fleet.databases)

        async with acme:
            opening = acme._connection._opening
            named["acme"] = Database(urls["acme"], weight=5, about={"plan": "paid"})
            await fleet.refresh()

            assert fleet.databases["acme"] == named["acme"]
            assert list(fleet.databases) == ["acme", "bolt"]
            assert fleet["acme"] is acme
            assert acme._connection._opening is opening


def test_a_weight_is_a_whole_number() -> None:
    for weight in (0, 1.5, True, "3"):
        with pytest.raises(BadOption, match=r"weight=.* must be a whole number from 1 to 1,000"):
            Database("sqlite:///acme.db", weight=weight)  # type: ignore[arg-type]


def test_a_database_has_a_url(shop: Shop) -> None:
    with pytest.raises(BadOption, match="'acme': the database is given as a URL, not dict"):
        Fleet(shop.app, {"acme": {"url": "sqlite:///acme.db"}})  # type: ignore[dict-item]
    with pytest.raises(BadOption, match="'acme': the database is given as a URL, not Database"):
        Fleet(shop.app, {"acme": Database(Database("sqlite:///acme.db"))})


async def test_an_order_is_one_of_two(shop: Shop, files: Make) -> None:
    with pytest.raises(
        BadOption, match=r"order='drain_first' is not one of 'round-robin', 'drain-first'.* Did you mean"
    ):
        async with Fleet(shop.app, files("acme")).worker(order="drain_first"):  # type: ignore[arg-type]
            pass
    with pytest.raises(BadOption, match="share='yes' must be True or False"):
        async with Fleet(shop.app, files("acme")).worker(share="yes"):  # type: ignore[arg-type]
            pass
