"""Order and limits through a whole app, in two workers on one database."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring import BatchContext, Context, Mainspring, exponential
from tests.integration.app.shop import Seen, eventually

SOON = exponential("10ms", cap="10ms", attempts=3)
Make = Callable[[], Mainspring]


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    """Makes apps on one database."""
    if request.param == "sqlite":
        return lambda: Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop", auto_migrate=True)
    return lambda: Mainspring(postgres_url, schema=postgres_schema, name="shop", auto_migrate=True)


class Books:
    """What was begun and ended, in whichever worker, and how much of it at once."""

    def __init__(self) -> None:
        self.begun: Seen[tuple[str | None, int]] = Seen()
        self.running: Counter[str | None] = Counter()
        self.most: Counter[str | None] = Counter()
        self.most_at_once = 0

    async def book(self, number: int, ctx: Context) -> None:
        self.running[ctx.key] += 1
        self.most[ctx.key] = max(self.most[ctx.key], self.running[ctx.key])
        self.most_at_once = max(self.most_at_once, self.running.total())
        self.begun.add((ctx.key, number))
        await asyncio.sleep(0)
        self.running[ctx.key] -= 1

    def of(self, key: str | None) -> list[int]:
        return [number for each, number in self.begun.items if each == key]


async def emptied(app: Mainspring) -> None:
    async def nothing_left() -> bool:
        return not await app.messages.list()

    await eventually(nothing_left)


def keeping(app: Mainspring, books: Books) -> Mainspring:
    @app.consumer("booked", ordered=True, global_concurrency=3, rate="1000/1m", concurrency=5)
    async def book(number: int, ctx: Context) -> None:
        await books.book(number, ctx)

    return app


async def kept_in_order(app: Mainspring, books: Books) -> None:
    keys = [f"k{number % 4}" if number % 5 else None for number in range(40)]
    for number, key in enumerate(keys):
        await app.publish("booked", number, key=key)
    await books.begun.count(len(keys))
    await emptied(app)

    assert len(books.begun.items) == len(keys)
    assert books.most_at_once <= 3
    for key in set(keys) - {None}:
        assert books.most[key] == 1
        assert books.of(key) == [number for number, each in enumerate(keys) if each == key]


async def test_two_apps_keep_one_order_and_show_their_limits(make: Make) -> None:
    books = Books()
    async with AsyncExitStack() as stack:
        apps = [keeping(make(), books) for _ in range(2)]
        for app in apps:
            await stack.enter_async_context(app.worker())
        await kept_in_order(apps[0], books)
        [group] = await apps[1].groups.list()

    assert {name: group.options[name] for name in ("ordered", "global_concurrency", "rate")} == {
        "ordered": "block",
        "global_concurrency": "3",
        "rate": "1000/1m",
    }


async def test_two_workers_in_memory_keep_one_order() -> None:
    books = Books()
    app = keeping(Mainspring("memory://"), books)
    async with app.worker(name="one"), app.worker(name="two"):
        await kept_in_order(app, books)


async def test_a_transactional_consumer_keeps_its_order_through_failures(make: Make) -> None:
    attempts: list[int] = []
    booked: Seen[int] = Seen()
    async with AsyncExitStack() as stack:
        for _ in range(2):
            app = make()

            @app.consumer("booked", group="book", ordered=True, transactional=True, retry=SOON, concurrency=2)
            async def book(number: int, ctx: Context) -> None:
                attempts.append(number)
                await ctx.publish("told", number)
                if ctx.attempt == 1 and number % 3 == 0:
                    raise ValueError("not yet")

            @app.consumer("told", group="tell", key_concurrency=1)
            async def tell(number: int) -> None:
                booked.add(number)

            await stack.enter_async_context(app.worker())
        await app.publish_many([("booked", number) for number in range(7)], key="k")
        await booked.count(7)
        await emptied(app)

    assert attempts == [0, 0, 1, 2, 3, 3, 4, 5, 6, 6]
    # What a failed attempt has published was never sent.
    assert sorted(booked.items) == list(range(7))


async def test_a_batch_has_one_of_each_key_in_their_order(make: Make) -> None:
    batches: Seen[list[tuple[str | None, int]]] = Seen()
    app = make()

    @app.consumer("booked", group="book", ordered=True, batch=10, linger=timedelta(milliseconds=10))
    async def book(numbers: list[int], ctx: BatchContext) -> None:
        batches.add([(each.key, number) for each, number in zip(ctx.contexts, numbers, strict=True)])

    async with app.worker():
        await app.publish_many([("booked", number) for number in range(6)], key="a")
        await app.publish_many([("booked", number) for number in range(6)], key="b")
        await emptied(app)

    assert all(len({key for key, _ in each}) == len(each) for each in batches.items)
    for wanted in ("a", "b"):
        assert [number for each in batches.items for key, number in each if key == wanted] == list(range(6))


async def test_what_is_cancelled_lets_those_behind_it_go(make: Make) -> None:
    """A first of its key that waits to be tried again, for long."""
    books, app = Books(), make()

    @app.consumer("booked", ordered=True, retry=exponential("1h", attempts=3))
    async def book(number: int, ctx: Context) -> None:
        await books.book(number, ctx)
        if number == 0:
            raise ValueError("not yet")

    async with app.worker():
        first = await app.publish("booked", 0, key="k")
        await app.publish("booked", 1, key="k")

        async def waits_again() -> bool:
            return [each.state for each in await app.messages.list("scheduled")] == ["scheduled"]

        await eventually(waits_again)
        await app.cancel(first)
        await books.begun.count(2)

    assert books.of("k") == [0, 1]
