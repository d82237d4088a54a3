"""A cap on what one worker has at once, over all of its consumers, as an option of the app or of one worker."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.model.errors import BadOption
from mainspring.runtime.worker import Worker
from tests.integration.app.shop import eventually

Make = Callable[..., Mainspring]


@pytest.fixture(params=["sqlite", "asyncpg", "psycopg"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    """Makes apps on one database."""
    if request.param == "sqlite":
        return lambda **options: Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop", **options)
    url = postgres_url.replace("postgresql://", f"postgresql+{request.param}://", 1)
    return lambda **options: Mainspring(url, schema=postgres_schema, name="shop", **options)


async def test_all_consumers_of_a_worker_together_stay_within_its_cap(make: Make) -> None:
    app = make(worker_concurrency=5)
    handled: Counter[str] = Counter()
    begun: list[int] = []
    in_hand: list[int] = []
    working: list[Worker] = []

    async def handle(group: str) -> None:
        begun.append(sum(each.begun for each in working[0]._executors))
        in_hand.append(working[0].in_hand)
        await asyncio.sleep(0.01)
        handled[group] += 1

    def consumer(group: str, **options: Any) -> None:
        @app.consumer("mail", group=group, **options)
        async def _(_number: int) -> None:
            await handle(group)

    consumer("mail", concurrency=50)
    consumer("narrow", concurrency=2)
    consumer("ordered", ordered=True)
    consumer("limited", global_concurrency=3)
    consumer("stored", transactional=True)

    @app.consumer("mail", batch=5, linger="5ms")
    async def together(numbers: list[int]) -> None:
        for _ in numbers:
            await handle("together")

    groups = ("mail", "narrow", "ordered", "limited", "together", "stored")

    async def all_handled() -> bool:
        return all(handled[group] == 60 for group in groups)

    async with app:
        await app.declare()
        for number in range(60):
            await app.publish("mail", number, key=f"k{number % 5}")
        async with app.worker() as worker:
            working.append(worker)
            await eventually(all_handled)
            slots = worker._fetchers._slots
            assert slots is not None
            async with asyncio.timeout(10):
                while slots.free < 5:  # else one is lost
                    await asyncio.sleep(0.01)

    assert max(begun) == 5
    assert max(in_hand) <= 10


async def test_the_cap_of_one_worker_replaces_that_of_the_app() -> None:
    app = Mainspring("memory://", worker_concurrency=5)

    @app.consumer("mail")
    async def mail(_: int) -> None: ...

    async with app.worker() as worker:
        assert worker._settings.concurrency == 5
    async with app.worker(concurrency=2) as worker:
        assert worker._settings.concurrency == 2
    with pytest.raises(BadOption, match="concurrency=0 must be a whole number from 1 to 10,000"):
        async with app.worker(concurrency=0):
            pass


async def test_a_batch_that_the_cap_would_never_let_fill_is_rejected() -> None:
    app = Mainspring("memory://", worker_concurrency=50)

    @app.consumer("mail", batch=51)
    async def mail(_: list[int]) -> None: ...

    @app.consumer("other")
    async def other(_: int) -> None: ...

    with pytest.raises(BadOption) as rejected:
        async with app.worker():
            pass

    assert str(rejected.value).endswith(
        "mail takes batches of 51, and worker_concurrency=50 is less, so that none would be full: "
        "write worker_concurrency=51 or more, or batch=50 or less"
    )
    async with app.worker(groups=["other"]), app.worker(concurrency=51):
        pass
