"""The blocking twin: from threads, in forked children, and never on an event loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mainspring import Context, Mainspring, Retention
from mainspring.app.blocking import Background
from mainspring.model.errors import Misuse, StorageError
from tests.services.children import ended_well, forked


@pytest.fixture(params=["sqlite", "postgresql", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str) -> str:
    return {"sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url, "memory": "memory://"}[request.param]


@pytest.fixture
def schema(postgres_schema: str) -> str:
    return postgres_schema


def shop(url: str, schema: str) -> Mainspring:
    app = Mainspring(url, schema=schema, auto_migrate=True)

    @app.consumer("orders.placed")
    def ship(order: dict[str, Any]) -> None: ...

    return app


def test_a_message_is_stored_when_the_call_returns(url: str, schema: str) -> None:
    app = shop(url, schema)
    app.sync.declare()

    receipt = app.sync.publish("orders.placed", {"id": 1})

    found = app.sync.messages.get(receipt.id)
    assert found is not None
    assert [each.state for each in found.deliveries] == ["ready"]
    assert app.sync.stats.tally().groups[0].ready == 1
    app.sync.close()


def test_many_threads_share_one_background(url: str, schema: str) -> None:
    app = shop(url, schema)
    app.sync.declare()
    before = {each.name for each in threading.enumerate()}

    with ThreadPoolExecutor(20) as pool:
        receipts = list(pool.map(lambda number: app.sync.publish("orders.placed", {"id": number}), range(100)))

    assert len({each.id for each in receipts}) == 100
    assert app.sync.stats.tally().groups[0].ready == 100
    backgrounds = [each for each in threading.enumerate() if each.name == "mainspring-sync"]
    assert len(backgrounds) == 1 or "mainspring-sync" in before
    app.sync.close()


def test_the_desk_works_without_await(url: str, schema: str) -> None:
    app = shop(url, schema)
    app.sync.declare()
    receipt = app.sync.publish("orders.placed", {"id": 1}, key="order:1", delay="1h")

    app.sync.groups.pause("ship", by="ann", reason="stocktaking")
    paused = app.sync.groups.list()
    app.sync.groups.resume("ship", by="ann")

    assert [(each.name, each.paused_by) for each in paused] == [("ship", "ann")]
    assert [each.action for each in app.sync.audit()] == ["resume", "pause"]
    assert [each.message_id for each in app.sync.messages.list("scheduled")] == [receipt.id]
    assert app.sync.cancel("orders.placed", key="order:1").cancelled == 1
    assert app.sync.dead.list() == []
    assert app.sync.dead.revive(everything=True) == app.sync.dead.discard(everything=True) == 0
    assert app.sync.health().status == "degraded"  # nobody works
    assert app.sync.stats.roster().workers == ()
    assert app.sync.prune(Retention()).total >= 0
    assert app.sync.groups.retire("ship") == 0
    app.sync.close()


async def test_on_an_event_loop_it_names_what_to_await(url: str, schema: str) -> None:
    app = shop(url, schema)
    ship: Any = app.consumer("orders.shipped", group="shipped")(lambda order: None)

    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: app.sync.publish("orders.placed", {}), "await app.publish(…)"),
        (lambda: app.sync.publish_many([("orders.placed", {})]), "await app.publish_many(…)"),
        (lambda: app.sync.cancel("orders.placed", key="k"), "await app.cancel(…)"),
        (app.sync.messages.list, "await app.messages.list()"),
        (lambda: app.sync.dead.revive(everything=True), "await app.dead.revive(…)"),
        (lambda: app.sync.groups.pause("ship"), "await app.groups.pause(…)"),
        (app.sync.health, "await app.health()"),
        (lambda: ship.sync.send({}), "await shipped.send(…)"),
    ]
    for call, instead in calls:
        with pytest.raises(Misuse) as refused:
            call()
        assert f"would block the event loop it is called on: write `{instead}`" in str(refused.value)


def test_what_is_wrong_is_raised_where_it_was_called(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/missing/shop.db")

    with pytest.raises(StorageError, match="missing"):
        app.sync.publish("orders.placed", {})

    (tmp_path / "missing").mkdir()
    assert app.sync.publish("orders.placed", {}).status == "stored"
    app.sync.close()


def test_after_close_the_next_call_starts_anew(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path}/shop.db", "mainspring")
    app.sync.close()
    first = app.sync.publish("orders.placed", {})
    app.sync.close()

    second = app.sync.publish("orders.placed", {})

    assert {each.message_id for each in app.sync.messages.list("parked")} == {first.id, second.id}
    app.sync.close()


def test_closing_waits_for_the_calls_under_way_and_the_next_start_anew(url: str, schema: str) -> None:
    app = shop(url, schema)
    app.sync.declare()

    def publish(worker: int) -> int:
        return len([app.sync.publish("orders.placed", {"id": worker}) for _ in range(25)])

    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(publish, worker) for worker in range(4)]
        while not all(call.done() for call in calls):
            app.sync.close()
        stored = sum(call.result(timeout=30) for call in calls)

    assert stored == 100
    assert app.sync.stats.tally().groups[0].ready == 100
    app.sync.close()


async def test_closing_on_an_event_loop_is_refused() -> None:
    with pytest.raises(Misuse, match="would block the event loop"):
        Mainspring("memory://").sync.close()


def test_many_are_taken_in_the_callers_own_thread(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path}/shop.db", "mainspring")
    caller = threading.get_ident()
    taken: list[int] = []

    def orders() -> Iterator[tuple[str, dict[str, int]]]:
        for number in range(3):
            taken.append(threading.get_ident())
            yield "orders.placed", {"id": number}

    app.sync.publish_many(orders())

    assert taken == [caller] * 3
    app.sync.close()


async def test_a_plain_function_publishes_what_follows_from_its_message(url: str, schema: str) -> None:
    app = Mainspring(url, schema=schema, auto_migrate=True)
    heard: asyncio.Queue[tuple[str, Context]] = asyncio.Queue()

    @app.consumer("orders.placed")
    def ship(order: str, ctx: Context) -> None:
        ctx.sync.publish("orders.shipped", order + " shipped")
        bill.sync.send(order)

    @app.consumer("orders.shipped")
    async def tell(order: str, ctx: Context) -> None:
        heard.put_nowait((order, ctx))

    @app.consumer("orders.billed")
    async def bill(order: str, ctx: Context) -> None:
        heard.put_nowait((f"{order} billed", ctx))

    async with app.worker(), asyncio.timeout(30):
        receipt = await app.publish("orders.placed", "tea")
        told = dict([await heard.get(), await heard.get()])

    assert set(told) == {"tea shipped", "tea billed"}
    assert told["tea shipped"].causation_id == receipt.id
    assert told["tea shipped"].correlation_id == str(receipt.id)
    await asyncio.to_thread(app.sync.close)


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("opened", [True, False], ids=["opened before", "not opened"])
def test_a_forked_child_opens_its_own(url: str, schema: str, opened: bool) -> None:
    app = shop(url, schema)
    app.sync.migrate()
    app.sync.declare()
    if not opened:
        app.sync.close()

    for number in range(3):
        assert ended_well(forked(partial(app.sync.publish, "orders.placed", {"from": number})))

    app.sync.publish("orders.placed", {"from": "parent"})
    assert app.sync.stats.tally().groups[0].ready == 4
    app.sync.close()


def test_a_background_that_is_let_go_of_ends_its_thread(tmp_path: Path) -> None:
    app = shop(f"sqlite:///{tmp_path}/shop.db", "mainspring")
    app.sync.publish("orders.placed", {})
    [background] = [each for each in [app.sync._background] if isinstance(each, Background)]
    thread = background._thread
    assert thread is not None

    app.sync.close()

    assert not thread.is_alive()
