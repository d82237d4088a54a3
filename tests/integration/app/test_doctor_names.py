"""Doctor names an app that has the default name, or shares its name with another application."""

import logging
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.app.observe.doctor import of_app
from mainspring.model.symptom import Symptom
from mainspring.model.views import Beat


def made(path: Path, group: str, **options: str) -> Mainspring:
    app = Mainspring(f"sqlite:///{path}/shop.db", auto_migrate=True, **options)  # type: ignore[arg-type]
    app.consumer("orders.placed", group=group)(repr)
    return app


async def names(app: Mainspring) -> list[Symptom]:
    return [each for each in await of_app(app, "shop:app", "") if each.about == "name"]


async def live(app: Mainspring, owner: str, group: str) -> None:
    async with app:
        storage = await app._connection.storage("the test")
        await storage.upkeep.beat(Beat(f"{owner}/{group}-1", owner, "host", 1, (group,), 0, "poll"))


async def test_the_default_name_is_a_warning_outside_of_development(tmp_path: Path) -> None:
    app = made(tmp_path, "mailer")
    await app.declare()

    [found] = await names(app)

    assert (found.grade, found.advice) == ("warning", "write Mainspring(…, name='shop'), or set MAINSPRING_NAME")
    assert await names(made(tmp_path, "mailer", name="shop")) == []
    assert await names(made(tmp_path, "mailer", preset="development")) == []


async def test_live_workers_of_the_name_with_other_groups_are_named(tmp_path: Path) -> None:
    app = made(tmp_path, "mailer", name="shop")
    await app.declare()
    await live(app, "shop", "mailer")
    await live(app, "other", "billing")
    before = await names(app)
    await live(app, "shop", "billing")

    [found] = await names(app)

    assert before == []
    assert found.summary == "live workers of 'shop' have none of the groups of this code: billing-1 with billing"


async def test_a_worker_with_the_default_name_says_so_when_it_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mainspring.app")

    async def said(app: Mainspring) -> list[str]:
        caplog.clear()
        async with app.worker():
            return [each.getMessage() for each in caplog.records if each.name == "mainspring.app"]

    in_memory = Mainspring("memory://")
    in_memory.consumer("orders.placed", group="mailer")(repr)

    assert await said(made(tmp_path, "mailer")) == [
        (
            "the app has the default name 'app': another one without a name would be the same app: "
            "write Mainspring(…, name='shop'), or set MAINSPRING_NAME"
        )
    ]
    assert await said(made(tmp_path, "other", preset="development")) == []
    assert await said(made(tmp_path, "third", name="shop")) == []
    assert await said(in_memory) == []


async def test_workers_of_another_version_are_another_release_not_another_application(tmp_path: Path) -> None:
    app = made(tmp_path, "mailer", name="shop")
    async with made(tmp_path, "billing", name="shop", version=2).worker():  # type: ignore[arg-type]
        of_two = await names(app)
    async with made(tmp_path, "billing", name="shop").worker():
        [found] = await names(app)

    assert of_two == []
    assert "have none of the groups of this code" in found.summary
