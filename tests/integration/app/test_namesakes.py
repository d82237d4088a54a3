"""Workers of one name in several namespaces or apps of one schema: each is itself, on the roster and when drained."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.model.errors import BadOption, StorageUnavailable
from mainspring.model.views import WorkerView


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers beat often: it is by its beat that one hears of an order."""
    monkeypatch.setattr("mainspring.runtime.janitor._ROUND", 0.05)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Mainspring]:
    """Makes an app on the test's database."""

    def app(name: str = "shop", namespace: str | None = None) -> Mainspring:
        made = Mainspring(f"sqlite:///{tmp_path / 'house.db'}", name=name, namespace=namespace)

        @made.consumer("orders", group=f"{name}-mail")
        async def mail(_order: Any) -> None: ...

        return made

    return app


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await true():
            await asyncio.sleep(0.01)


async def seen(app: Mainspring, count: int = 1) -> list[WorkerView]:
    """The workers that an app sees, as soon as there are so many."""

    async def there() -> bool:
        return len(await app.workers.list()) >= count

    await until(there)
    return await app.workers.list()


async def drained(app: Mainspring, of: str) -> None:
    async def so() -> bool:
        return any(each.app == of and each.condition == "drained" for each in await app.workers.list())

    await until(so)


async def test_workers_of_one_name_in_two_namespaces_are_two(make: Callable[..., Mainspring]) -> None:
    live, trial, plain = make(namespace="live"), make(namespace="trial"), make()
    async with live.worker(name="node"), trial.worker(name="node") as other, plain.worker(name="node"):
        views = [(await seen(app))[0] for app in (live, trial, plain)]
        await trial.workers.drain("node", by="ann")
        await drained(trial, "shop")

        assert [(each.name, each.app, each.groups) for each in views] == [("node", "shop", ("shop-mail",))] * 3
        assert [len((await app.roster()).workers) for app in (live, trial, plain)] == [1, 1, 1]
        assert not other.serves("trial/shop-mail")
        assert [(await seen(app))[0].condition for app in (live, plain)] == ["active", "active"]

        await trial.workers.resume("node")
        assert (await seen(trial))[0].draining_at is None


async def test_who_leaves_takes_no_namesake_off_the_roster(make: Callable[..., Mainspring]) -> None:
    live, trial = make(namespace="live"), make(namespace="trial")
    async with live.worker(name="node"), trial:
        (before,) = await seen(live)
        async with trial.worker(name="node"):
            await seen(trial)

        assert await trial.workers.list() == []
        (after,) = await live.workers.list()
        assert after.started_at == before.started_at


async def test_of_two_apps_the_one_that_is_meant_is_named_before_the_worker(make: Callable[..., Mainspring]) -> None:
    shop, bank = make("shop"), make("bank")
    async with shop.worker(name="node"), bank.worker(name="node"):
        views = await seen(shop, 2)
        with pytest.raises(BadOption, match=r"2 workers 'node'.*'bank/node' or 'shop/node'"):
            await shop.workers.drain("node")
        await shop.workers.drain("bank/node")
        await drained(shop, "bank")

        assert sorted((each.app, each.name) for each in views) == [("bank", "node"), ("shop", "node")]
        conditions = {each.app: each.condition for each in await shop.workers.list()}
        assert conditions == {"bank": "drained", "shop": "active"}


async def test_a_worker_with_a_name_of_its_own_that_starts_anew_claims_again(make: Callable[..., Mainspring]) -> None:
    app = make()
    async with app:
        async with app.worker(name="node") as first:
            await seen(app)
            await app.workers.drain("node")
            await drained(app, "shop")
            # Its process dies here: nobody takes leave for it.
            first._janitor.reporting._upkeep = Gone(first._janitor.reporting._upkeep)
        (left,) = await app.workers.list()
        async with app.worker(name="node") as second:

            async def anew() -> bool:
                (view,) = await app.workers.list()
                return view.started_at > left.started_at

            await until(anew)
            (view,) = await app.workers.list()

            assert (left.condition, view.condition) == ("drained", "active")
            assert second.serves("shop-mail")


class Gone:
    """The upkeep of a process that is no more: nothing of it arrives."""

    def __init__(self, upkeep: Any) -> None:
        self._upkeep = upkeep

    def __getattr__(self, name: str) -> Any:
        return getattr(self._upkeep, name)

    async def beat(self, _beat: Any) -> Any:
        raise StorageUnavailable("the process has died")
