"""Another Mainspring database as a broker: each message is published there once, under its own id."""

import asyncio
from pathlib import Path

import pytest

from mainspring import Context, Mainspring
from mainspring.app.broker.remote import Remote
from mainspring.brokers.contract import SENT
from mainspring.brokers.link import Link
from mainspring.brokers.wire import write
from mainspring.model.errors import BadOption
from tests.brokers.bench import until
from tests.unit.brokers.test_wire import PLACED

TOPIC = "orders.placed"
ON_THE_WIRE = write(PLACED, "shop", "cloudevents", "ce-")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    return f"sqlite:///{tmp_path}/billing.db" if request.param == "sqlite" else postgres_url


@pytest.fixture
async def billing(url: str, postgres_schema: str) -> Mainspring:
    app = Mainspring(url, name="billing", schema=postgres_schema)
    await app.migrate()
    return app


async def test_what_is_published_here_is_handled_there_with_all_it_says(
    billing: Mainspring, url: str, postgres_schema: str, tmp_path: Path
) -> None:
    handled: list[tuple[str, dict[str, int], str | None, str | None, dict[str, str]]] = []

    @billing.consumer(TOPIC)
    async def bill(order: dict[str, int], ctx: Context) -> None:
        handled.append((str(ctx.message_id), order, ctx.key, ctx.correlation_id, dict(ctx.headers)))

    shop = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop", auto_migrate=True)
    shop.route("orders.*", to=Remote(url, name="shop", schema=postgres_schema), group="billing-database")

    async with billing.worker(), shop.worker():
        receipt = await shop.publish(
            TOPIC, {"order_id": 7}, key="order:7", correlation_id="cart-7", headers={"tenant": "acme"}
        )
        await until(lambda: bool(handled))

    assert handled == [(str(receipt.id), {"order_id": 7}, "order:7", "cart-7", {"tenant": "acme"})]


async def test_a_repeat_is_sent_and_stored_once(billing: Mainspring, url: str, postgres_schema: str) -> None:
    link = Link(Remote(url, name="shop", schema=postgres_schema))

    results = await asyncio.gather(*(link.send([ON_THE_WIRE]) for _ in range(5)))
    await link.close()
    async with billing:
        stored = await billing.messages.get(PLACED.id)
        marks = await billing.inbox.list(group="remote", source="mainspring:shop")

    assert results == [[SENT]] * 5
    assert stored is not None
    assert [each.message_id for each in marks] == [str(PLACED.id)]


async def test_without_its_tables_it_is_away_and_says_what_to_run(postgres_url: str) -> None:
    link = Link(Remote(postgres_url, schema="not_there"))

    (result,) = await link.send([ON_THE_WIRE])

    assert result.status == "later"
    assert "has no Mainspring schema 'not_there'" in result.reason


async def test_a_file_that_cannot_be_opened_is_away_and_costs_no_attempt(tmp_path: Path) -> None:
    link = Link(Remote(f"sqlite:///{tmp_path}/unmounted/billing.db"))

    (result,) = await link.send([ON_THE_WIRE])

    assert result.status == "later"
    assert "does not exist" in result.reason
    assert link.down_for is not None


async def test_one_that_the_other_database_cannot_store_is_rejected_alone(
    billing: Mainspring, url: str, postgres_schema: str
) -> None:
    link = Link(Remote(url, name="shop", schema=postgres_schema))
    bad = ON_THE_WIRE._replace(id="no uuid")

    results = await link.send([bad, ON_THE_WIRE])
    await link.close()
    async with billing:
        stored = await billing.messages.get(PLACED.id)

    assert [each.status for each in results] == ["rejected", "sent"]
    assert stored is not None


def test_memory_is_no_database_of_another_app() -> None:
    with pytest.raises(BadOption, match="leads to no database of another app"):
        Remote("memory://")
