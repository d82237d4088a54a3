"""A database that the earlier release wrote is migrated without loss, and both releases work on it at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mainspring import Context, Mainspring, unique
from tests.integration.rehearsal.database import PATIENCE, Database, unpack
from tests.integration.rehearsal.shop import Order, Shop, Ticket, everything, shop

HEADERS = {"tenant": "acme", "naïve": "ça va"}


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the earlier release."""
    return unpack(tmp_path_factory.mktemp("earlier"))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(
    request: pytest.FixtureRequest, tmp_path: Path, source: Path, postgres_url: str, postgres_schema: str
) -> Database:
    if request.param == "sqlite":
        return Database(f"sqlite:///{tmp_path / 'shop.db'}", {}, source)
    return Database(postgres_url, {"schema": postgres_schema}, source)


class Handled:
    """What the handlers of this release were called with."""

    def __init__(self) -> None:
        self.which: list[tuple[str, str]] = []
        self.moments: list[tuple[float, Any]] = []
        self.payloads: dict[str, list[Any]] = {}
        self.contexts: dict[str, list[Context]] = {}

    async def __call__(self, group: str, payload: Any, ctx: Context) -> None:
        self.which.append((group, str(ctx.message_id)))
        self.payloads.setdefault(group, []).append(payload)
        self.contexts.setdefault(group, []).append(ctx)
        if group == "ledger":
            self.moments.append((time.monotonic(), payload))


@pytest.mark.no_schema
async def test_what_the_earlier_release_stored_reads_as_before_and_is_finished_once(database: Database) -> None:
    before = await database.write()
    rows = database.rows()
    handled = Handled()
    there = shop(handled, database.url, returns=True, **database.options)
    app = there.app

    await app.migrate()

    assert differences(rows, database.rows()) == []
    async with app:
        after = await everything(app, app.messages.get, held="lapsed")
        assert differences(renamed(before), without_staging(after)) == []

        expected = Counter(unfinished(before))
        async with app.worker():
            await resume(app, before)
            # Besides, two joins are completed, and a schedule fires.
            await until(lambda: len(handled.which) >= expected.total() + 3)
        assert sorted(handled.payloads["album"]) == ["Autumn", "Summer", "reminder"]
        assert Counter(each for each in handled.which if each[0] != "album") == expected
        assert {each.group for each in await app.messages.list()} == {"parcels", "staging/books", "staging/mail"}
        assert [each.topic for each in await app.messages.list("parked")] == ["staging/returns.arrived"]
        check_contents(handled)
        await check_memory(there, before)
    # A namespace was a prefix then. Its rows stay where they are, for the workers that know them.
    async with database.earlier_worker(namespace="staging") as earlier:
        await until(lambda: len(earlier.handled) >= 2)
    assert sorted(group for group, *_ in earlier.handled) == ["books", "mail"]


@pytest.mark.no_schema
async def test_workers_of_both_releases_work_at_once(database: Database) -> None:
    handled = Handled()
    there = shop(handled, database.url, **database.options)
    app = there.app
    orders: list[str] = []

    async with database.earlier_worker() as earlier:
        await app.migrate()
        async with app.worker():
            held = await app.leases.get("shared")
            assert await app.leases.acquire("shared") is None

            async def both() -> bool:
                orders.extend(str(each.id) for each in await app.publish_many([Order(n) for n in range(10)]))
                return bool(handled.which and earlier.handled)

            await until(both)
            earlier.publish()
            await app.publish_many([("payments.made", number) for number in range(20)], key="account:1")
            for number in range(5):
                await app.join([(there.resize, number), (there.resize, -number)], then=(there.album, "done"))
            total = 2 * len(orders) + 2 * 10 + 20 + 10 + 5
            await until(lambda: len(handled.which) + len(earlier.handled) >= total)

    lease = await retaken(app)
    assert lease > held.epoch
    times = Counter([*handled.which, *((group, id) for group, id, *_ in earlier.handled)])
    assert {which for which, count in times.items() if count > 1} == set()
    assert Counter(group for group, _ in times) == Counter(
        mail=len(orders) + 10, books=len(orders) + 10, ledger=20, resize=10, album=5
    )
    assert {id for group, id in times if group == "mail"} == {*orders, *earlier.published}
    paid = [*handled.moments, *((at, number) for group, _, at, number in earlier.handled if group == "ledger")]
    assert [number for _, number in sorted(paid)] == list(range(20))


async def resume(app: Mainspring, before: Any) -> None:
    """Do as operators do: continue what waits for them, and what waits for an hour to pass."""
    assert await app.dead.revive(before["dead"][0]["message_id"]) == 1
    await app.groups.resume("books")
    later = [(UUID(each["message_id"]), each["group"]) for each in before["scheduled"]]
    assert await app.messages.run_now(later) == len(later)


def unfinished(before: Any) -> list[tuple[str, str]]:
    """What a worker has to handle, by group and message. The items of the queue are for others."""
    deliveries = [*before["scheduled"], *before["ready"], *before["held"], *before["dead"]]
    found = [(each["group"], each["message_id"]) for each in deliveries if each["group"] != "parcels"]
    return [*found, *(("arrivals", each["message_id"]) for each in before["parked"])]


def check_contents(handled: Handled) -> None:
    """Handlers are given what was published, and know what went before."""
    assert sorted(order.number for order in handled.payloads["mail"]) == [2, 10, 11, 12, 13]
    assert Order(11, "später") in handled.payloads["mail"]
    assert handled.payloads["support"] == [Ticket("torn")]
    assert handled.payloads["ledger"] == [1, 2, 3]
    retried = next(each for each in handled.contexts["mail"] if each.correlation_id == "retrying")
    assert (retried.attempt, retried.headers) == (2, HEADERS)
    (charge,) = handled.contexts["charge"]
    assert (charge.attempt, charge.key, charge.headers) == (2, "card:1", HEADERS)
    (arrival,) = handled.contexts["arrivals"]
    assert (arrival.key, arrival.headers) == ("return:5", HEADERS)
    summer = handled.contexts["album"][handled.payloads["album"].index("Summer")]
    assert summer.joined is not None
    assert (summer.joined.done, summer.joined.failed, summer.correlation_id) == (2, 0, "album")


async def check_memory(there: Shop, before: Any) -> None:
    """What was recorded under the earlier release still decides."""
    app = there.app
    assert (await app.publish(Order(12), message_id=UUID(int=12))).status == "duplicate"
    assert (await app.publish(Order(13), key="order:13", unique=unique(scope="1h"))).status == "duplicate"
    admitted = [bool(await app.inbox.admit(f"evt_{number}", "bank")) for number in range(1, 7)]
    assert admitted == [False, False, True, False, False, True]
    assert await app.leases.acquire("held") is None
    epoch = max(each["epoch"] for each in before["leases"])
    async with app.leases.hold("expired") as lease, app.leases.hold("new") as other:
        assert min(lease.epoch, other.epoch) > epoch
    lapsed = await there.parcels.reap()
    assert lapsed is not None
    items = [lapsed, *await there.parcels.claim(10)]
    assert sorted(item.payload for item in items) == [2, 3]
    assert len((await there.parcels.ack(*items)).settled) == 2
    assert await app.joins.list() == []
    assert (await app.schedules.get("reminder")).fired == 1
    assert [each.is_behind for each in await app.fanouts.cursors("etl", "payments")] == [False] * 3


async def retaken(app: Mainspring) -> int:
    """The epoch under which this release acquires the lease that the earlier one had."""
    async with app, app.leases.hold("shared", wait="30s") as lease:
        return lease.epoch


def renamed(value: Any) -> Any:
    """What the earlier release returned, in the words of this one.

    A lapsed claim is a state, not a flag; headers of the library's own are not shown.
    """
    match value:
        case {"lapsed": bool() as lapsed, "state": state, **rest}:
            return {"state": "lapsed" if lapsed else state, **renamed(rest)}
        case dict():
            return {name: renamed(each) for name, each in value.items() if not name.startswith("mainspring-")}
        case list():
            return [renamed(each) for each in value]
        case _:
            return value


def without_staging(value: Any) -> Any:
    """Leave out the other namespace, whose names the earlier release stored with a prefix and did not list."""
    match value:
        case dict():
            return {name: without_staging(each) for name, each in value.items() if not of_staging(each)}
        case list():
            return [without_staging(each) for each in value if not of_staging(each)]
        case _:
            return value


def of_staging(value: Any) -> bool:
    return isinstance(value, dict) and any(str(each).startswith("staging/") for each in value.values())


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Where two values differ. A field, a table or a column that is new is no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(name, each, after.get(name, "missing")) for name, each in before.items()]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(str(place), each, after[place]) for place, each in enumerate(before)]
    else:
        return [] if before == after else [f"{path}: {before!r} became {after!r}"]
    return [found for name, one, other in pairs for found in differences(one, other, f"{path}.{name}")]


async def until(true: Callable[[], bool | Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            answer = true()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.02)
