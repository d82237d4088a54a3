"""`app.stats.measures` and `app.stats.rates`: what really happened, on every database."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring, errors, intervals
from mainspring.model.measures import Bucket
from tests.integration.app.measuring import Make, maker, reckon, storage_of, until_measured


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    """Makes apps on one database; on memory each has its own."""
    return maker(request.param, tmp_path, postgres_url, postgres_schema)


@pytest.fixture(params=["sqlite", "postgresql"])
def share(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    """Makes apps that share a database."""
    return maker(request.param, tmp_path, postgres_url, postgres_schema)


async def test_measures_tell_what_became_of_every_delivery(make: Make) -> None:
    app = make()

    @app.consumer("orders.placed")
    async def mailer(number: int) -> None: ...

    @app.consumer("orders.placed", retry=intervals("1ms"))
    async def auditor(number: int) -> None:
        raise LookupError(number)

    async with app.worker():
        await app.publish_many([("orders.placed", number) for number in range(3)])
        everything = await until_measured(app, 9)
        mailed = (await app.stats.measures("15m", group="mailer")).total
        audited = (await app.stats.measures("24h", group="auditor")).total

    assert (everything.total.done, everything.total.failed, everything.total.dead) == (3, 3, 3)
    assert (everything.total.wait.total, everything.total.run.total) == (9, 9)
    assert (mailed.done, mailed.failed, mailed.dead, mailed.run.total) == (3, 0, 0, 3)
    assert (audited.done, audited.failed, audited.dead, audited.run.total) == (0, 3, 3, 6)
    assert audited.run.quantile(0.5) is not None


async def test_a_group_of_which_nothing_ended_has_empty_buckets(make: Make) -> None:
    app = make()

    async with app:
        view = await app.stats.measures("7d", group="nobody")
        rates = await app.stats.rates()

    assert len(view.buckets) == 1008
    assert view.total == Bucket(view.start)
    assert rates.groups == {}


async def test_what_was_measured_is_found_by_who_comes_later(share: Make) -> None:
    app = share()

    @app.consumer("work")
    async def work(number: int) -> None: ...

    async with app.worker():
        await app.publish("work", 1)
        await until_measured(app, 1)
    async with app.worker():
        await app.publish("work", 2)
        await until_measured(app, 2)
    async with share() as other:
        view = await other.stats.measures("2h")

    assert view.total.done == 2


async def test_rates_are_those_of_each_group(make: Make) -> None:
    app = make()

    @app.consumer("work")
    async def work(number: int) -> None: ...

    async with app.worker():
        await app.publish_many([("work", number) for number in range(5)])
        await until_measured(app, 5)
        rates = await app.stats.rates("10m")

    assert list(rates.groups) == ["work"]
    assert rates.of("work").done == 5
    assert 600 <= rates.seconds <= 610
    assert rates.rate("work") == pytest.approx(5 / rates.seconds)


async def test_namespaces_measure_apart(share: Make) -> None:
    apps = [share(namespace="staging"), share(namespace="live"), share()]
    async with contextlib.AsyncExitStack() as stack:
        for count, app in enumerate(apps, 1):

            @app.consumer("work")
            async def work(number: int) -> None: ...

            await stack.enter_async_context(app.worker())
            await app.publish_many([("work", number) for number in range(count)])
            await until_measured(app, count)

        counts = [(await app.stats.measures("15m", group="work")).total.done for app in apps]
        everything = [(await app.stats.measures("15m")).total.done for app in apps]
        paced = [{group: each.done for group, each in (await app.stats.rates()).groups.items()} for app in apps]

    assert counts == everything == [1, 2, 3]
    assert paced == [{"work": 1}, {"work": 2}, {"work": 3}]


async def test_a_handlers_own_transaction_is_measured(share: Make) -> None:
    app = share()

    @app.consumer("work", transactional=True)
    async def work(number: int) -> None: ...

    @app.consumer("many", transactional=True, batch=2)
    async def many(numbers: list[int]) -> None: ...

    async with app.worker():
        await app.publish_many([("work", 1), ("many", 1), ("many", 2)])
        view = await until_measured(app, 3)

    assert (view.total.done, view.total.wait.total, view.total.run.total) == (3, 3, 3)


@pytest.mark.parametrize("where", [{}, {"cpu": True, "concurrency": 1}])
async def test_functions_in_threads_and_processes_are_measured(where: dict[str, Any]) -> None:
    app = Mainspring("memory://")
    app.consumer("work", **where)(reckon)

    async with app.worker():
        await app.publish("work", 3)
        view = await until_measured(app, 1)

    assert (view.total.done, view.total.wait.total, view.total.run.total) == (1, 1, 1)


async def test_a_queue_is_measured_from_claim_to_verdict(make: Make) -> None:
    app = make()

    async with app:
        queue = app.queue("frames", "frame", retry=intervals())
        await queue.declare()
        await app.publish_many([("frame", number) for number in range(3)])
        first, second, third = await queue.claim(3)
        await queue.ack(first)
        await queue.fail(second, error="broken")
        await queue.abandon(third, delay="1h")
    async with app:
        view = await app.stats.measures("2h", group="frames")

    counted = view.total
    assert (counted.done, counted.failed, counted.dead, counted.snoozed) == (1, 0, 1, 1)
    assert (counted.wait.total, counted.run.total) == (3, 3)


def test_the_blocking_twins_tell_the_same(share: Make) -> None:
    app = share()

    @app.consumer("work")
    async def work(number: int) -> None: ...

    app.sync.publish("work", 1)
    view, rates, text = app.sync.stats.measures("24h"), app.sync.stats.rates("1m"), app.sync.metrics()
    app.sync.close()

    assert (len(view.buckets), view.total.ended) == (144, 0)
    assert rates.groups == {}
    assert 'mainspring_published_total{topic="work"} 1.0' in text.splitlines()


async def test_a_window_that_there_is_none_of_is_refused() -> None:
    async with Mainspring("memory://") as app:
        with pytest.raises(errors.BadOption, match="window='1h' must be one of '15m', '2h', '24h', '7d'"):
            await app.stats.measures("1h")  # type: ignore[arg-type]
        with pytest.raises(errors.BadOption, match="over="):
            await app.stats.rates("3h")
        with pytest.raises(errors.BadOption, match="over="):
            await app.stats.rates("1s")
        with pytest.raises(errors.BadOption, match="group="):
            await app.stats.measures(group="a/b")


async def test_an_app_that_is_not_open_says_so() -> None:
    app = Mainspring("memory://")

    with pytest.raises(errors.NotOpen, match=r"app\.stats\.measures\(\)"):
        await app.stats.measures()
    with pytest.raises(errors.NotOpen, match=r"app\.stats\.rates\(\)"):
        await app.stats.rates()
    with pytest.raises(errors.NotOpen, match=r"app\.metrics\(\)"):
        await app.metrics()


async def test_a_worker_prunes_what_nobody_asks_for_any_more(make: Make) -> None:
    app = make()

    @app.consumer("work")
    async def work(number: int) -> None: ...

    async with app.worker():
        await app.publish("work", 1)
        view = await until_measured(app, 1)
        storage = await storage_of(app)
        storage.now = view.now.replace(year=view.now.year + 1)
        pruned = await app.prune()
        storage.now = None
        left = (await app.stats.measures("2h")).total.ended

    assert pruned.measures > 0
    assert left == 0
